# What src/port/CMakeLists.txt takes in for the stores; paths are relative to it.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)

set(STORE_SOURCES
  store/op_check.cc
  store/mem_object.cc
  store/mem_store.cc
  store/worker_pool.cc
  store/blocking_store.cc
  store/file_engine.cc
  store/local_device.cc
  store/local_engine.cc
  store/local_file.cc
  store/mapped_file.cc
  store/file_ring.cc
  store/ring_store.cc
  store/file_store.cc
  store/plugin_loader.cc
  store/registry.cc)
set(STORE_TESTS store/store_test.cc store/local_engine_test.cc)
set(STORE_LIBRARIES PkgConfig::LIBURING ${CMAKE_DL_LIBS})

# The Gfarm store, a plugin that links nothing of ours.
pkg_check_modules(GFARM IMPORTED_TARGET gfarm)
if(GFARM_FOUND)
  add_library(tanada_store_gfarm MODULE
    ${CMAKE_CURRENT_LIST_DIR}/gfarm/gfarm_handle.cc
    ${CMAKE_CURRENT_LIST_DIR}/gfarm/gfarm_engine.cc
    ${CMAKE_CURRENT_LIST_DIR}/gfarm/gfarm_plugin.cc)
  target_include_directories(tanada_store_gfarm PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tanada_store_gfarm PRIVATE tanada_options PkgConfig::GFARM)
  target_link_options(tanada_store_gfarm PRIVATE $<$<STREQUAL:${TANADA_SANITIZE},>:LINKER:-z,defs>)
  set_target_properties(tanada_store_gfarm PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
else()
  message(STATUS "gfarm:// is left out: libgfarm-dev is not installed")
endif()

# The GlusterFS store, likewise.
pkg_check_modules(GLUSTER IMPORTED_TARGET glusterfs-api)
if(GLUSTER_FOUND)
  add_library(tanada_store_gluster MODULE
    ${CMAKE_CURRENT_LIST_DIR}/gluster/gluster_volume.cc
    ${CMAKE_CURRENT_LIST_DIR}/gluster/gluster_engine.cc
    ${CMAKE_CURRENT_LIST_DIR}/gluster/gluster_plugin.cc)
  target_include_directories(tanada_store_gluster PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tanada_store_gluster PRIVATE tanada_options PkgConfig::GLUSTER)
  target_link_options(tanada_store_gluster PRIVATE $<$<STREQUAL:${TANADA_SANITIZE},>:LINKER:-z,defs>)
  set_target_properties(tanada_store_gluster PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
else()
  message(STATUS "gluster:// is left out: libglusterfs-dev or uuid-dev is not installed")
endif()
