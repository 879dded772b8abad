/* SPDX-License-Identifier: BSD-2-Clause */
/* The same test bodies on the other wheel: with TEST_HIERARCHICAL every HWT_CONFIG_INIT asks for it. */
#ifndef HWT_TEST_WHEELS_H
#define HWT_TEST_WHEELS_H

#ifdef TEST_HIERARCHICAL
#undef HWT_CONFIG_INIT
/* clang-format off */
#define HWT_CONFIG_INIT                                                                             \
	{                                                                                           \
		sizeof(hwt_config), HWT_MS(100), 512, 100000, 0, 0, HWT_WHEEL_HIERARCHICAL, NULL,   \
		NULL, hwt_warn_stderr, NULL, NULL, { 0, 0, 0, 0, 0, 0, 0, 0 }                       \
	}
/* clang-format on */
#endif

#endif
