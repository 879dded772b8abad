/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

#ifdef HWT_TEST
_Atomic(hwt_point_hook *) hwt_test_point;
#else
/* ISO C wants something in a file. */
extern int hwt_base_is_a_header;
#endif
