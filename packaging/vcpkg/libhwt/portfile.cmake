# SPDX-License-Identifier: BSD-2-Clause
# libhwt's core for vcpkg, as an overlay port.  From the unpacked archive of a release (`make dist`):
#
#     vcpkg install libhwt --overlay-ports=packaging/vcpkg
#
# Concurrency Kit's headers come from the system (libck-dev, ck-devel).  Not yet tried with vcpkg itself: test/packages.sh
# configures, builds, installs, moves and uses what CMake makes, as it is called here.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME hwt CONFIG_PATH lib/cmake/hwt)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
