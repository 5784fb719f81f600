# The pool under simulation; one ctest test for each weather, so that they run in parallel.
tanada_test(pool_sim OPTIMIZED
  SOURCES sim/pool_sim_test.cc sim/pool_harness.cc
  MODULES products_pool products_poold sim
  TIMEOUT 300)
target_include_directories(pool_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_tests_properties(pool_sim PROPERTIES ENVIRONMENT "TND_LOG=off;GTEST_FILTER=-*hold/*")
foreach(weather fair cuts full)
  tanada_simulation(pool_sim_${weather} 300 pool_sim --gtest_filter=*hold/${weather})
endforeach()
