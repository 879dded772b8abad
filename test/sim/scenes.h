/* SPDX-License-Identifier: BSD-2-Clause */
/* Lives that random calls would not lead to. */
#ifndef HWT_SIM_SCENES_H
#define HWT_SIM_SCENES_H

void live_through_a_burst(void);
void live_through_steps(void);
void live_at_twice_the_size(void);
void live_beside_a_sleeper(void);

#endif
