# Clusters of pool servers under simulation; one ctest test for each weather.
tanada_test_program(cluster_sim OPTIMIZED
  SOURCES sim/cluster_sim_test.cc sim/membership_sim_test.cc sim/cluster_harness.cc
          sim/cluster_clients.cc sim/cluster_library.cc sim/cluster_disk.cc
          sim/cluster_fragments.cc sim/cluster_plays.cc
  MODULES products_pool products_poold sim
  LIBRARIES history_checker)
target_include_directories(cluster_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
foreach(weather crashes restarts disks successions fragments all)
  tanada_simulation(
    cluster_sim_${weather} 3 cluster_sim --gtest_filter=*loses_nothing/${weather})
endforeach()
# Their events happen in the weathers above, too.
foreach(weather fair stops cuts pauses etcd exiles)
  add_test(NAME cluster_sim_${weather} COMMAND cluster_sim --gtest_filter=*loses_nothing/${weather})
  set_tests_properties(cluster_sim_${weather} PROPERTIES TIMEOUT 300 LABELS slow
                       ENVIRONMENT TND_LOG=off)
endforeach()
# With a client that uses the library of programs.
foreach(weather all)
  tanada_simulation(
    cluster_sim_library_${weather} 3 cluster_sim --gtest_filter=*cluster_library*/${weather})
endforeach()
foreach(weather fair stops cuts pauses etcd crashes restarts disks fragments)
  add_test(NAME cluster_sim_library_${weather}
           COMMAND cluster_sim --gtest_filter=*cluster_library*/${weather})
  set_tests_properties(cluster_sim_library_${weather} PROPERTIES TIMEOUT 600 LABELS slow
                       ENVIRONMENT TND_LOG=off)
endforeach()
add_test(NAME cluster_sim_repeat COMMAND cluster_sim --gtest_filter=*repeat*:membership_sim*)
set_tests_properties(cluster_sim_repeat PROPERTIES TIMEOUT 300 ENVIRONMENT TND_LOG=off)
# The mistakes that few seeds find. The others take minutes: make test-sim runs them.
add_test(NAME cluster_sim_planted
         COMMAND cluster_sim --gtest_filter=*planted*/13:*planted*/15)
set_tests_properties(cluster_sim_planted PROPERTIES TIMEOUT 600 ENVIRONMENT TND_LOG=off)
set(slow_mistakes "*planted*/0:*planted*/3:*planted*/4:*planted*/17:*planted*/18:*planted*/19")
add_test(NAME cluster_sim_planted_slow COMMAND cluster_sim --gtest_filter=${slow_mistakes})
set_tests_properties(cluster_sim_planted_slow PROPERTIES TIMEOUT 1800 LABELS slow
                     ENVIRONMENT TND_LOG=off)
