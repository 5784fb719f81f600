# The stream_set contract's binary; tests/CMakeLists.txt includes this.
tanada_test(stream_set_contract OPTIMIZED
  SOURCES contract/stream_set_contract_test.cc MODULES backends sim TIMEOUT 300)
target_include_directories(stream_set_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
# The suite can fail: each fault that no set may have is found by the test that looks for it.
foreach(plant corrupt.bytes_land_in_order lose.bytes_are_shown_in_order
              tells_no_room.a_sender_without_room_is_told_when_there_is_some
              ends_twice.what_was_handed_over_comes_before_the_end
              loses_wakes.waits_end_with_bytes_with_a_wake_or_at_the_deadline
              forgets_rest.bytes_land_and_are_shown_in_turns_in_order)
  string(REPLACE "." ";" plant ${plant})
  list(GET plant 0 fault)
  list(GET plant 1 found_by)
  add_test(NAME stream_set_contract_plant_${fault}
           COMMAND stream_set_contract --plant ${fault} --gtest_filter=simulated/*.${found_by}/*)
  set_tests_properties(stream_set_contract_plant_${fault} PROPERTIES TIMEOUT 60 PASS_REGULAR_EXPRESSION "1 FAILED TEST")
endforeach()
