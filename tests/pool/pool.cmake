# The pool through its C API: client and daemon in one process, over real sockets; tests/CMakeLists.txt includes this.
tanada_test(pool_contract
  SOURCES pool/pool_contract_test.cc pool/pool_async_test.cc
  MODULES pool poold
  TIMEOUT 300)
target_include_directories(pool_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
