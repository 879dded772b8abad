/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes for bpftrace, perf and their like (USDT).  Each is a no-op, and a note in the ELF file that says where it is
 * and where its arguments are.  The library has them if sys/sdt.h was there when it was built; -DHWT_NO_PROBES leaves
 * them out.  doc/hwt.bt uses them.
 *
 *   hwt:schedule  entry of the handle, deadline_ns
 *   hwt:cancel    entry; after a cancel that returned 0
 *   hwt:expire    entry, how many ns after the deadline the tick began; before the task
 *   hwt:tick      number of the tick, how many ns its work took
 */
#ifndef HWT_PROBE_H
#define HWT_PROBE_H

#if !defined(HWT_NO_PROBES) && defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define HWT_HAS_PROBES 1
#endif
#endif

#ifdef HWT_HAS_PROBES
#ifdef __clang__
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments" /* sdt.h counts arguments by it */
#endif
#define HWT_PROBE(name, first, second) STAP_PROBE2(hwt, name, first, second)
#else
#define HWT_PROBE(name, first, second) ((void)0)
#endif

#endif
