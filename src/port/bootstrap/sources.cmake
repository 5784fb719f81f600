# What src/port/CMakeLists.txt takes in for launchers; paths are relative to it.
set(BOOTSTRAP_SOURCES bootstrap/bootstrap.cc bootstrap/card.cc bootstrap/descriptor_exchange.cc bootstrap/descriptor_leader.cc
                      bootstrap/descriptor_socket.cc
                      bootstrap/launch.cc bootstrap/node_watch.cc bootstrap/plugin_loader.cc bootstrap/value_table.cc)
set(BOOTSTRAP_TESTS bootstrap/launch_test.cc bootstrap/node_watch_test.cc bootstrap/value_table_test.cc)

# Jobs of threads: no part of libtanada.so, tests link it.
add_library(tanada_bootstrap_local STATIC ${CMAKE_CURRENT_LIST_DIR}/local.cc)
target_link_libraries(tanada_bootstrap_local PUBLIC tanada_port PRIVATE tanada_options)

# PMIx stands behind a plugin, see bootstrap/plugin.hpp: libtanada.so does not link it.
pkg_check_modules(PMIX IMPORTED_TARGET pmix>=3.1)
if(PMIX_FOUND)
  add_library(tanada_bootstrap_pmix_plugin MODULE
    ${CMAKE_CURRENT_LIST_DIR}/pmix_plugin.cc
    ${CMAKE_CURRENT_LIST_DIR}/pmix_bootstrap.cc
    ${CMAKE_CURRENT_LIST_DIR}/pmix_session.cc
    ${CMAKE_CURRENT_LIST_DIR}/pmix_wait.cc)
  target_link_libraries(tanada_bootstrap_pmix_plugin PRIVATE tanada_port tanada_options PkgConfig::PMIX)
  target_link_options(tanada_bootstrap_pmix_plugin PRIVATE LINKER:--exclude-libs,ALL)
  set_target_properties(tanada_bootstrap_pmix_plugin PROPERTIES
    OUTPUT_NAME tanada_bootstrap_pmix LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
else()
  message(STATUS "jobs of several processes are left out: libpmix-dev (3.1 or newer) is not installed")
endif()
