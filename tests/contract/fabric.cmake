# The fabric contract's binaries; tests/CMakeLists.txt includes this.
if(TARGET tanada_backends_libfabric)
  tanada_test_program(fabric_contract_libfabric OPTIMIZED
    SOURCES contract/fabric_contract_libfabric_test.cc contract/fabric_libfabric_subject.cc
    MODULES backends_libfabric)
  target_include_directories(fabric_contract_libfabric PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  add_dependencies(fabric_contract_libfabric o2g-fi)
  add_test(NAME fabric_contract_libfabric COMMAND fabric_contract_libfabric)
  # The endpoints of one process send one another messages over TCP. With io_sync=2, ThreadSanitizer
  # takes the order of a send and its receipt for synchronization.
  set_tests_properties(fabric_contract_libfabric PROPERTIES TIMEOUT 300 ENVIRONMENT TSAN_OPTIONS=io_sync=2)
endif()
tanada_test(fabric_contract OPTIMIZED
  SOURCES contract/fabric_contract_test.cc MODULES backends sim TIMEOUT 300)
target_include_directories(fabric_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
# The suite can fail: each fault that no network may have is found by the test that looks for it.
foreach(plant corrupt.writes_and_reads_back duplicate.messages_arrive_whole_once_and_in_order
              swap.messages_arrive_whole_once_and_in_order lost.a_completed_write_is_there_when_a_later_message_arrives
              lost.of_several_endpoints_none_is_lost overtake.order_of_writes_atomics_and_reads overtake.order_of_writes/
              uncopied.a_copied_source_is_the_caller_s_when_post_returns)
  string(REPLACE "." ";" plant ${plant})
  list(GET plant 0 fault)
  list(GET plant 1 found_by)
  string(REPLACE "/" "" plant_name ${fault}_${found_by})
  add_test(NAME fabric_contract_plant_${plant_name} COMMAND fabric_contract --plant ${fault} --gtest_filter=*${found_by}*)
  set_tests_properties(fabric_contract_plant_${plant_name} PROPERTIES TIMEOUT 60 PASS_REGULAR_EXPRESSION "1 FAILED TEST")
endforeach()
