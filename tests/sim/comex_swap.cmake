# Swapping under simulation; tests/CMakeLists.txt includes this. One ctest test for each weather, so
# that they run in parallel.
tanada_test_program(comex_swap_sim OPTIMIZED
  SOURCES sim/comex_swap_sim_test.cc sim/comex_swap_harness.cc sim/comex_swap_agent.cc
  MODULES products_comex sim)
target_include_directories(comex_swap_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set(comex_swap_sim_seeds 1500)
if(TANADA_SANITIZE)
  set(comex_swap_sim_seeds 100)
endif()
set(comex_swap_sim_parts sweeps gets locks messages allocations spins unseen mixed failing strangers polls tasks)
foreach(part IN LISTS comex_swap_sim_parts)
  set(seeds ${comex_swap_sim_seeds})
  if(part MATCHES "polls|strangers|tasks")  # each takes five to fifty times as long
    math(EXPR seeds "${comex_swap_sim_seeds} / 6")
  endif()
  tanada_simulation(comex_swap_sim_${part} ${seeds} comex_swap_sim --gtest_filter=*weathers*/${part})
endforeach()
add_test(NAME comex_swap_sim_planted COMMAND comex_swap_sim --gtest_filter=*plants*:comex_swap_sim*)
set_tests_properties(comex_swap_sim_planted PROPERTIES TIMEOUT 300 ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${comex_swap_sim_seeds}")
