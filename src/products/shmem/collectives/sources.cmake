# Sources of teams, collectives and locks for src/products/shmem/CMakeLists.txt; paths are relative
# to that file.
set(SHMEM_COLLECTIVES_SOURCES
  collectives/active_set.cc collectives/api.cc collectives/api_active_set.cc collectives/api_reduce.cc collectives/collectives.cc
  collectives/departures.cc collectives/fabric_group.cc collectives/fabric_reduce.cc collectives/collective_state.cc collectives/mapped_group.cc collectives/mapped_reduce.cc collectives/node_group.cc locks.cc
  locks_api.cc collectives/stalls.cc teams.cc teams_api.cc)

# Their macros define operations whose names collide with functions of other sources.
set_source_files_properties(collectives/api_active_set.cc collectives/api_reduce.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Tests that run PEs as threads.
if(TANADA_TESTS)
  tanada_test(shmem_collectives_test OPTIMIZED
              SOURCES collectives/collectives_test.cc collectives/active_set_test.cc
                collectives/schedule_test.cc
                      locks_test.cc
              MODULES products_shmem backends_local)
  # 16 PEs on a few processors take as long as all smaller jobs.
  if(NOT TANADA_SANITIZE)
    set_tests_properties(shmem_collectives_test PROPERTIES ENVIRONMENT "GTEST_FILTER=-*16_pes*")
    add_test(NAME shmem_collectives_test_16 COMMAND shmem_collectives_test --gtest_filter=*16_pes*)
    set_tests_properties(shmem_collectives_test_16 PROPERTIES LABELS slow TIMEOUT 900)
  endif()
endif()
