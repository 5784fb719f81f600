# An endpoint and somebody who breaks every rule, over real sockets; tests/CMakeLists.txt includes this.
tanada_test(o2g_raw_peer
  SOURCES o2g/raw_greeting_test.cc o2g/raw_peer_test.cc
  MODULES o2g
  TIMEOUT 300)
target_include_directories(o2g_raw_peer PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# Endpoints in processes that are killed and stopped.
tanada_test(o2g_process SOURCES o2g/process_test.cc MODULES o2g TIMEOUT 300)
target_include_directories(o2g_process PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# Many endpoints; TND_TEST_O2G_COUNT=64 for more of them.
tanada_test(o2g_scale SOURCES o2g/scale_test.cc MODULES o2g TIMEOUT 300)
