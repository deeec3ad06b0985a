# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: library, public headers, tools, and the files by which CMake and pkg-config find them.
# docs/decisions/packaging.md says why a shared and a static package differ.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/regroup)

install(TARGETS regroup EXPORT regroupTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/regroup DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(EXPORT regroupTargets NAMESPACE regroup:: DESTINATION ${package_dir})

# The tools find the library next to them, wherever the prefix is moved to.
if(REGROUP_BUILD_TOOLS AND EXISTS ${PROJECT_SOURCE_DIR}/tools/regroup/CMakeLists.txt)
  get_property(tool_targets DIRECTORY ${PROJECT_SOURCE_DIR}/tools/regroup PROPERTY BUILDSYSTEM_TARGETS)
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  foreach(target IN LISTS tool_targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
      install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
  endforeach()
endif()

# --- find_package(regroup)
if(BUILD_SHARED_LIBS)
  set(REGROUP_IS_STATIC FALSE)
else()
  set(REGROUP_IS_STATIC TRUE)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/regroupConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/regroupConfig.cmake INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/regroupConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/regroupConfig.cmake ${PROJECT_BINARY_DIR}/cmake/regroupConfigVersion.cmake
  DESTINATION ${package_dir})

# --- pkg-config: paths relative to the file itself, so that the prefix can be moved
set(REGROUP_PC_REQUIRES "")
set(REGROUP_PC_LIBS "")
if(REGROUP_IS_STATIC)
  set(REGROUP_PC_REQUIRES "libhwy")
  set(REGROUP_PC_LIBS " -pthread")
endif()
file(RELATIVE_PATH REGROUP_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" REGROUP_PC_PREFIX "${REGROUP_PC_PREFIX}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/regroup.pc.in ${PROJECT_BINARY_DIR}/cmake/regroup.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/regroup.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
