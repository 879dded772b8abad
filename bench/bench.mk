# SPDX-License-Identifier: BSD-2-Clause
# Rules for the bench; see bench/README.md.  What rivals need is looked for only when they are built.

BENCH_SO := rival_libevent rival_libuv rival_glib
BENCH_SRC := $(filter-out $(BENCH_SO:%=bench/%.c),$(wildcard bench/*.c))
BENCH_RESULTS ?= bench/results
NETTY_JARS := /usr/share/java/netty-common.jar:/usr/share/java/jctools-core.jar
BENCH_HAVE = pkg-config --exists $(1) 2>/dev/null
BENCH_BUILDING = $(if $(V),,$(SAY) '  CC  $@'; )

$(BUILD)/bench/%.o: bench/%.c | $(BUILD)/bench
	$(QCC) $(ALL_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -c -o $@ $<

# The rivals that are shared objects find now_ns and its like in here.
$(BENCH): $(BENCH_SRC:bench/%.c=$(BUILD)/bench/%.o) $(BUILD)/libhwt.a
	$(QCC) -o $@ $^ $(ALL_LDFLAGS) -lm -ldl

# Rivals: each if what it needs is installed, otherwise nothing, and the bench says that it is missing.
BENCH_RIVALS := $(addprefix $(BUILD)/bench/,$(BENCH_SO:%=%.so) rival_asio.so netty-bench go-bench)
RIVAL_CFLAGS = $(filter-out -MMD -MP,$(ALL_CPPFLAGS)) $(GNU) $(ALL_CFLAGS) -fPIC -shared
PKG_rival_libevent := libevent libevent_pthreads
PKG_rival_libuv := libuv
PKG_rival_glib := glib-2.0

$(BENCH_SO:%=$(BUILD)/bench/%.so): $(BUILD)/bench/%.so: bench/%.c bench/subject.h bench/nodes.h | $(BUILD)/bench
	@if $(call BENCH_HAVE,$(PKG_$*)); then $(BENCH_BUILDING) $(CC) $(RIVAL_CFLAGS) -o $@ $< \
		$$(pkg-config --cflags $(PKG_$*) | sed 's/-I/-isystem /g') $$(pkg-config --libs $(PKG_$*)); fi

$(BUILD)/bench/rival_asio.so: bench/rival_asio.cpp bench/subject.h bench/nodes.h | $(BUILD)/bench
	@if echo '#include <boost/asio/steady_timer.hpp>' | $(CXX) -M -x c++ - >/dev/null 2>&1; then $(BENCH_BUILDING) \
		$(CXX) -std=c++17 $(OPT) -Wall -Wextra -Wpedantic -Wshadow -Wconversion -pthread -fPIC -shared \
		-o $@ $<; fi

$(BUILD)/bench/netty-bench: bench/netty/netty-bench.sh $(wildcard bench/netty/*.java) | $(BUILD)/bench
	@if command -v javac >/dev/null 2>&1 && test -e $(firstword $(subst :, ,$(NETTY_JARS))); then \
		$(if $(V),,$(SAY) '  JAVAC  $@';) \
		javac -Xlint:all -cp $(NETTY_JARS) -d $(BUILD)/bench/netty $(filter %.java,$^) && \
		sed 's|@JARS@|$(NETTY_JARS)|' $< >$@ && chmod +x $@; fi

# No network: nothing but Go's own library is used.
$(BUILD)/bench/go-bench: $(wildcard bench/go/*.go) bench/go/go.mod | $(BUILD)/bench
	@if command -v go >/dev/null 2>&1; then $(if $(V),,$(SAY) '  GO  $@'; ) \
		cd bench/go && GOFLAGS=-mod=mod GOPROXY=off CGO_ENABLED=0 GOTOOLCHAIN=local \
		go build -buildvcs=false -o $(abspath $@) .; fi

$(BENCH_RESULTS):
	$(Q)mkdir -p $@

bench: $(BENCH) $(BENCH_RIVALS) | $(BENCH_RESULTS) ## the most telling scenarios (ten minutes); make bench-full all of them (hours)
	bench/run.sh $(BUILD) $(BENCH_RESULTS)/quick.csv -q $(BENCH_ARGS)

bench-full: $(BENCH) $(BENCH_RIVALS) | $(BENCH_RESULTS)
	bench/run.sh $(BUILD) $(BENCH_RESULTS)/full.csv $(BENCH_ARGS)

# The two wheels on virtual time.
$(BUILD)/bench/wheels: bench/wheels/wheels.c $(BUILD)/libhwt.a | $(BUILD)/bench
	$(QCC) $(ALL_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libhwt.a $(ALL_LDFLAGS) -lm

bench-wheels: $(BUILD)/bench/wheels | $(BENCH_RESULTS) ## the two wheels on virtual time
	$< $(BENCH_ARGS) >$(BENCH_RESULTS)/wheels.csv

# hwt.hpp beside the C calls, and beside Boost.Asio where that is installed.
$(BUILD)/bench/cpp: bench/cpp/cpp.cpp $(BUILD)/libhwt.a | $(BUILD)/bench
	$(QCXX) -std=c++17 $(ALL_CXXFLAGS) $(ALL_CPPFLAGS) -o $@ $< $(BUILD)/libhwt.a $(ALL_LDFLAGS)

bench-cpp: $(BUILD)/bench/cpp
	$< $(BENCH_ARGS)

# Tasks on the worker and on task threads.
$(BUILD)/bench/threads: bench/threads/threads.c $(BUILD)/libhwt.a | $(BUILD)/bench
	$(QCC) $(ALL_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libhwt.a $(ALL_LDFLAGS)

bench-threads: $(BUILD)/bench/threads ## task threads: the rate of short tasks, and lateness while one thread is held
	$< $(BENCH_ARGS)

bench-check: ## counts the instructions of each operation, against bench/instructions.txt
	CC='$(CC)' BUILD='$(BUILD)' bench/check/check.sh || [ $$? -eq 77 ]

# What the pictures of the documents show, measured (minutes, on an idle machine), and the pictures.
figures: $(BENCH) $(BENCH_RIVALS) ## measures what the pictures of the documents show, into bench/figures.csv
	bench/figures.sh $(BUILD)

plots: ## draws the pictures of the documents
	bench/plot.sh bench/figures.csv doc
	bench/wheels/plot.sh bench/wheels/wheels.csv doc/wheels.svg
	store/bench/rivals/plot.sh store/bench/rivals/rivals.csv store/doc/rivals.svg
	doc/rooms.sh

bench-deps:
	bench/deps.sh

.PHONY: figures plots bench bench-full bench-check bench-cpp bench-deps bench-threads bench-wheels
