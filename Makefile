# SPDX-License-Identifier: BSD-2-Clause
# libhwt.  `make help` lists the targets.  Needs GNU make, a C11 compiler and Concurrency Kit's headers (`make deps`).

PREFIX ?= /usr/local
INCLUDEDIR ?= $(PREFIX)/include
LIBDIR ?= $(PREFIX)/lib
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/libhwt
GDBDIR ?= $(PREFIX)/share/gdb
DESTDIR ?=

CC ?= cc
CXX ?= c++

# Before anything below looks for what it installs.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
ifneq ($(shell CC='$(CC)' ./deps.sh $(if $(filter deb check-deb,$(MAKECMDGOALS)),deb) >&2; echo $$?),0)
$(error deps: see above)
endif
endif

# A goal is built by as many jobs as there are cores, if -j or HWT_JOBS does not say how many.  Several goals come one after the other.
ifeq ($(MAKELEVEL)$(word 2,$(filter-out deps,$(MAKECMDGOALS))),0)
MAKEFLAGS += -j$(or $(HWT_JOBS),$(shell nproc 2>/dev/null),1)
endif

OPT ?= -O3 -g
WARN = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
       -Wpointer-arith -Wcast-qual -Wundef -Wvla $(if $(WERROR),-Werror)

# V=1 shows whole commands.
Q := $(if $(V),,@)
SAY := $(if $(findstring s,$(firstword -$(MAKEFLAGS))),:,echo)
QCC = $(if $(V),,@$(SAY) '  CC  $@'; )$(CC)
QCXX = $(if $(V),,@$(SAY) '  CXX $@'; )$(CXX)

# SAN=thread or SAN=address,undefined: everything again, in a folder of its own.
SAN ?=
comma := ,
# DEBUG=1: a library that ends the process at a handle of a destroyed timer; src/timer/format.c.
DEBUG ?=
BUILD := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(DEBUG),-debug)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ifneq ($(SAN),)
OPT := -O1 -g
endif

# The same bytes from whatever folder it is built in.
SAME = '-ffile-prefix-map=$(CURDIR)=.'
ALL_CFLAGS = -std=c11 $(OPT) $(WARN) $(SANFLAGS) -pthread $(CFLAGS)
# What only tests run is compiled in half of the time, unless TEST_OPT=-O3.
TEST_OPT ?= -O1
TEST_CFLAGS = $(patsubst -O3,$(TEST_OPT),$(ALL_CFLAGS))
ALL_CXXFLAGS = $(OPT) -Wall -Wextra -Wpedantic -Wshadow -Wconversion $(if $(WERROR),-Werror) $(SANFLAGS) \
	       -pthread $(CXXFLAGS)
HIDDEN = -fvisibility=hidden

# How the library finds what each thread has for itself.
#   dynamic       loads everywhere: in a program, in a plugin, with musl.  By descriptors where the compiler has them.
#   initial-exec  an instruction or two less, but what is loaded at run time may fail to load, and always does with musl.
TLS ?= dynamic
DESCRIPTORS := -mtls-dialect=gnu2 -mgeneral-regs-only
ifeq ($(TLS),dynamic)
# Without optimisation the compiler also emits what of Concurrency Kit nobody calls, and that wants other registers.  So
# do atomics of 8 bytes where pointers have 4.
HAVE_DESCRIPTORS := $(if $(SAN),,$(shell printf '%binclude <ck_pr.h>\nchar wide[sizeof(void *) - 7];\n' '\043' | \
	$(CC) $(CPPFLAGS) $(OPT) $(CFLAGS) $(DESCRIPTORS) -Werror -S -x c -o /dev/null - 2>/dev/null && echo yes))
TLSFLAGS = $(if $(HAVE_DESCRIPTORS),$(DESCRIPTORS))
else
TLSFLAGS = -ftls-model=$(TLS)
endif
ALL_CPPFLAGS = -Iinclude -Isrc -MMD -MP $(if $(DEBUG),-DHWT_DEBUG) $(CPPFLAGS)
ALL_LDFLAGS = $(SANFLAGS) -pthread $(LDFLAGS)
POSIX = -D_POSIX_C_SOURCE=200809L
GNU = -D_GNU_SOURCE

version_part = $(shell sed -n 's/^\#define HWT_VERSION_$(1) //p' include/hwt.h)
MAJOR := $(call version_part,MAJOR)
VERSION := $(MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SONAME := libhwt.so.$(MAJOR)

# The rooms of the core.  What is above them, in store/, is a library of its own.
ROOMS := timer worker wheel lane base
SRC := $(wildcard $(ROOMS:%=src/%/*.c))

.PHONY: all store demo install uninstall dist clean deps help help-all
.DELETE_ON_ERROR:

all: $(BUILD)/libhwt.a $(BUILD)/libhwt.so store ## the libraries: libhwt, and libhwt-store where SQLite or libpq is found

# The twelve that people need, in the order in which they need them.
HELP = deps all demo demo-store quick check check-store bench install dist deb clean

help:
	@$(call targets,$(HELP))
	@echo
	@echo 'make help-all lists the others: models, planted faults, sanitizers, simulations, tortures, platforms, figures.'
	@echo 'CONTRIBUTING.md, "Four rings", says which of them to run after which change.'

help-all: ## this list
	@$(call targets)
	@echo
	@echo 'DEBUG=1 with any of them: the library checks handles, in a folder of its own'
	@echo 'SAN=thread or SAN=address,undefined with any of them: with these sanitizers, in a folder of their own'

# NAMES: a line for each, in this order; without NAMES for all.
targets = sed -n 's/^\([a-z0-9-]*\):[^\#]* \#\# \(.*\)/\1\#\2/p' $(MAKEFILE_LIST) | awk -F'\#' -v names='$(1)' ' \
	BEGIN { n = split(names, name, " ") } \
	{ line[$$1] = sprintf("make %-16s %s", $$1 == "all" ? "" : $$1, $$2); if (!n) print line[$$1] } \
	END { for (i = 1; i <= n; i++) print line[name[i]] }'

# The library: static and shared of the same objects, so that the archive may go into a shared object.

$(BUILD)/lib/%.o: src/%.c
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(POSIX) $(HIDDEN) $(SAME) $(ALL_CFLAGS) -fPIC $(TLSFLAGS) -c -o $@ $<

# glibc before 2.40 does not keep vector registers when a thread asks a descriptor for the first time (its bug 31372).
# So nothing uses any, except what scans a bucket and knows no thread.
$(BUILD)/lib/wheel/bucket.o: TLSFLAGS =

$(BUILD)/libhwt.a: $(SRC:src/%.c=$(BUILD)/lib/%.o)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

$(BUILD)/libhwt.so.$(VERSION): $(SRC:src/%.c=$(BUILD)/lib/%.o) src/hwt.map
	$(QCC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=src/hwt.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-o $@ $(filter %.o,$^) $(ALL_LDFLAGS)

$(BUILD)/libhwt.so: $(BUILD)/libhwt.so.$(VERSION)
	$(Q)ln -sf $(notdir $<) $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

$(addprefix $(BUILD)/,test examples bench):
	$(Q)mkdir -p $@

# A copy of the tree may lack some of them.
BENCH := $(BUILD)/bench/bench
-include store/store.mk store/test/sim.mk examples/examples.mk test/test.mk test/rings.mk bench/bench.mk store/tools.mk store/test/torture.mk packaging/packaging.mk

# The manual page is the header's comments, of the day of the last change; `man hwt_cancel` leads to it.
FUNCTIONS = $(shell sed -n 's/^HWT_API [a-z0-9_ ]*[ *]\(hwt_[a-z_]*\)[^a-z_].*/\1/p' include/hwt.h)

$(BUILD)/hwt.3: doc/man.awk include/hwt.h CHANGES.md
	@mkdir -p $(BUILD)
	@awk -v date=$$(sed -n 's/^### \(20[0-9-]*\)$$/\1/p' CHANGES.md | head -1) -f doc/man.awk include/hwt.h >$@

INSTALLED = $(INCLUDEDIR)/hwt.h $(INCLUDEDIR)/hwt.hpp $(LIBDIR)/libhwt.a $(LIBDIR)/libhwt.so.$(VERSION) $(LIBDIR)/$(SONAME) \
	$(LIBDIR)/libhwt.so $(LIBDIR)/pkgconfig/hwt.pc $(LIBDIR)/cmake/hwt/hwt-config.cmake \
	$(LIBDIR)/cmake/hwt/hwt-config-version.cmake $(MANDIR)/man3/hwt.3 $(FUNCTIONS:%=$(MANDIR)/man3/%.3) \
	$(GDBDIR)/hwt-gdb.py
DOCUMENTS = README.md CHANGES.md LICENSE $(wildcard doc/*.md doc/*.svg doc/*.bt store/doc/*.md store/doc/*.svg)

install: all $(BUILD)/hwt.3 ## to DESTDIR= PREFIX=/usr/local; make uninstall
	install -d $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/hwt \
		$(DESTDIR)$(MANDIR)/man3 $(DESTDIR)$(DOCDIR)/examples $(DESTDIR)$(GDBDIR)
	install -m 644 include/hwt.h include/hwt.hpp $(DESTDIR)$(INCLUDEDIR)/
	install -m 644 $(BUILD)/libhwt.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/libhwt.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	ln -sf libhwt.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libhwt.so
	$(call fill,hwt.pc,$(LIBDIR)/pkgconfig)
	$(call fill,hwt-config.cmake hwt-config-version.cmake,$(LIBDIR)/cmake/hwt)
	install -m 644 $(BUILD)/hwt.3 $(DESTDIR)$(MANDIR)/man3/
	@for function in $(FUNCTIONS); do echo '.so man3/hwt.3' >$(DESTDIR)$(MANDIR)/man3/$$function.3; done
	install -m 644 share/gdb/hwt-gdb.py $(DESTDIR)$(GDBDIR)/
	install -m 644 $(DOCUMENTS) $(DESTDIR)$(DOCDIR)/
	install -m 644 $(wildcard examples/*.[ch] examples/*.cpp store/examples/*.[ch] store/examples/*.cpp) $(DESTDIR)$(DOCDIR)/examples/
	install -d $(DESTDIR)$(DOCDIR)/examples/languages
	install -m 644 $(wildcard store/examples/languages/*) $(DESTDIR)$(DOCDIR)/examples/languages/

uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)%)
	rm -rf $(DESTDIR)$(DOCDIR)
	@rmdir $(DESTDIR)$(LIBDIR)/cmake/hwt $(DESTDIR)$(LIBDIR)/cmake 2>/dev/null || :

# A release: what git has, in an archive whose bytes are the same each time.
DIST = libhwt-$(VERSION)

dist: ## an archive of the last commit
	git archive --format=tar --prefix=$(DIST)/ HEAD | gzip -9n >$(DIST).tar.gz
	@echo $(DIST).tar.gz

deps: ## installs what the build and the tests need and is missing
	@:

clean: ## removes the build folders
	rm -rf build build-*/

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d $(BUILD)/sim/test/*/*.d)
