# The programs of the coordinator contract. tests/CMakeLists.txt includes this file: paths are
# relative to tests.
tanada_test(coordinator_contract
  SOURCES contract/coordinator_contract_test.cc
  MODULES sim
  TIMEOUT 300)
target_include_directories(coordinator_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# The suite can fail: a test finds each mistake that no store may make.
foreach(plant
    drops_events.a_watch_reports_every_change_once_and_in_order
    repeats_events.a_watch_reports_every_change_once_and_in_order
    ignores_conditions.two_clients_that_race_lose_no_increment
    ends_leases_early.the_end_of_a_lease_removes_its_keys_and_a_watch_reports_it
    ignores_renewals.a_lease_that_is_renewed_stays
    keeps_keys_of_leases.a_lease_that_is_revoked_is_gone_with_its_keys
    loses_wakes.waits_end_with_an_answer_with_a_wake_or_at_the_deadline)
  string(REPLACE "." ";" plant ${plant})
  list(GET plant 0 mistake)
  list(GET plant 1 test)
  add_test(NAME coordinator_contract_plant_${mistake}
           COMMAND coordinator_contract --plant ${mistake} --gtest_filter=simulated/*.${test}/*)
  set_tests_properties(coordinator_contract_plant_${mistake} PROPERTIES
    TIMEOUT 60 PASS_REGULAR_EXPRESSION "1 FAILED TEST")
endforeach()

# The same on a real etcd. Where etcd is not installed, the fixture prints the reason and exits
# with 77.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  tanada_test_program(coordinator_contract_etcd
    SOURCES contract/coordinator_contract_etcd_test.cc MODULES backends_etcd)
  target_include_directories(coordinator_contract_etcd PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  set(fixture ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/etcd.py run)
  add_test(NAME coordinator_contract_etcd
           COMMAND ${fixture} -- $<TARGET_FILE:coordinator_contract_etcd>)
  add_test(NAME coordinator_contract_etcd_secure
           COMMAND ${fixture} --secure -- $<TARGET_FILE:coordinator_contract_etcd>)
  add_test(NAME coordinator_contract_etcd_members
           COMMAND ${fixture} --members 3 -- $<TARGET_FILE:coordinator_contract_etcd>)
  set_tests_properties(
    coordinator_contract_etcd coordinator_contract_etcd_secure coordinator_contract_etcd_members
    PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
  # They add breadth, and wait for leases: make test-all runs them.
  set_tests_properties(coordinator_contract_etcd_secure coordinator_contract_etcd_members
    PROPERTIES LABELS slow)
endif()
