# The pool's log under simulation; one ctest test a weather, so that they run side by side.
add_executable(pool_log_sim sim/pool_log_sim_test.cc)
target_link_libraries(pool_log_sim PRIVATE tanada_products_poold tanada_sim tanada_options GTest::gtest GTest::gtest_main)
set(pool_log_sim_seeds 3000)
if(TANADA_SANITIZE)
  set(pool_log_sim_seeds 200)
endif()
foreach(part crashes errors full lies planted)
  add_test(NAME pool_log_sim_${part} COMMAND pool_log_sim --gtest_filter=*${part}*)
  set_tests_properties(pool_log_sim_${part} PROPERTIES TIMEOUT 300
                       ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${pool_log_sim_seeds}")
endforeach()
tanada_test(pool_log_damage SOURCES sim/pool_log_damage_test.cc MODULES products_poold sim TIMEOUT 300)
set_tests_properties(pool_log_damage PROPERTIES ENVIRONMENT TND_LOG=off)
