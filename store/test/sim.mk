# SPDX-License-Identifier: BSD-2-Clause
# The store in a simulation; store/test/sim/sim.h.

STORE_SIM_WRAPS := pthread_create pthread_join pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_timedwait \
	pthread_cond_signal pthread_cond_broadcast getpid kill clock_gettime nanosleep pipe2 timerfd_create timerfd_settime close read write \
	ppoll hwts_random
STORE_SIM_SRC := $(filter-out store/src/db/%,$(wildcard store/src/*/*.c))
STORE_SIM_PARTS := $(patsubst store/test/sim/%.c,$(BUILD)/store-sim/test/%.o,$(wildcard store/test/sim/*.c)) \
	$(patsubst test/frame/%.c,$(BUILD)/store-sim/frame/%.o,$(wildcard test/frame/*.c))
STORE_SIM_CPPFLAGS := -Istore/include -Istore/src -I$(BUILD)/made -DHWT_STORE_POSTGRES -DHWT_TEST

$(BUILD)/store-sim/%.o: store/src/%.c store/test/sim/own.h | $(STORE_MADE)
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) -include store/test/sim/own.h $(STORE_SIM_CPPFLAGS) $(POSIX) $(ALL_CFLAGS) \
		-fsanitize-coverage=trace-pc -c -o $@ $<

$(BUILD)/store-sim/test/%.o: store/test/sim/%.c | $(STORE_MADE)
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(STORE_SIM_CPPFLAGS) -Itest -Istore/test/sim $(GNU) $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/store-sim/frame/%.o: test/frame/%.c | $(STORE_MADE)
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(STORE_SIM_CPPFLAGS) -Itest -Istore/test/sim $(GNU) $(TEST_CFLAGS) -c -o $@ $<

# Sanitizers do not know its actors.
STORE_SIM := $(if $(SAN),,$(if $(STORE),$(BUILD)/test/store_sim))

$(BUILD)/test/store_sim: $(STORE_SIM_SRC:store/src/%.c=$(BUILD)/store-sim/%.o) $(STORE_SIM_PARTS) | $(BUILD)/test
	$(QCC) -o $@ $^ $(STORE_SIM_WRAPS:%=-Wl$(comma)--wrap=%) $(ALL_LDFLAGS)

store-tests: $(STORE_SIM)

# Its tables beside those of the databases.
$(BUILD)/test/store_differs.o: ALL_CPPFLAGS += -Istore/test/sim
$(BUILD)/test/store_differs: $(filter $(BUILD)/store-sim/test/tables.o $(BUILD)/store-sim/test/statements%.o,$(STORE_SIM_PARTS))

.PHONY: store-sim
store-sim: $(BUILD)/test/store_sim $(BUILD)/test/store_differs ## the store in a simulation, its statements beside the databases', under random seeds, SECONDS=60
	HWT_SIM_SECONDS=$(or $(SECONDS),60) $<
	HWT_SIM_SECONDS=$(or $(SECONDS),60) BUILD=$(BUILD) test/exec.sh $(if $(STORE_POSTGRES),postgresql:)$(BUILD)/test/store_differs
