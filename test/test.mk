# SPDX-License-Identifier: BSD-2-Clause
# The tests.  unit_* go through internal headers and are linked with a build that has seams for time and memory; test_*
# use the shared library, as its users do.

CHECKER := $(wildcard test/check/*.c)
# ThreadSanitizer takes minutes for these and has nothing to see: they have one thread.
LEFT_OUT ?= $(if $(findstring thread,$(SAN)),$(addprefix unit_,bucket counter levels monitor oracle ring \
	script slab wheel wide world))
UNIT_TESTS := $(filter-out $(LEFT_OUT:%=$(BUILD)/test/%),$(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/unit_*.c)))
API_TESTS := $(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/test_*.c))
# hwt.hpp in two standards, where there is a C++ compiler.
CPP_TESTS := $(if $(shell command -v $(CXX) 2>/dev/null),$(addprefix $(BUILD)/test/test_cpp,17 20))
# The same programs once more, on the hierarchical wheel.  Others draw the wheel themselves, or take both.
TWINS ?= $(patsubst %,hierarchical:$(BUILD)/test/%,\
	$(if $(findstring thread,$(SAN)),,unit_wheel unit_world unit_oracle unit_idle) test_memory)

.PHONY: check check-more sim soak fuzz model genmc static aarch64 coverage mutants mutants-sample mutants-random races memcheck platforms weather

$(BUILD)/unit/%.o: src/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(POSIX) -DHWT_TEST $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/unit/check/%.o: test/check/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) -Itest $(POSIX) -DHWT_TEST $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/libhwt-unit.a: $(SRC:src/%.c=$(BUILD)/unit/%.o) $(CHECKER:test/%.c=$(BUILD)/unit/%.o)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# What is linked is compiled apart: after a change of the library it is only linked again.
.SECONDARY: $(patsubst test/%.c,$(BUILD)/test/%.o,$(wildcard $(addprefix test/,unit_*.c test_*.c debug_*.c)))

$(BUILD)/test/unit_%.o: test/unit_%.c | $(BUILD)/test
	$(QCC) $(ALL_CPPFLAGS) -Itest $(GNU) -DHWT_TEST $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/test/unit_%: $(BUILD)/test/unit_%.o $(BUILD)/libhwt-unit.a
	$(QCC) $(ALL_CFLAGS) -o $@ $(filter %.o %.a,$^) $(ALL_LDFLAGS)

$(BUILD)/test/unit_sleeper: ALL_LDFLAGS += -Wl,--wrap=pthread_cond_timedwait
$(BUILD)/test/unit_tasks: ALL_LDFLAGS += -Wl,--wrap=pthread_create

# The library in a simulation; test/sim/sim.h.
SIM_WRAPS := pthread_create pthread_join pthread_setname_np pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock \
	pthread_cond_wait pthread_cond_timedwait pthread_cond_signal pthread_cond_broadcast sched_yield syscall \
	clock_gettime clock_nanosleep timerfd_create timerfd_settime poll close \
	hwt_mem_zeroed hwt_mem_block hwt_mem_free hwt_mem_give_back
SIM_PARTS := $(patsubst test/%.c,$(BUILD)/sim/test/%.o,$(wildcard test/sim/*.c test/frame/*.c) $(CHECKER))

$(BUILD)/sim/%.o: src/%.c test/sim/points.h
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) -include test/sim/points.h $(POSIX) -DHWT_TEST -DHWT_NO_COUNTER $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/sim/test/%.o: test/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) -Itest -Itest/sim $(GNU) -DHWT_TEST -DHWT_NO_COUNTER $(TEST_CFLAGS) -c -o $@ $<

# Sanitizers do not know its actors, and test/sim/points.h needs a <stdatomic.h> that brings no other header, as gcc's.
SIM := $(if $(SAN)$(findstring clang,$(shell $(CC) --version 2>/dev/null)),,$(filter-out $(LEFT_OUT:%=$(BUILD)/test/%),$(BUILD)/test/sim))

$(BUILD)/test/sim: $(SRC:src/%.c=$(BUILD)/sim/%.o) $(SIM_PARTS) | $(BUILD)/test
	$(QCC) -o $@ $^ $(SIM_WRAPS:%=-Wl$(comma)--wrap=%) $(ALL_LDFLAGS)

# What a debug build finds.
DEBUG_TESTS := $(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/debug_*.c))

.SECONDARY: $(SRC:src/%.c=$(BUILD)/debug/%.o)
$(BUILD)/debug/%.o: src/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(POSIX) -DHWT_DEBUG $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/test/debug_%.o: test/debug_%.c | $(BUILD)/test
	$(QCC) $(ALL_CPPFLAGS) -Itest $(GNU) -DHWT_DEBUG $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/test/debug_%: $(BUILD)/test/debug_%.o $(SRC:src/%.c=$(BUILD)/debug/%.o)
	$(QCC) $(ALL_CFLAGS) -o $@ $(filter %.o %.a,$^) $(ALL_LDFLAGS)

$(BUILD)/test/test_%.o: test/test_%.c | $(BUILD)/test
	$(QCC) $(ALL_CPPFLAGS) -Itest $(GNU) $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/test/test_%: $(BUILD)/test/test_%.o $(BUILD)/libhwt.so
	$(QCC) $(ALL_CFLAGS) -o $@ $< -L$(BUILD) -lhwt \
		-Wl,--enable-new-dtags,-rpath,'$$ORIGIN/..' $(ALL_LDFLAGS)

$(CPP_TESTS): $(BUILD)/test/test_cpp%: test/test_cpp.cpp $(BUILD)/libhwt.so | $(BUILD)/test
	$(QCXX) -std=c++$* $(ALL_CXXFLAGS) $(ALL_CPPFLAGS) -Itest -o $@ $< -L$(BUILD) -lhwt \
		-Wl,--enable-new-dtags,-rpath,'$$ORIGIN/..' $(ALL_LDFLAGS)

# The longest first, so that none of them is what the end waits for.
PROGRAMS := $(UNIT_TESTS) $(API_TESTS) $(DEBUG_TESTS) $(CPP_TESTS) $(SIM)
RUNS = $(PROGRAMS) $(TWINS)
LONG := %/unit_interleave %/sim %/store_sim %/unit_oracle %/test_stress_all %/test_memory

# What looks at the sources, and names its compilers itself; and what is compiled and run as the tests are.
SOURCE_CHECKS ?= test/layers.sh test/edges.sh test/man.sh store/test/store_man.sh store/test/places.sh
BUILD_CHECKS ?= test/abi.sh test/examples.sh test/dlopen.sh test/gdb.sh
# What compiles the same again and again, or takes as long as all others: the gate's, and of whom a change concerns.
MORE_CHECKS = test/header.sh test/docs.sh test/hpp.sh test/bench.sh test/lua.sh $(STORE_CHECKS) $(if $(STORE),store/test/languages.sh store/test/history.sh)

# For a build beside others, TWINS=, SOURCE_CHECKS=, BUILD_CHECKS= and STORE= leave out what hangs on the compiler less than on
# chance or not at all.  What draws numbers does less than a tenth of what the gate does.
check: all $(PROGRAMS) $(if $(BUILD_CHECKS),$(EXAMPLES) $(EXAMPLES_MORE)) $(STORE_TESTS) $(STORE_SIM) ## all tests but those of check-more; make check-store all of libhwt-store
	$(if $(SAN),,HWT_SCALE=$${HWT_SCALE:-3}) CC='$(CC)' CXX='$(CXX)' SAN='$(SAN)' test/run.sh $(BUILD) $(filter $(LONG),$(RUNS) $(CHECK_STORE_RUNS)) \
		$(filter-out $(LONG),$(RUNS) $(CHECK_STORE_RUNS)) \
		$(SOURCE_CHECKS) $(BUILD_CHECKS)

check-more: all $(EXAMPLES) $(EXAMPLES_MORE) $(BENCH) ## headers and documents by each compiler, other languages, hwt-jobs, histories
	CC='$(CC)' CXX='$(CXX)' SAN='$(SAN)' test/run.sh $(BUILD) $(MORE_CHECKS)

weather: $(PROGRAMS) $(STORE_TESTS) $(BUILD)/weather.so ## all test programs, on a machine that seems to be busy
	HWT_SCALE=$${HWT_SCALE:-20} test/run.sh $(BUILD) $(addprefix weather:,$(filter-out %/unit_interleave %/sim,$(PROGRAMS)) $(filter-out %/store_sim,$(STORE_RUNS)))

$(BUILD)/weather.so: test/weather.c | $(BUILD)/test
	$(QCC) $(filter-out -pthread,$(ALL_CFLAGS)) -fPIC -shared -o $@ $< -ldl

sim: $(BUILD)/test/sim ## simulations under random seeds, SECONDS=60 of each scenario
	HWT_SIM_SECONDS=$(or $(SECONDS),60) $<

soak: $(API_TESTS) ## a mixed load of some 10^9 operations (minutes)
	HWT_SCALE=$${HWT_SCALE:-2500} HWT_SOAK_S=$${HWT_SOAK_S:-600} test/run.sh $(BUILD) $(filter %stress_all %soak,$(API_TESTS))

mutants: ## plants faults, one by one, and demands that a test finds each
	CC='$(CC)' test/mutants.sh

mutants-sample: ## faults of what the last change touches, SECONDS=60
	CC='$(CC)' test/mutants.sh --sample $(SECONDS)

mutants-random: ## 100 faults of both libraries drawn by HWT_SEED; shows those that no test finds
	CC='$(CC)' test/random_mutants.sh

static: $(STORE_MADE)
static: ## clang-tidy, cppcheck, gcc -fanalyzer, shellcheck, as far as installed
platforms: ## musl, i386, no more than POSIX, and six processors under qemu; HWT_PLATFORMS=name names some
aarch64: ## cross build, tests under qemu
coverage: ## lines and branches of src/ that the tests reach
races: ## plants data races and demands that ThreadSanitizer reports each
static aarch64 platforms coverage races:
	test/run.sh $(BUILD) test/$@.sh

# Random programs that coverage leads, against the oracle; what it finds new stays in build-fuzz/corpus.
fuzz: build-fuzz/fuzz_oracle ## libFuzzer on the oracle, FUZZ_S seconds (clang)
	mkdir -p build-fuzz/corpus build-fuzz/begin
	tar -xf test/corpus.tar -C build-fuzz/begin
	build-fuzz/fuzz_oracle -max_total_time=$(or $(FUZZ_S),60) -max_len=4096 build-fuzz/corpus build-fuzz/begin

build-fuzz/fuzz_oracle: test/fuzz_oracle.c $(SRC) $(CHECKER) $(wildcard src/*/*.h test/*.h test/check/*.h)
	mkdir -p build-fuzz
	clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -Itest $(POSIX) -DHWT_TEST -pthread \
		-o $@ $(filter %.c,$^)

model: ## Spin models of the protocols, with planted faults
	CC='$(CC)' test/run.sh $(BUILD) model/run.sh

genmc: ## what ships under C11's memory model, with weakened orders; GENMC=path to the checker, else only a compilation
	GENMC='$(or $(GENMC),genmc)' CC='$(CC)' test/run.sh $(BUILD) test/weak.sh

memcheck: $(UNIT_TESTS) ## the single-threaded tests under valgrind
	test/run.sh $(BUILD) test/memcheck.sh
