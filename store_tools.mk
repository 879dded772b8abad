# SPDX-License-Identifier: BSD-2-Clause
# What is around libhwt-store: its examples, the demo, the bench, installing it.  store.mk builds it, and sets STORE_PKG,
# the packages that pkg-config found for it; if it builds none all of this is left out.

STORE_EXAMPLES := $(if $(STORE),$(addprefix $(BUILD)/examples/,jobs demo_store))
STORE_HAVE := $(if $(filter sqlite3,$(STORE_PKG)),-DHAVE_SQLITE) $(if $(filter libpq,$(STORE_PKG)),-DHAVE_POSTGRES)
STORE_ARCHIVES := $(BUILD)/libhwt-store.a $(BUILD)/libhwt.a

.PHONY: demo-store bench-store install-store uninstall-store

STORE_CHECKS := $(if $(STORE),test/store_examples.sh)
check: $(STORE_EXAMPLES)
check-store: $(STORE_EXAMPLES) $(if $(STORE),$(BUILD)/bench/store_bench)

ifneq ($(STORE),)

$(STORE_EXAMPLES): $(BUILD)/examples/%: examples/%.c $(STORE_ARCHIVES) | $(BUILD)/examples
	$(QCC) $(ALL_CPPFLAGS) $(STORE_HAVE) $(STORE_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -o $@ $< $(STORE_ARCHIVES) $(STORE_LIBS) \
		$(ALL_LDFLAGS)

$(BUILD)/bench/store_bench: bench/store/store_bench.c $(STORE_ARCHIVES) | $(BUILD)/bench
	$(QCC) $(ALL_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -o $@ $< $(STORE_ARCHIVES) $(STORE_LIBS) $(ALL_LDFLAGS)

# URL=postgresql: a server of its own, if one is installed.
demo-store: $(BUILD)/examples/demo_store
	$(Q)case '$(URL)' in \
	'') $< ;; \
	pg | postgres | postgresql | postgresql://) test/store_pg.sh run sh -c 'exec $< -u "$$HWT_STORE_PG_URL"' || { \
		[ $$? -ne 77 ] || echo 'demo-store: no PostgreSQL server is installed; URL=postgresql://... names a running one'; \
		exit 1; } ;; \
	*) $< -u '$(URL)' ;; esac

bench-store: $(BUILD)/bench/store_bench
	bench/store/run.sh $(BUILD) $(BENCH_ARGS)

# Installing.  The prefix may be another one each time: the files that name it are made again.

STORE_INSTALLED = $(INCLUDEDIR)/hwt_store.h $(LIBDIR)/libhwt-store.a $(LIBDIR)/libhwt-store.so.$(VERSION) \
	$(LIBDIR)/$(STORE_SONAME) $(LIBDIR)/libhwt-store.so $(LIBDIR)/pkgconfig/hwt-store.pc $(MANDIR)/man3/hwt_store.3 \
	$(LIBDIR)/cmake/hwt-store/hwt-store-config.cmake

# `pkg-config --static` adds what the archives need.
$(BUILD)/hwt-store.pc: include/hwt.h store_tools.mk
	@mkdir -p $(BUILD)
	@printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$(INCLUDEDIR)' 'libdir=$(LIBDIR)' '' 'Name: libhwt-store' \
		'Description: durable timeouts in SQLite or PostgreSQL' 'Version: $(VERSION)' 'Requires: hwt' \
		'Cflags: -I$${includedir} -pthread' 'Libs: -L$${libdir} -lhwt-store' \
		'Libs.private: $(STORE_LIBS) -pthread' >$@

$(BUILD)/hwt-store-config.cmake: include/hwt.h store_tools.mk
	@mkdir -p $(BUILD)
	@printf '%s\n' '# find_package(hwt-store) gives hwt::store, and hwt::hwt beneath it.' \
		'include(CMakeFindDependencyMacro)' 'find_dependency(Threads)' 'find_package(hwt CONFIG QUIET)' \
		'if(NOT TARGET hwt::hwt)' '  add_library(hwt::hwt SHARED IMPORTED)' \
		'  set_target_properties(hwt::hwt PROPERTIES IMPORTED_LOCATION "$(LIBDIR)/libhwt.so.$(VERSION)"' \
		'    IMPORTED_SONAME "$(SONAME)" INTERFACE_INCLUDE_DIRECTORIES "$(INCLUDEDIR)"' \
		'    INTERFACE_LINK_LIBRARIES Threads::Threads)' 'endif()' \
		'if(NOT TARGET hwt::store)' '  add_library(hwt::store SHARED IMPORTED)' \
		'  set_target_properties(hwt::store PROPERTIES IMPORTED_LOCATION "$(LIBDIR)/libhwt-store.so.$(VERSION)"' \
		'    IMPORTED_SONAME "$(STORE_SONAME)" INTERFACE_INCLUDE_DIRECTORIES "$(INCLUDEDIR)"' \
		'    INTERFACE_LINK_LIBRARIES hwt::hwt)' 'endif()' >$@

install: install-store

install-store: all
	@rm -f $(BUILD)/hwt-store.pc $(BUILD)/hwt-store-config.cmake
	@$(MAKE) -s --no-print-directory BUILD=$(BUILD) $(BUILD)/hwt-store.pc $(BUILD)/hwt-store-config.cmake
	install -d $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/hwt-store \
		$(DESTDIR)$(MANDIR)/man3
	install -m 644 include/hwt_store.h $(DESTDIR)$(INCLUDEDIR)/
	install -m 644 $(BUILD)/libhwt-store.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/libhwt-store.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	ln -sf libhwt-store.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(STORE_SONAME)
	ln -sf $(STORE_SONAME) $(DESTDIR)$(LIBDIR)/libhwt-store.so
	install -m 644 $(BUILD)/hwt-store.pc $(DESTDIR)$(LIBDIR)/pkgconfig/
	install -m 644 $(BUILD)/hwt-store-config.cmake $(DESTDIR)$(LIBDIR)/cmake/hwt-store/
	install -m 644 doc/hwt_store.3 $(DESTDIR)$(MANDIR)/man3/

uninstall: uninstall-store

uninstall-store:
	rm -f $(STORE_INSTALLED:%=$(DESTDIR)%)
	@rmdir $(DESTDIR)$(LIBDIR)/cmake/hwt-store $(DESTDIR)$(LIBDIR)/cmake 2>/dev/null || :

else

demo-store bench-store:
	@echo '$@: libhwt-store needs pkg-config and the headers of SQLite or libpq (make deps)' && false

endif
