# The alarm contract's binary; tests/CMakeLists.txt includes this.
tanada_test(alarm_contract
  SOURCES contract/alarm_contract_test.cc
  MODULES backends sim executor)
target_include_directories(alarm_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
