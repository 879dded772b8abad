/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_CONFIG_H
#define HWT_CONFIG_H

#include "base/base.h"

#include <hwt.h>

/* The effective settings of *in (NULL: the defaults) to *out; warns through them.  EINVAL, ENOTSUP. */
int hwt_config_resolve(hwt_config *out, const hwt_config *in);

/* As much of *config as out->size, which is kept, has room for.  EINVAL: not even one field. */
int hwt_config_copy_out(hwt_config *out, const hwt_config *config);

#endif
