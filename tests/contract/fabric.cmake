# The fabric contract's binaries; tests/CMakeLists.txt includes this.
if(TARGET tanada_fabric)
  add_executable(fabric_contract_libfabric contract/fabric_contract_libfabric_test.cc contract/fabric_libfabric_subject.cc)
  target_include_directories(fabric_contract_libfabric PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(fabric_contract_libfabric PRIVATE tanada_fabric tanada_options GTest::gtest)
  add_test(NAME fabric_contract_libfabric COMMAND fabric_contract_libfabric)
  set_tests_properties(fabric_contract_libfabric PROPERTIES TIMEOUT 300)
endif()
