# An endpoint and a peer that violates every rule, over real sockets; tests/CMakeLists.txt includes
# this.
tanada_test(o2g_raw_peer
  SOURCES e2e/o2g/raw_greeting_test.cc e2e/o2g/raw_request_test.cc e2e/o2g/raw_reset_test.cc e2e/o2g/raw_stranger_test.cc
  MODULES products_o2g
  TIMEOUT 300)
target_include_directories(o2g_raw_peer PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# Endpoints in processes that are killed and stopped.
tanada_test(o2g_process SOURCES e2e/o2g/process_test.cc MODULES products_o2g TIMEOUT 300)
target_include_directories(o2g_process PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# Many endpoints; TND_TEST_O2G_COUNT=64 for more of them.
tanada_test(o2g_scale SOURCES e2e/o2g/scale_test.cc MODULES products_o2g TIMEOUT 300)

# Again with connections driven by io_uring instead of epoll, the default.
foreach(test IN ITEMS o2g_test o2g_raw_peer o2g_process o2g_scale)
  add_test(NAME ${test}_io_uring COMMAND ${test})
  set_tests_properties(${test}_io_uring PROPERTIES TIMEOUT 300 ENVIRONMENT TND_STREAM_ENGINE=io_uring)
endforeach()

# An engine with insufficient memory: a separate program, because of its operator new.
tanada_test(o2g_memory OPTIMIZED
  SOURCES e2e/o2g/memory_test.cc MODULES products_o2g sim TIMEOUT 300)
target_include_directories(o2g_memory PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_tests_properties(o2g_memory PROPERTIES ENVIRONMENT TND_LOG=off)
