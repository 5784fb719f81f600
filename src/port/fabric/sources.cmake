# What src/port/CMakeLists.txt takes in for fabrics; paths are relative to it.
set(FABRIC_SOURCES fabric/op_check.cc fabric/registration_cache.cc fabric/plugin_loader.cc)
set(FABRIC_TESTS fabric/fabric_test.cc)

# libfabric stands behind a library of its own, for who needs a network: libtanada.so does not link it.
pkg_check_modules(LIBFABRIC IMPORTED_TARGET libfabric>=1.17)
if(LIBFABRIC_FOUND)
  add_library(tanada_fabric STATIC
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_atomic.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_domain.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_endpoint.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_peers.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_post.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_reap.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_regions.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_setup.cc
    ${CMAKE_CURRENT_LIST_DIR}/libfabric_status.cc
    ${CMAKE_CURRENT_LIST_DIR}/shm_name.cc)
  target_link_libraries(tanada_fabric PUBLIC tanada_port PRIVATE tanada_options PkgConfig::LIBFABRIC)
  # For who finds it at run time, see fabric/plugin.hpp.
  add_library(tanada_fabric_plugin MODULE ${CMAKE_CURRENT_LIST_DIR}/libfabric_plugin.cc)
  target_link_libraries(tanada_fabric_plugin PRIVATE tanada_fabric tanada_options)
  target_link_options(tanada_fabric_plugin PRIVATE LINKER:--exclude-libs,ALL)
  set_target_properties(tanada_fabric_plugin PROPERTIES
    OUTPUT_NAME tanada_fabric LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  if(TANADA_TESTS)
    tanada_test(fabric_libfabric_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/libfabric_test.cc MODULES fabric
                LIBRARIES PkgConfig::LIBFABRIC)
  endif()
else()
  message(STATUS "the fabric over libfabric is left out: libfabric-dev (1.17 or newer) is not installed")
endif()
