# SPDX-License-Identifier: BSD-2-Clause
# The rings of tests, by how long one waits: quick, a minute, of one room a third of it; check (test.mk), minutes; the
# gate (.ci/run), three quarters of an hour; nightly, hours.  CONTRIBUTING.md says which ring shows what.

ROOM ?= base wheel lane worker timer store

# What goes through the files of each room first; and what the room means to those above it.
QUICK_base := slab counter sleeper monitor waiters wide script
QUICK_wheel := bucket ring levels wheel world oracle
QUICK_lane := lane full trim script interleave
QUICK_worker := timer idle full tasks trim_calls script
QUICK_timer := timer environment script
API_timer := api api_config api_life collect loop stats
TWIN_wheel := wheel world oracle
TWIN_worker := idle
STORE_quick := basic bad engine

of_rooms = $(foreach room,$(ROOM),$($(1)_$(room)))
QUICK_RUNS := $(filter $(UNIT_TESTS),$(patsubst %,$(BUILD)/test/unit_%,$(call of_rooms,QUICK))) \
	$(filter $(API_TESTS),$(patsubst %,$(BUILD)/test/test_%,$(call of_rooms,API))) \
	$(addprefix hierarchical:,$(filter $(UNIT_TESTS),$(patsubst %,$(BUILD)/test/unit_%,$(call of_rooms,TWIN)))) \
	$(if $(STORE_SQLITE),$(if $(filter store,$(ROOM)),$(filter $(STORE_TESTS),$(STORE_quick:%=$(BUILD)/test/store_%)))) \
	$(if $(filter lane worker timer,$(ROOM)),$(SIM)) \
	$(if $(filter store,$(ROOM)),$(STORE_SIM)) \
	$(if $(filter lane worker,$(ROOM)),test/weak.sh)

.PHONY: quick nightly

quick: $(filter-out hierarchical:%,$(QUICK_RUNS)) ## the tests of a minute; ROOM=lane those of one room (base wheel lane worker timer store)
	$(if $(filter-out store,$(ROOM)),$(MAKE) -s bench-check & counting=$$!;) \
		HWT_SCALE=$${HWT_SCALE:-3} CC='$(CC)' CXX='$(CXX)' SAN='$(SAN)' test/run.sh $(BUILD) $(QUICK_RUNS); \
		failed=$$?; wait $$counting && exit $$failed

nightly: ## everything: each compiler with each sanitizer, all planted faults, coverage, long tortures (hours)
	.ci/run nightly
