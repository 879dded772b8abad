# SPDX-License-Identifier: BSD-2-Clause
# libhwt.  `make help` lists the targets.  Needs GNU make, a C11 compiler and Concurrency Kit's headers (`make deps`).

PREFIX ?= /usr/local
INCLUDEDIR ?= $(PREFIX)/include
LIBDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/libhwt
DESTDIR ?=

CC ?= cc
CXX ?= c++
OPT ?= -O3 -g
WARN = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
       -Wpointer-arith -Wcast-qual -Wundef -Wvla $(if $(WERROR),-Werror)

# V=1 shows whole commands.
Q := $(if $(V),,@)
SAY := $(if $(findstring s,$(firstword -$(MAKEFLAGS))),:,echo)
QCC = $(if $(V),,@$(SAY) '  CC  $@'; )$(CC)

# SAN=thread or SAN=address,undefined: everything again, in a folder of its own.
SAN ?=
comma := ,
BUILD := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
ifneq ($(SAN),)
OPT := -O1 -g
endif

# The same bytes from whatever folder it is built in.
SAME = -ffile-prefix-map=$(CURDIR)=.
ALL_CFLAGS = -std=c11 $(OPT) $(WARN) $(SANFLAGS) -pthread $(CFLAGS)
HIDDEN = -fvisibility=hidden

# How the library finds what each thread has for itself.
#   dynamic       loads everywhere: in a program, in a plugin, with musl.  By descriptors where the compiler has them.
#   initial-exec  an instruction or two less, but what is loaded at run time may fail to load, and always does with musl.
TLS ?= dynamic
DESCRIPTORS := -mtls-dialect=gnu2 -mgeneral-regs-only
ifeq ($(TLS),dynamic)
HAVE_DESCRIPTORS := $(if $(SAN),,$(shell $(CC) $(DESCRIPTORS) -Werror -S -x c -o /dev/null /dev/null 2>/dev/null && echo yes))
TLSFLAGS = $(if $(HAVE_DESCRIPTORS),$(DESCRIPTORS))
else
TLSFLAGS = -ftls-model=$(TLS)
endif
ALL_CPPFLAGS = -Iinclude -Isrc -MMD -MP $(CPPFLAGS)
ALL_LDFLAGS = $(SANFLAGS) -pthread $(LDFLAGS)
POSIX = -D_POSIX_C_SOURCE=200809L
GNU = -D_GNU_SOURCE

version_part = $(shell sed -n 's/^\#define HWT_VERSION_$(1) //p' include/hwt.h)
MAJOR := $(call version_part,MAJOR)
VERSION := $(MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SONAME := libhwt.so.$(MAJOR)

ROOMS := timer worker wheel lane base
SRC := $(wildcard $(ROOMS:%=src/%/*.c))
CHECKER := $(wildcard test/check/*.c)
# unit_*: through internal headers, linked with a build that has seams for time and memory.  test_*: the shared library, as users have it.
# ThreadSanitizer takes minutes for these and has nothing to see: they have one thread.
ONE_THREAD := $(if $(findstring thread,$(SAN)),unit_world unit_oracle unit_wheel unit_levels)
UNIT_TESTS := $(filter-out $(ONE_THREAD:%=$(BUILD)/test/%),$(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/unit_*.c)))
API_TESTS := $(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/test_*.c))
# The same programs once more: on the hierarchical wheel; and with the library's test build, in which threads lose their
# processor where it hurts (test/exec.sh).  ThreadSanitizer has no use for those of one thread.
TWINS ?= $(patsubst %,hierarchical:$(BUILD)/test/%,\
	$(if $(findstring thread,$(SAN)),,unit_wheel unit_world unit_worker unit_oracle) \
	$(patsubst test/%.c,%,$(wildcard test/test_behaviours*.c test/test_stress*.c) test/test_memory.c test/test_soak.c \
	test/test_driven.c test/test_idle.c test/test_reschedule.c test/test_periodic.c)) \
	$(patsubst test/%.c,perturbed:$(BUILD)/test/%,$(wildcard test/test_stress*.c))
# Those that need more than the library: each if that is installed, otherwise nothing.
EXAMPLES_PKG := libuv executor_glib glib_loop curl_multi
EXAMPLES_MORE := $(addprefix $(BUILD)/examples/,$(EXAMPLES_PKG) cpp)
PKG_libuv := libuv
PKG_executor_glib := glib-2.0
PKG_glib_loop := glib-2.0
PKG_curl_multi := libcurl
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,\
	$(filter-out $(EXAMPLES_PKG:%=examples/%.c) examples/jobs.c examples/demo_store.c,$(wildcard examples/*.c)))
BENCH := $(BUILD)/bench/bench

.PHONY: all check soak fuzz model static aarch64 coverage perturbed mutants mutants-sample mutants-random races memcheck demo install uninstall dist clean deps help
.DELETE_ON_ERROR:

all: $(BUILD)/libhwt.a $(BUILD)/libhwt.so store

help:
	@echo 'make            the library: $(BUILD)/libhwt.a, $(BUILD)/libhwt.so.$(VERSION)'
	@echo 'make deps       installs what the build needs and is missing'
	@echo 'make demo       a server with thousands of connections, each with its timeouts (10 seconds)'
	@echo 'make demo-store three processes that share timeouts in a database; one is killed (URL=postgresql://...)'
	@echo 'make check      all tests of libhwt; make check-store those of libhwt-store'
	@echo 'make soak       the stress tests, some 10^9 operations (minutes); HWT_SCALE=n for n percent of make check'
	@echo 'make fuzz       libFuzzer on the oracle, FUZZ_S seconds (clang)'
	@echo 'make model      Spin models of the protocols, with planted faults'
	@echo 'make static     clang-tidy, cppcheck, gcc -fanalyzer, shellcheck, as far as installed'
	@echo 'make memcheck   the single-threaded tests under valgrind'
	@echo 'make mutants    plants faults, one by one, and demands that a test finds each'
	@echo 'make mutants-sample one fault of each source file, drawn by HWT_SEED'
	@echo 'make mutants-random 100 faults drawn by HWT_SEED; shows those that no test finds'
	@echo 'make races      plants data races and demands that ThreadSanitizer reports each'
	@echo 'make coverage   lines and branches of src/ that the tests reach'
	@echo 'make aarch64    cross build, tests under qemu'
	@echo 'make bench      measures the library and the rivals that are installed (some ten minutes); see bench/README.md'
	@echo 'make bench-full the same with all scenarios, sizes and rounds (hours)'
	@echo 'make bench-wheels the two wheels side by side, on virtual time'
	@echo 'make bench-check instructions of each operation against bench/instructions.txt (valgrind)'
	@echo 'make bench-store measures libhwt-store on SQLite and PostgreSQL (40 minutes); see bench/store/README.md'
	@echo 'make bench-deps installs the rivals'
	@echo 'make install    to DESTDIR=$(DESTDIR) PREFIX=$(PREFIX); make uninstall'
	@echo 'make dist       $(DIST).tar.gz of the last commit'
	@echo 'make clean      removes the build folders'
	@echo 'SAN=thread or SAN=address,undefined with any of them: with these sanitizers, in a folder of their own'

# The library, static and shared of the same objects, so that the archive may go into a shared object; for the unit
# tests; and shared with what perturbs it.

$(BUILD)/lib/%.o: src/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(POSIX) $(HIDDEN) $(SAME) $(ALL_CFLAGS) -fPIC $(TLSFLAGS) -c -o $@ $<

# glibc before 2.40 does not keep vector registers when a thread asks a descriptor for the first time (its bug 31372).
# So nothing uses any, except what scans a bucket and knows no thread.
$(BUILD)/lib/wheel/bucket.o: TLSFLAGS =

$(BUILD)/unit/%.o: src/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(POSIX) -DHWT_TEST $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/unit/check/%.o: test/check/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) -Itest $(POSIX) -DHWT_TEST $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/perturbed/%.o: src/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(POSIX) -DHWT_TEST $(ALL_CFLAGS) -fPIC -c -o $@ $<

$(BUILD)/perturbed/perturb.o: test/perturb.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(POSIX) -DHWT_TEST $(ALL_CFLAGS) -fPIC -c -o $@ $<

$(BUILD)/perturbed/$(SONAME): $(SRC:src/%.c=$(BUILD)/perturbed/%.o) $(BUILD)/perturbed/perturb.o
	$(QCC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=test/perturb.map -o $@ $^ $(ALL_LDFLAGS)

perturbed: $(BUILD)/perturbed/$(SONAME)

$(BUILD)/libhwt.a: $(SRC:src/%.c=$(BUILD)/lib/%.o)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

$(BUILD)/libhwt-unit.a: $(SRC:src/%.c=$(BUILD)/unit/%.o) $(CHECKER:test/%.c=$(BUILD)/unit/%.o)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libhwt.so.$(VERSION): $(SRC:src/%.c=$(BUILD)/lib/%.o) src/hwt.map
	$(QCC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=src/hwt.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-o $@ $(filter %.o,$^) $(ALL_LDFLAGS)

$(BUILD)/libhwt.so: $(BUILD)/libhwt.so.$(VERSION)
	$(Q)ln -sf $(notdir $<) $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# A copy of the tree may lack it.
-include store.mk

# Tests, examples, benches.

$(BUILD)/test/unit_%: test/unit_%.c $(BUILD)/libhwt-unit.a | $(BUILD)/test
	$(QCC) $(ALL_CPPFLAGS) -Itest $(GNU) -DHWT_TEST $(ALL_CFLAGS) -o $@ $< $(BUILD)/libhwt-unit.a $(ALL_LDFLAGS)

$(BUILD)/test/test_%: test/test_%.c $(BUILD)/libhwt.so | $(BUILD)/test
	$(QCC) $(ALL_CPPFLAGS) -Itest $(GNU) $(ALL_CFLAGS) -o $@ $< -L$(BUILD) -lhwt \
		-Wl,--enable-new-dtags,-rpath,'$$ORIGIN/..' $(ALL_LDFLAGS)

$(BUILD)/examples/%: examples/%.c $(BUILD)/libhwt.a | $(BUILD)/examples
	$(QCC) $(ALL_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -o $@ $(filter %.c,$^) $(BUILD)/libhwt.a $(ALL_LDFLAGS)

$(EXAMPLES_PKG:%=$(BUILD)/examples/%): $(BUILD)/examples/%: examples/%.c $(BUILD)/libhwt.a | $(BUILD)/examples
	@if pkg-config --exists $(PKG_$*) 2>/dev/null; then $(if $(V),,$(SAY) '  CC  $@';) $(CC) $(ALL_CPPFLAGS) $(GNU) \
		$(ALL_CFLAGS) -o $@ $< $(BUILD)/libhwt.a $$(pkg-config --cflags --libs $(PKG_$*) | \
		sed 's/-I/-isystem /g') $(ALL_LDFLAGS); fi

$(BUILD)/examples/cpp: examples/cpp.cpp $(BUILD)/libhwt.a | $(BUILD)/examples
	@if command -v $(CXX) >/dev/null 2>&1; then $(if $(V),,$(SAY) '  CXX $@';) $(CXX) -std=c++17 $(OPT) -Wall -Wextra \
		-Wpedantic -Wshadow -Wconversion $(SANFLAGS) -pthread $(ALL_CPPFLAGS) -o $@ $< $(BUILD)/libhwt.a \
		$(ALL_LDFLAGS); fi

$(addprefix $(BUILD)/,test examples bench):
	$(Q)mkdir -p $@

demo: $(EXAMPLES)
	$(BUILD)/examples/demo

# TWINS= leaves them out: what they find hangs on the compiler less than on chance.
check: all $(UNIT_TESTS) $(API_TESTS) $(BUILD)/perturbed/$(SONAME) $(EXAMPLES) $(EXAMPLES_MORE) $(BENCH) $(STORE_TESTS)
	CC='$(CC)' SAN='$(SAN)' test/run.sh $(BUILD) $(UNIT_TESTS) $(API_TESTS) $(TWINS) $(STORE_RUNS) $(STORE_CHECKS) \
		test/layers.sh test/edges.sh test/header.sh test/abi.sh test/docs.sh test/examples.sh test/dlopen.sh test/man.sh test/store_man.sh $(if $(TWINS),test/bench.sh)

soak: $(API_TESTS) $(BUILD)/perturbed/$(SONAME)
	HWT_SCALE=$${HWT_SCALE:-2500} HWT_SOAK_S=$${HWT_SOAK_S:-600} HWT_TEST_TIMEOUT=3600 test/run.sh $(BUILD) \
		$(filter %stress %soak,$(API_TESTS)) $(filter perturbed:%,$(TWINS))

mutants:
	CC='$(CC)' test/mutants.sh

mutants-sample:
	CC='$(CC)' test/mutants.sh --sample

mutants-random:
	CC='$(CC)' test/random_mutants.sh

static aarch64 coverage races:
	test/run.sh $(BUILD) test/$@.sh

# Random programs that coverage leads, against the oracle; what it finds new stays in build-fuzz/corpus.
fuzz: build-fuzz/fuzz_oracle
	mkdir -p build-fuzz/corpus
	build-fuzz/fuzz_oracle -max_total_time=$(or $(FUZZ_S),60) -max_len=4096 build-fuzz/corpus test/corpus

build-fuzz/fuzz_oracle: test/fuzz_oracle.c $(SRC) $(CHECKER) $(wildcard src/*/*.h test/*.h test/check/*.h)
	mkdir -p build-fuzz
	clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Itest $(POSIX) -DHWT_TEST -pthread \
		-o $@ $(filter %.c,$^)

model:
	CC='$(CC)' test/run.sh $(BUILD) model/run.sh

memcheck: $(UNIT_TESTS)
	test/run.sh $(BUILD) test/memcheck.sh

# A copy of the tree may lack it.
-include bench/bench.mk
-include store_tools.mk

# For pkg-config; `--static` adds what the archive needs.
$(BUILD)/hwt.pc: include/hwt.h Makefile
	@mkdir -p $(BUILD)
	@printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$(INCLUDEDIR)' 'libdir=$(LIBDIR)' '' 'Name: libhwt' \
		'Description: a hashed wheel timer for multithreaded C' 'Version: $(VERSION)' \
		'Cflags: -I$${includedir} -pthread' 'Libs: -L$${libdir} -lhwt' 'Libs.private: -pthread' >$@

# The manual page is the header's comments, of the day of the last change; `man hwt_cancel` leads to it.
FUNCTIONS = $(shell sed -n 's/^HWT_API [a-z0-9_ ]*[ *]\(hwt_[a-z_]*\)[^a-z_].*/\1/p' include/hwt.h)

$(BUILD)/hwt.3: doc/man.awk include/hwt.h CHANGES.md
	@mkdir -p $(BUILD)
	@awk -v date=$$(sed -n 's/^### \(20[0-9-]*\)$$/\1/p' CHANGES.md | head -1) -f doc/man.awk include/hwt.h >$@

INSTALLED = $(INCLUDEDIR)/hwt.h $(LIBDIR)/libhwt.a $(LIBDIR)/libhwt.so.$(VERSION) $(LIBDIR)/$(SONAME) \
	$(LIBDIR)/libhwt.so $(LIBDIR)/pkgconfig/hwt.pc $(MANDIR)/man3/hwt.3 $(FUNCTIONS:%=$(MANDIR)/man3/%.3)
DOCUMENTS = README.md CHANGES.md LICENSE $(wildcard doc/*.md doc/*.svg doc/*.bt)

# The prefix may be another one each time: hwt.pc is made anew.
install: all $(BUILD)/hwt.3
	@rm -f $(BUILD)/hwt.pc && $(MAKE) -s --no-print-directory BUILD=$(BUILD) $(BUILD)/hwt.pc
	install -d $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(MANDIR)/man3 \
		$(DESTDIR)$(DOCDIR)/examples
	install -m 644 include/hwt.h $(DESTDIR)$(INCLUDEDIR)/
	install -m 644 $(BUILD)/libhwt.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/libhwt.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	ln -sf libhwt.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libhwt.so
	install -m 644 $(BUILD)/hwt.pc $(DESTDIR)$(LIBDIR)/pkgconfig/
	install -m 644 $(BUILD)/hwt.3 $(DESTDIR)$(MANDIR)/man3/
	@for function in $(FUNCTIONS); do echo '.so man3/hwt.3' >$(DESTDIR)$(MANDIR)/man3/$$function.3; done
	install -m 644 $(DOCUMENTS) $(DESTDIR)$(DOCDIR)/
	install -m 644 $(wildcard examples/*.[ch] examples/*.cpp) $(DESTDIR)$(DOCDIR)/examples/

uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)%)
	rm -rf $(DESTDIR)$(DOCDIR)

# A release: what git has, in an archive whose bytes are the same each time.
DIST = libhwt-$(VERSION)

dist:
	git archive --format=tar --prefix=$(DIST)/ HEAD | gzip -9n >$(DIST).tar.gz
	@echo $(DIST).tar.gz

deps:
	@CC='$(CC)' ./deps.sh

clean:
	rm -rf build build-*/

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d)
