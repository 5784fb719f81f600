# What src/products/shmem/CMakeLists.txt takes in for teams, collectives and locks; paths are relative to it.
set(SHMEM_COLLECTIVES_SOURCES
  collectives/active_set.cc collectives/api.cc collectives/api_active_set.cc collectives/api_reduce.cc collectives/collectives.cc
  collectives/departures.cc collectives/far.cc collectives/far_reduce.cc collectives/kept.cc collectives/near.cc collectives/near_reduce.cc locks.cc
  locks_api.cc collectives/stalls.cc teams.cc teams_api.cc)

# Their macros name operations that other sources have functions of.
set_source_files_properties(collectives/api_active_set.cc collectives/api_reduce.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# PEs as threads.
if(TANADA_TESTS)
  tanada_test(shmem_collectives_test SOURCES collectives/collectives_test.cc collectives/active_set_test.cc locks_test.cc
              MODULES products_shmem backends_local)
endif()
