# SPDX-License-Identifier: BSD-2-Clause
# libhwt-store: a second library above the first, from store/src/.  Built when pkg-config finds sqlite3, libpq or both; STORE= leaves it out.

PKG_CONFIG ?= pkg-config
STORE_SQLITE := $(shell $(PKG_CONFIG) --exists 'sqlite3 >= 3.35' 2>/dev/null && echo sqlite3)
STORE_POSTGRES := $(if $(wildcard store/src/db/postgres.c),$(shell $(PKG_CONFIG) --exists libpq 2>/dev/null && echo libpq))
STORE ?= $(STORE_SQLITE)$(STORE_POSTGRES)

STORE_PKG := $(strip $(STORE_SQLITE) $(STORE_POSTGRES))
STORE_SRC := $(filter-out $(if $(STORE_SQLITE),,store/src/db/sqlite%) $(if $(STORE_POSTGRES),,store/src/db/postgres%),\
	$(wildcard store/src/*/*.c))
STORE_DEFINES := $(if $(STORE_SQLITE),-DHWT_STORE_SQLITE) $(if $(STORE_POSTGRES),-DHWT_STORE_POSTGRES)
STORE_CPPFLAGS := -Istore/include -Istore/src -I$(BUILD)/made $(STORE_DEFINES) $(if $(STORE_PKG),$(shell $(PKG_CONFIG) --cflags $(STORE_PKG) 2>/dev/null | sed 's/-I/-isystem /g'))
STORE_LIBS := $(if $(STORE_PKG),$(shell $(PKG_CONFIG) --libs $(STORE_PKG) 2>/dev/null))
STORE_SONAME := libhwt-store.so.$(MAJOR)
STORE_LIBRARIES := $(if $(STORE),$(BUILD)/libhwt-store.a $(BUILD)/libhwt-store.so)
# hwt_store.hpp with the shared library, where there is a C++ compiler.
STORE_CPP_TEST := $(if $(shell command -v $(CXX) 2>/dev/null),$(BUILD)/test/store_cpp)
STORE_TESTS := $(if $(STORE),$(patsubst store/test/%.c,$(BUILD)/test/%,$(wildcard store/test/store_*.c)) $(STORE_CPP_TEST))

.PHONY: store store-tests check-store

store: $(STORE_LIBRARIES)
	@$(SAY) '$(if $(STORE),libhwt-store: $(STORE_PKG)$(if $(STORE_SQLITE),,; without sqlite3)$(if $(STORE_POSTGRES),,; without libpq),libhwt-store is left out: pkg-config finds neither sqlite3 (3.35) nor libpq)'

# The SQL as C: a table of the statements, and the lines of the scripts.
STORE_STATEMENTS := $(sort $(wildcard store/sql/statements/*.sql))
STORE_MADE := $(addprefix $(BUILD)/made/sql/,statements.h functions.h $(patsubst store/sql/%.sql,%.h,$(wildcard store/sql/*s_*.sql)))

$(BUILD)/made/sql/statements.h: store/sql/table.awk $(STORE_STATEMENTS)
	$(Q)mkdir -p $(@D) && awk -f $^ >$@
$(BUILD)/made/sql/functions.h: store/sql/lines.awk store/sql/functions.sql
	$(Q)mkdir -p $(@D) && awk -v comma=, -f $^ >$@
$(BUILD)/made/sql/%.h: store/sql/lines.awk store/sql/%.sql
	$(Q)mkdir -p $(@D) && awk -f $^ >$@

schema: ## writes the tables of store/doc/schema.md, of the comments in the SQL
	$(Q)mkdir -p $(BUILD)/made && awk -f store/sql/schema.awk store/sql/tables_postgresql.sql \
		store/sql/tables_sqlite.sql store/doc/schema.md >$(BUILD)/made/schema.md && \
		mv $(BUILD)/made/schema.md store/doc/schema.md
.PHONY: schema

# For both libraries: it waits for a database, not for its own calls.
$(BUILD)/store-lib/%.o: store/src/%.c | $(STORE_MADE)
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(STORE_CPPFLAGS) $(POSIX) $(HIDDEN) $(SAME) $(ALL_CFLAGS) -fPIC -c -o $@ $<

# With seams for clocks, news, memory and points to die at.
$(BUILD)/store-unit/%.o: store/src/%.c | $(STORE_MADE)
	@mkdir -p $(@D)
	$(QCC) $(ALL_CPPFLAGS) $(STORE_CPPFLAGS) $(POSIX) -DHWT_TEST $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/libhwt-store.a: $(STORE_SRC:store/src/%.c=$(BUILD)/store-lib/%.o)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

$(BUILD)/libhwt-store-unit.a: $(STORE_SRC:store/src/%.c=$(BUILD)/store-unit/%.o)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libhwt-store.so.$(VERSION): $(STORE_SRC:store/src/%.c=$(BUILD)/store-lib/%.o) store/src/hwt_store.map $(BUILD)/libhwt.so
	$(QCC) -shared -Wl,-soname,$(STORE_SONAME) -Wl,--version-script=store/src/hwt_store.map \
		$(if $(SAN),,-Wl$(comma)-z$(comma)defs) -o $@ $(filter %.o,$^) -L$(BUILD) -lhwt $(STORE_LIBS) $(ALL_LDFLAGS)

$(BUILD)/libhwt-store.so: $(BUILD)/libhwt-store.so.$(VERSION)
	$(Q)ln -sf $(notdir $<) $(BUILD)/$(STORE_SONAME)
	$(Q)ln -sf $(STORE_SONAME) $@

.SECONDARY: $(STORE_TESTS:%=%.o)
$(BUILD)/test/store_%.o: store/test/store_%.c | $(BUILD)/test $(STORE_MADE)
	$(QCC) $(ALL_CPPFLAGS) $(STORE_CPPFLAGS) -Itest -Istore/test $(GNU) -DHWT_TEST $(TEST_CFLAGS) -c -o $@ $<

$(BUILD)/test/store_%: $(BUILD)/test/store_%.o $(BUILD)/libhwt-store-unit.a $(BUILD)/libhwt.a
	$(QCC) $(ALL_CFLAGS) -o $@ $(filter %.o %.a,$^) $(STORE_LIBS) $(ALL_LDFLAGS)

$(STORE_CPP_TEST): store/test/store_cpp.cpp $(BUILD)/libhwt-store.so | $(BUILD)/test
	$(QCXX) -std=c++17 $(ALL_CXXFLAGS) $(ALL_CPPFLAGS) -Istore/include -Itest -o $@ $< -L$(BUILD) -lhwt-store -lhwt \
		-Wl,--enable-new-dtags,-rpath,'$$ORIGIN/..' $(ALL_LDFLAGS)

# On SQLite always, on PostgreSQL if its server is installed.
# The contract holds on a partitioned table, too; the gate tries more of it.
PARTITIONED = basic
WITHOUT_DATABASE := $(BUILD)/test/store_cron $(BUILD)/test/store_turns
# Of store_differs a sanitizer would see the parts that the others run, too.
GATE_TESTS = $(if $(SAN),$(filter-out $(BUILD)/test/store_differs,$(STORE_TESTS)),$(STORE_TESTS))
STORE_RUNS = $(STORE_SIM) $(if $(STORE_SQLITE),$(GATE_TESTS)) $(if $(STORE_POSTGRES),$(patsubst %,postgresql:%,$(filter-out $(WITHOUT_DATABASE),$(GATE_TESTS))) \
	$(addprefix partitioned:,$(filter $(PARTITIONED:%=$(BUILD)/test/store_%),$(GATE_TESTS))))

# On PostgreSQL `make check` runs those in which the engines differ most; check-store, the gate and nightly run all.
ON_POSTGRESQL = answers basic begun beside differs modes net open roles share sql views
CHECK_STORE_RUNS = $(filter-out postgresql:% partitioned:%,$(STORE_RUNS)) \
	$(filter $(foreach engine,postgresql partitioned,$(ON_POSTGRESQL:%=$(engine):$(BUILD)/test/store_%)),$(STORE_RUNS))

store-tests: store $(STORE_TESTS)
check-store: store-tests ## the tests of libhwt-store, on SQLite and a PostgreSQL of their own
	$(if $(STORE),CC='$(CC)' SAN='$(SAN)' test/run.sh $(BUILD) $(STORE_RUNS) $(STORE_CHECKS),@:)
