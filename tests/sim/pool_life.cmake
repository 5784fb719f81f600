# A whole pool with a disk below it; one ctest test for each weather, so that they run in parallel.
tanada_test_program(pool_life_sim OPTIMIZED
  SOURCES sim/pool_life_test.cc sim/pool_life.cc sim/pool_life_clients.cc sim/pool_life_disk.cc
          sim/pool_life_mistakes.cc
  MODULES products_pool products_poold sim)
target_include_directories(pool_life_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
# Its constants have names that other sources use for other values.
set_source_files_properties(sim/pool_life_disk.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set(pool_life_sim_seeds 100)
if(TANADA_SANITIZE)
  set(pool_life_sim_seeds 20)
endif()
add_test(NAME pool_life_sim_own COMMAND pool_life_sim --gtest_filter=pool_life_model.*:pool_life_disk.*)
foreach(part calm cuts errors full slow lies tiers_calm tiers_cuts tiers_errors tiers_full
        tiers_slow tiers_lies file_calm file_cuts file_errors file_full file_slow file_lies
        pmem_calm pmem_cuts pmem_errors pmem_full pmem_slow pmem_lies
        memory_calm memory_cuts memory_full)
  tanada_simulation(pool_life_sim_${part} ${pool_life_sim_seeds}
    pool_life_sim --gtest_filter=*/${part}:*${part}*is_caught*)
endforeach()
add_test(NAME pool_life_sim_planted
         COMMAND pool_life_sim --gtest_filter=*/planted:*planted*is_caught*)
set_tests_properties(pool_life_sim_planted PROPERTIES TIMEOUT 300
                     ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${pool_life_sim_seeds}")
