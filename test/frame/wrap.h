/* SPDX-License-Identifier: BSD-2-Clause */
/* A function in place of another one, to which the linker leads the program's calls (--wrap). */
#ifndef HWT_FRAME_WRAP_H
#define HWT_FRAME_WRAP_H

#define WRAP(type, name, ...)                                                                                          \
	type __real_##name(__VA_ARGS__);                                                                               \
	type __wrap_##name(__VA_ARGS__);                                                                               \
	type __wrap_##name(__VA_ARGS__)

#endif
