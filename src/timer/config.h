/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings, as the creator of a timer gives them and as it gets them back. */
#ifndef HWT_CONFIG_H
#define HWT_CONFIG_H

#include "base/base.h"

#include <hwt.h>

/*
 * Writes the settings in force for *in (NULL: the defaults) to *out, and warns by in->warn.  Returns 0, EINVAL or
 * ENOTSUP.
 */
int hwt_config_resolve(hwt_config *out, const hwt_config *in);

/* Copies as much of *config as out->size, which is kept, has room for.  EINVAL: not even one field. */
int hwt_config_copy_out(hwt_config *out, const hwt_config *config);

#endif
