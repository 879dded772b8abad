# SPDX-License-Identifier: BSD-2-Clause
# The examples of libhwt.  Those that need more than the library are built if that is installed.

EXAMPLES_CPP := cpp coroutine
EXAMPLES_PKG := libuv executor_glib glib_loop curl_multi
EXAMPLES_MORE := $(addprefix $(BUILD)/examples/,$(EXAMPLES_PKG) $(EXAMPLES_CPP))
PKG_libuv := libuv
PKG_executor_glib := glib-2.0
PKG_glib_loop := glib-2.0
PKG_curl_multi := libcurl
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,\
	$(filter-out $(EXAMPLES_PKG:%=examples/%.c),$(wildcard examples/*.c)))

$(BUILD)/examples/%: examples/%.c $(BUILD)/libhwt.a | $(BUILD)/examples
	$(QCC) $(ALL_CPPFLAGS) $(GNU) $(ALL_CFLAGS) -o $@ $(filter %.c,$^) $(BUILD)/libhwt.a $(ALL_LDFLAGS)

# It asks for the names of its own functions.
$(BUILD)/examples/by_task: ALL_LDFLAGS += -rdynamic -ldl

$(EXAMPLES_PKG:%=$(BUILD)/examples/%): $(BUILD)/examples/%: examples/%.c $(BUILD)/libhwt.a | $(BUILD)/examples
	@if pkg-config --exists $(PKG_$*) 2>/dev/null; then $(if $(V),,$(SAY) '  CC  $@';) $(CC) $(ALL_CPPFLAGS) $(GNU) \
		$(ALL_CFLAGS) -o $@ $< $(BUILD)/libhwt.a $$(pkg-config --cflags --libs $(PKG_$*) | \
		sed 's/-I/-isystem /g') $(ALL_LDFLAGS); fi

$(EXAMPLES_CPP:%=$(BUILD)/examples/%): $(BUILD)/examples/%: examples/%.cpp $(BUILD)/libhwt.a | $(BUILD)/examples
	@if command -v $(CXX) >/dev/null 2>&1; then $(if $(V),,$(SAY) '  CXX $@';) $(CXX) \
		-std=$(if $(filter coroutine,$*),c++20,c++17) $(ALL_CXXFLAGS) $(ALL_CPPFLAGS) -o $@ $< $(BUILD)/libhwt.a \
		$(ALL_LDFLAGS); fi

demo: $(EXAMPLES) ## a server with thousands of connections, each with its timeouts (10 seconds)
	$(BUILD)/examples/demo
