# find_package(laconic) and target_link_libraries(own PRIVATE laconic::laconic): what laconic.pc says, for CMake.
include(CMakeFindDependencyMacro)
find_dependency(PkgConfig)
set(_laconic_path "$ENV{PKG_CONFIG_PATH}")
set(ENV{PKG_CONFIG_PATH} "${CMAKE_CURRENT_LIST_DIR}/../../pkgconfig:${_laconic_path}")
pkg_check_modules(laconic QUIET IMPORTED_TARGET laconic)  # sets laconic_FOUND
set(ENV{PKG_CONFIG_PATH} "${_laconic_path}")
if(NOT laconic_FOUND)
  set(laconic_NOT_FOUND_MESSAGE "pkg-config does not find all that laconic needs: pkg-config --print-errors --exists laconic")
elseif(NOT TARGET laconic::laconic)
  add_library(laconic::laconic INTERFACE IMPORTED)
  set_target_properties(laconic::laconic PROPERTIES INTERFACE_LINK_LIBRARIES PkgConfig::laconic
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
