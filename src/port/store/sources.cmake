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
  store/file_ring.cc
  store/file_store.cc
  store/plugin_loader.cc
  store/registry.cc)
set(STORE_TESTS store/store_test.cc)
set(STORE_LIBRARIES PkgConfig::LIBURING ${CMAKE_DL_LIBS})

set_source_files_properties(store/plugin_loader.cc PROPERTIES
  COMPILE_DEFINITIONS TND_PLUGIN_DIR="${CMAKE_INSTALL_FULL_LIBDIR}/tanada")
