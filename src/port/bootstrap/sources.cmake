# What src/port/CMakeLists.txt takes in for launchers; paths are relative to it.
set(BOOTSTRAP_SOURCES bootstrap/bootstrap.cc bootstrap/card.cc bootstrap/descriptor_exchange.cc bootstrap/descriptor_leader.cc
                      bootstrap/descriptor_socket.cc
                      bootstrap/launch.cc bootstrap/plugin_loader.cc bootstrap/value_table.cc)
set(BOOTSTRAP_TESTS bootstrap/launch_test.cc bootstrap/value_table_test.cc)

# Jobs of threads: no part of libtanada.so, tests link it.
add_library(tanada_bootstrap_local STATIC ${CMAKE_CURRENT_LIST_DIR}/local.cc)
target_link_libraries(tanada_bootstrap_local PUBLIC tanada_port PRIVATE tanada_options)
