# SPDX-License-Identifier: BSD-2-Clause
# What is around libhwt-store: its examples, the demo, the bench, installing it.  store/store.mk builds it, and sets STORE_PKG,
# the packages that pkg-config found for it; if it builds none all of this is left out.

STORE_EXAMPLES := $(if $(STORE),$(addprefix $(BUILD)/examples/,jobs demo_store poll_loop))
STORE_EXAMPLES_MORE := $(if $(STORE),$(addprefix $(BUILD)/examples/,uv_loop reminders))
STORE_HAVE := $(if $(filter sqlite3,$(STORE_PKG)),-DHAVE_SQLITE) $(if $(filter libpq,$(STORE_PKG)),-DHAVE_POSTGRES)
STORE_ARCHIVES := $(BUILD)/libhwt-store.a $(BUILD)/libhwt.a

.PHONY: check-cron demo-store bench-store bench-store-rivals bench-store-scale install-store uninstall-store

STORE_CHECKS := $(if $(STORE),store/test/sql_files.sh store/test/store_examples.sh store/test/hwt_jobs.sh store/test/serve.sh store/test/serve_page.sh store/test/python.sh)
check: $(STORE_EXAMPLES) $(STORE_EXAMPLES_MORE)
check-store: $(STORE_EXAMPLES) $(STORE_EXAMPLES_MORE) $(if $(STORE),$(BUILD)/hwt-jobs) $(if $(STORE),$(BUILD)/bench/store_bench)

ifneq ($(STORE),)

$(STORE_EXAMPLES): $(BUILD)/examples/%: store/examples/%.c $(STORE_ARCHIVES) | $(BUILD)/examples
	$(QCC) $(ALL_CPPFLAGS) $(STORE_HAVE) $(STORE_CPPFLAGS) -Iexamples $(GNU) $(ALL_CFLAGS) -o $@ $< $(STORE_ARCHIVES) $(STORE_LIBS) \
		$(ALL_LDFLAGS)

# Where libuv, and where a C++ compiler is.
$(BUILD)/examples/uv_loop: store/examples/uv_loop.c $(STORE_ARCHIVES) | $(BUILD)/examples
	@if $(PKG_CONFIG) --exists libuv 2>/dev/null; then $(if $(V),,$(SAY) '  CC  $@';) $(CC) $(ALL_CPPFLAGS) $(STORE_CPPFLAGS) $(GNU) \
		$(ALL_CFLAGS) -o $@ $< $(STORE_ARCHIVES) $(STORE_LIBS) $$($(PKG_CONFIG) --cflags --libs libuv | sed 's/-I/-isystem /g') $(ALL_LDFLAGS); fi

$(BUILD)/examples/reminders: store/examples/reminders.cpp $(STORE_ARCHIVES) | $(BUILD)/examples
	@if command -v $(CXX) >/dev/null 2>&1; then $(if $(V),,$(SAY) '  CXX $@';) $(CXX) -std=c++17 $(ALL_CXXFLAGS) $(ALL_CPPFLAGS) \
		-Istore/include -o $@ $< $(STORE_ARCHIVES) $(STORE_LIBS) $(ALL_LDFLAGS); fi

# The tool.  It has the library in itself, so that it runs wherever it is copied to.  Its page is served where libmicrohttpd
# is found: store/jobs/page/ is text in the program.
JOBS_HTTP := $(shell $(PKG_CONFIG) --exists 'libmicrohttpd >= 0.9.71' 2>/dev/null && echo libmicrohttpd)
JOBS_PAGE := $(addprefix store/jobs/page/,page.html page.css page.js)
JOBS_SRC := $(filter-out $(if $(JOBS_HTTP),store/jobs/no_serve.c,store/jobs/serve.c store/jobs/serve_%),$(wildcard store/jobs/*.c))

$(BUILD)/made/page/page.h: store/jobs/page/text.awk $(JOBS_PAGE)
	$(Q)mkdir -p $(@D) && awk -f $^ >$@

all: $(BUILD)/hwt-jobs
$(BUILD)/hwt-jobs: $(JOBS_SRC) $(wildcard store/jobs/*.h) $(BUILD)/made/page/page.h $(STORE_ARCHIVES)
	$(QCC) $(filter-out -MMD -MP,$(ALL_CPPFLAGS)) $(STORE_CPPFLAGS) $(if $(JOBS_HTTP),$(shell $(PKG_CONFIG) --cflags $(JOBS_HTTP))) \
		$(GNU) $(ALL_CFLAGS) -o $@ $(filter %.c,$^) $(STORE_ARCHIVES) $(STORE_LIBS) \
		$(if $(JOBS_HTTP),$(shell $(PKG_CONFIG) --libs $(JOBS_HTTP))) $(ALL_LDFLAGS)

$(BUILD)/bench/store_bench: $(wildcard store/bench/*.[ch]) $(STORE_ARCHIVES) | $(BUILD)/bench
	$(QCC) $(filter-out -MMD -MP,$(ALL_CPPFLAGS)) $(STORE_HAVE) $(STORE_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -o $@ $(filter %.c,$^) $(STORE_ARCHIVES) $(STORE_LIBS) $(ALL_LDFLAGS)

# URL=postgresql: a server of its own, if one is installed.
demo-store: $(BUILD)/examples/demo_store ## timeouts that survive the processes that scheduled them
	$(Q)case '$(URL)' in \
	'') $< ;; \
	pg | postgres | postgresql | postgresql://) store/test/store_pg.sh run sh -c 'exec $< -u "$$HWT_STORE_PG_URL"' || { \
		[ $$? -ne 77 ] || echo 'demo-store: no PostgreSQL server is installed; URL=postgresql://... names a running one'; \
		exit 1; } ;; \
	*) $< -u '$(URL)' ;; esac

bench-store: $(BUILD)/bench/store_bench
	store/bench/run.sh $(BUILD) $(BENCH_ARGS)

# Installs the rivals, too, which nothing else needs.
bench-store-rivals: $(BUILD)/bench/store_bench
	store/bench/rivals/run.sh $(BUILD) $(BENCH_ARGS)

bench-store-scale: $(BUILD)/bench/store_bench $(BUILD)/test/store_plans
	store/bench/scale.sh $(BUILD) $(BENCH_ARGS)

# Ten years in all zones, against two programs that npm installs.
$(BUILD)/test/cron_times: store/test/oracle/cron_times.c $(BUILD)/libhwt-store-unit.a $(BUILD)/libhwt.a | $(BUILD)/test
	$(QCC) $(ALL_CPPFLAGS) $(STORE_CPPFLAGS) $(GNU) -DHWT_TEST $(ALL_CFLAGS) -o $@ $< \
		$(BUILD)/libhwt-store-unit.a $(BUILD)/libhwt.a $(STORE_LIBS) $(ALL_LDFLAGS)

check-cron: $(BUILD)/test/cron_times
	store/test/oracle/cron.sh $(BUILD) $(YEARS) $(CRON_ZONES)

# Installing.

STORE_INSTALLED = $(INCLUDEDIR)/hwt_store.h $(INCLUDEDIR)/hwt_store.hpp $(LIBDIR)/libhwt-store.a $(LIBDIR)/libhwt-store.so.$(VERSION) \
	$(LIBDIR)/$(STORE_SONAME) $(LIBDIR)/libhwt-store.so $(LIBDIR)/pkgconfig/hwt-store.pc $(MANDIR)/man3/hwt_store.3 \
	$(LIBDIR)/cmake/hwt-store/hwt-store-config.cmake $(LIBDIR)/cmake/hwt-store/hwt-store-config-version.cmake $(BINDIR)/hwt-jobs $(MANDIR)/man1/hwt-jobs.1

install: install-store

install-store: all
	install -d $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/hwt-store \
		$(DESTDIR)$(MANDIR)/man3 $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(BINDIR)
	install -m 755 $(BUILD)/hwt-jobs $(DESTDIR)$(BINDIR)/
	install -m 644 store/doc/hwt-jobs.1 $(DESTDIR)$(MANDIR)/man1/
	install -m 644 store/include/hwt_store.h store/include/hwt_store.hpp $(DESTDIR)$(INCLUDEDIR)/
	install -m 644 $(BUILD)/libhwt-store.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/libhwt-store.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	ln -sf libhwt-store.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(STORE_SONAME)
	ln -sf $(STORE_SONAME) $(DESTDIR)$(LIBDIR)/libhwt-store.so
	$(call fill,hwt-store.pc,$(LIBDIR)/pkgconfig)
	$(call fill,hwt-store-config.cmake hwt-store-config-version.cmake,$(LIBDIR)/cmake/hwt-store)
	install -m 644 store/doc/hwt_store.3 $(DESTDIR)$(MANDIR)/man3/

uninstall: uninstall-store

uninstall-store:
	rm -f $(STORE_INSTALLED:%=$(DESTDIR)%)
	@rmdir $(DESTDIR)$(LIBDIR)/cmake/hwt-store $(DESTDIR)$(LIBDIR)/cmake 2>/dev/null || :

else

check-cron demo-store bench-store bench-store-rivals bench-store-scale:
	@echo '$@: libhwt-store needs pkg-config and the headers of SQLite or libpq (make deps)' && false

endif
