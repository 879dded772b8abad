# SPDX-License-Identifier: BSD-2-Clause
# For those who build with pkg-config and CMake: the files that name the prefix, which may be another one each time.

POINTER_BYTES = $(shell echo __SIZEOF_POINTER__ | $(CC) $(CFLAGS) -E -P - 2>/dev/null)
FILLED = PREFIX INCLUDEDIR LIBDIR VERSION SONAME STORE_SONAME STORE_LIBS POINTER_BYTES

# FILES FOLDER: writes packaging/FILE.in there, with the values of @VARIABLES@.
fill = @for file in $(1); do sed $(foreach name,$(FILLED),-e 's#@$(name)@#$($(name))#g') packaging/$$file.in \
	>$(DESTDIR)$(2)/$$file && chmod 644 $(DESTDIR)$(2)/$$file || exit 1; done

.PHONY: amalgamation

amalgamation: $(BUILD)/hwt.c ## the library as one file: build/hwt.c and build/hwt.h

$(BUILD)/hwt.c: packaging/amalgamate.pl LICENSE $(SRC) $(wildcard include/hwt.h $(ROOMS:%=src/%/*.h))
	@mkdir -p $(BUILD)
	$(Q)perl $< $(BUILD) $(CC) $(CPPFLAGS) $(CFLAGS)
