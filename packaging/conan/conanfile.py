# SPDX-License-Identifier: BSD-2-Clause
# libhwt's core for Conan 2.  From the unpacked archive of a release (`make dist`):
#
#     conan create packaging/conan --version 0.2.0 -o "libhwt/*:shared=True"
#
# Concurrency Kit's headers come from the system (libck-dev, ck-devel).  Not yet tried with Conan itself: test/packages.sh
# configures, builds, installs, moves and uses what CMake makes, as it is called here.
import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

required_conan_version = ">=2.4"


class Libhwt(ConanFile):
    name = "libhwt"
    description = "a hashed wheel timer for multithreaded C"
    license = "BSD-2-Clause"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]
    languages = "C"

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "include/*", "src/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeToolchain(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["hwt"]
        self.cpp_info.set_property("cmake_file_name", "hwt")
        self.cpp_info.set_property("cmake_target_name", "hwt::hwt")
        self.cpp_info.set_property("pkg_config_name", "hwt")
        self.cpp_info.system_libs = ["pthread"]
