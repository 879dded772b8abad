# SPDX-License-Identifier: BSD-2-Clause
# For those who build with pkg-config and CMake: the files that name the prefix, which may be another one each time.

POINTER_BYTES = $(shell echo __SIZEOF_POINTER__ | $(CC) $(CFLAGS) -E -P - 2>/dev/null)
# CMake's files find the headers from the libraries.  Without GNU's realpath they look where these were installed.
INCLUDE_FROM_LIB = $(or $(shell realpath -ms --relative-to='$(LIBDIR)' '$(INCLUDEDIR)' 2>/dev/null),$(INCLUDEDIR))
EMPTY :=
STORE_LINKS = $(subst $(EMPTY) ,;,$(strip $(STORE_LIBS)))
FILLED = PREFIX INCLUDEDIR LIBDIR INCLUDE_FROM_LIB VERSION SONAME STORE_SONAME STORE_LIBS STORE_LINKS POINTER_BYTES

# FILES FOLDER: writes packaging/FILE.in there, with the values of @VARIABLES@.
fill = @for file in $(1); do sed $(foreach name,$(FILLED),-e 's#@$(name)@#$($(name))#g') packaging/$$file.in \
	>$(DESTDIR)$(2)/$$file && chmod 644 $(DESTDIR)$(2)/$$file || exit 1; done

.PHONY: amalgamation record deb check-deb check-dist

amalgamation: $(BUILD)/hwt.c ## the library as one file: build/hwt.c and build/hwt.h

$(BUILD)/hwt.c: packaging/amalgamate.pl LICENSE $(SRC) $(wildcard include/hwt.h $(ROOMS:%=src/%/*.h))
	@mkdir -p $(BUILD)
	$(Q)perl $< $(BUILD) $(CC) $(CPPFLAGS) $(CFLAGS)

# Debian packages of the last commit, with the system's own programs.  Those of Debian itself would have a debian/ of their own, so ours is not at the root.
DEB = build-deb/libhwt-$(VERSION)
DEB_PATH = PATH="/usr/sbin:/usr/bin:/sbin:/bin:$$PATH"
CHECK_DEB = dpkg-checkbuilddeps

deb: ## Debian packages of the last commit, in build-deb/
	@$(DEB_PATH) && $(CHECK_DEB) packaging/debian/control || { \
		awk '/^Build-Depends:/ { on = 1; sub(/^[^:]*:/, "deb: needs dpkg-dev,") } /^Standards-Version:/ { on = 0 } on' \
			packaging/debian/control >&2; \
		echo 'deb: make deps deb installs them; or apt-get install dpkg-dev git && apt-get build-dep ./packaging' >&2; exit 1; }
	rm -rf build-deb && mkdir build-deb
	git archive --format=tar --prefix=$(DIST)/ HEAD | gzip -9n >build-deb/libhwt_$(VERSION).orig.tar.gz
	tar -xf build-deb/libhwt_$(VERSION).orig.tar.gz -C build-deb
	cp -R packaging/debian $(DEB)/
	cd $(DEB) && $(DEB_PATH) MAKEFLAGS= dpkg-buildpackage -us -uc

check-deb: ## their contents, lintian, and a clean root in which they are installed, used and removed (root, minutes)
	test/run.sh $(BUILD) test/deb.sh

check-dist: ## the archive of `make dist` in a root that has make and git: it builds, passes, installs (root, minutes)
	test/run.sh $(BUILD) test/dist.sh

# What programs and stores of this version count on.  test/abi.sh and store/test/sql_files.sh compare each later tree with it.
record: all ## before a release: its symbols and layouts, and a store that it has made, in packaging/releases/
	BUILD=$(BUILD) test/abi.sh --update
	BUILD=$(BUILD) packaging/record.sh packaging/releases/$(VERSION)
