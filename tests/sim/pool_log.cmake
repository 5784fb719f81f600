# The pool's log under simulation; one ctest test for each weather, so that they run in parallel.
tanada_test_program(pool_log_sim OPTIMIZED
  SOURCES sim/pool_log_sim_test.cc MODULES products_poold sim)
set(pool_log_sim_seeds 3000)
if(TANADA_SANITIZE)
  set(pool_log_sim_seeds 200)
endif()
foreach(part crashes errors full lies)
  tanada_simulation(pool_log_sim_${part} ${pool_log_sim_seeds} pool_log_sim --gtest_filter=*${part}*)
endforeach()
add_test(NAME pool_log_sim_planted COMMAND pool_log_sim --gtest_filter=*planted*)
set_tests_properties(pool_log_sim_planted PROPERTIES TIMEOUT 300 ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${pool_log_sim_seeds}")
tanada_test(pool_log_damage OPTIMIZED
  SOURCES sim/pool_log_damage_test.cc MODULES products_poold sim TIMEOUT 300)
set_tests_properties(pool_log_damage PROPERTIES ENVIRONMENT TND_LOG=off)
