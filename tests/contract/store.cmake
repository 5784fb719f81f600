# The store contract's binaries; tests/CMakeLists.txt includes this.
tanada_test(store_contract
  SOURCES contract/store_contract_test.cc
  MODULES port sim
  TIMEOUT 300)
target_include_directories(store_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
