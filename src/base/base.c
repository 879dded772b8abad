/* SPDX-License-Identifier: BSD-2-Clause */
/* The hook of the test build; base.h. */
#include "base/base.h"

#ifdef HWT_TEST
_Atomic(hwt_point_hook *) hwt_test_point;
#else
/* ISO C forbids an empty file. */
extern int hwt_base_is_a_header;
#endif
