# libtanada.so: every module but the simulation, the daemon of the pool with its etcd and persistent
# memory, and what makes libshmem.so, in one shared library that exports what cmake/exported.txt
# lists.

set(members "")
set(outside_backends "backends/(etcd|http|libfabric|local|pmem)")
set(outside_products "products/(nixl|poold|shmem|comex)")
set(outside_library "^(sim|${outside_backends}|onesided/.*|${outside_products})$")
foreach(module IN LISTS TANADA_MODULES)
  string(REPLACE "/" "_" name ${module})
  if(TARGET tanada_${name} AND NOT module MATCHES "${outside_library}")
    list(APPEND members tanada_${name})
  endif()
endforeach()

# The linker script. A name without a script is local, so that spdlog, fmt and the C++ library never leak.
set(exported_list ${PROJECT_SOURCE_DIR}/cmake/exported.txt)
set(version_script ${PROJECT_BINARY_DIR}/exported.map)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${exported_list})
file(STRINGS ${exported_list} exported REGEX "^[^#]")
list(JOIN exported ";\n    " exported_lines)
file(CONFIGURE OUTPUT ${version_script} @ONLY CONTENT "TANADA_0 {\n  global:\n    @exported_lines@;\n  local:\n    *;\n};\n")

# The modules' objects, all of them; the archives are linked too for the libraries that they in turn need.
add_library(tanada SHARED)
add_library(tanada::tanada ALIAS tanada)
foreach(member IN LISTS members)
  target_sources(tanada PRIVATE $<TARGET_OBJECTS:${member}>)
endforeach()
set_target_properties(tanada PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION 0
  LINKER_LANGUAGE CXX
  LINK_DEPENDS ${version_script})
target_link_libraries(tanada PRIVATE ${members})
target_link_options(tanada PRIVATE LINKER:--version-script=${version_script})
if(NOT TANADA_SANITIZE)
  # clang leaves its sanitizers' functions to the program.
  target_link_options(tanada PRIVATE LINKER:-z,defs)
endif()
target_include_directories(tanada PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

include(cmake/library_shmem.cmake)
include(cmake/install.cmake)
