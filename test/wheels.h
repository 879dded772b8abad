/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the same tests on the other wheel: with HWT_TEST_WHEEL=hierarchical every HWT_CONFIG_INIT asks for it. */
#ifndef HWT_TEST_WHEELS_H
#define HWT_TEST_WHEELS_H

#include <hwt.h>

#include <stdlib.h>
#include <string.h>

static inline bool test_is_hierarchical(void)
{
	const char *wish = getenv("HWT_TEST_WHEEL");

	return wish != NULL && strcmp(wish, "hierarchical") == 0;
}

static inline hwt_config test_config(void)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.wheel = test_is_hierarchical() ? HWT_WHEEL_HIERARCHICAL : HWT_WHEEL_HASHED;
	return config;
}

#undef HWT_CONFIG_INIT
#define HWT_CONFIG_INIT test_config()

#endif
