/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Seeds that once failed: the test, the seed, and what it found.  The last one of a test is what it draws from where
 * HWT_SEED says nothing.  The simulations have such tables of their own, and try all of them.
 */
{ "news", 554859854589, "a reading that was asked for during the first one waited for a renewal" },
