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

# A store that is a plugin and links nothing of ours but its client library.
function(tanada_store_plugin name library)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ OUTPUT_VARIABLE sources)
  add_library(tanada_store_${name} MODULE ${sources})
  target_include_directories(tanada_store_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tanada_store_${name} PRIVATE tanada_options ${library})
  target_link_options(tanada_store_${name} PRIVATE $<$<STREQUAL:${TANADA_SANITIZE},>:LINKER:-z,defs>)
  set_target_properties(tanada_store_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()

pkg_check_modules(GFARM IMPORTED_TARGET gfarm)
if(GFARM_FOUND)
  tanada_store_plugin(gfarm PkgConfig::GFARM gfarm/gfarm_calls.cc gfarm/gfarm_handle.cc gfarm/gfarm_engine.cc gfarm/gfarm_plugin.cc)
else()
  message(STATUS "gfarm:// is left out: libgfarm-dev is not installed")
endif()

pkg_check_modules(GLUSTER IMPORTED_TARGET glusterfs-api)
if(GLUSTER_FOUND)
  tanada_store_plugin(gluster PkgConfig::GLUSTER gluster/gluster_volume.cc gluster/gluster_engine.cc gluster/gluster_plugin.cc)
else()
  message(STATUS "gluster:// is left out: libglusterfs-dev or uuid-dev is not installed")
endif()
