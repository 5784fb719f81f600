# The clock contract's binary; tests/CMakeLists.txt includes this.
tanada_test(clock_contract
  SOURCES contract/clock_contract_test.cc
  MODULES backends sim)
target_include_directories(clock_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
