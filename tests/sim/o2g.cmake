# o2g engines under simulation; tests/CMakeLists.txt includes this. One ctest test for each weather,
# so that they run in parallel.
tanada_test(o2g_sim OPTIMIZED
  SOURCES sim/o2g_sim_test.cc sim/o2g_harness.cc sim/o2g_told.cc
  MODULES products_o2g sim
  TIMEOUT 300)
target_include_directories(o2g_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_tests_properties(o2g_sim PROPERTIES ENVIRONMENT "TND_LOG=off;GTEST_FILTER=-*hold/*")
foreach(weather fair ending dying refusing cutting)
  tanada_simulation(o2g_sim_${weather} 80 o2g_sim --gtest_filter=*hold/${weather})
endforeach()
