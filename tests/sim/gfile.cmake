# gfile under simulation; one ctest test for each weather, so that they run in parallel.
add_executable(gfile_sim sim/gfile_sim_test.cc sim/gfile_harness.cc sim/gfile_end.cc)
target_link_libraries(gfile_sim PRIVATE tanada_products_gfile tanada_sim tanada_options GTest::gtest GTest::gtest_main)
set(gfile_sim_seeds 1500)
if(TANADA_SANITIZE)
  set(gfile_sim_seeds 150)
endif()
# Not under TSan: it treats each lane as a thread, while models and store rely on a single one. The
# contract tests run under it, with real threads.
if(TANADA_SANITIZE STREQUAL "thread")
  return()
endif()
add_executable(gfile_late sim/gfile_late_test.cc)
target_link_libraries(gfile_late PRIVATE tanada_products_gfile tanada_sim tanada_options GTest::gtest GTest::gtest_main)
add_test(NAME gfile_late COMMAND gfile_late)
set_tests_properties(gfile_late PROPERTIES TIMEOUT 60)
add_executable(gfile_view sim/gfile_view_test.cc)
target_link_libraries(gfile_view PRIVATE tanada_products_gfile tanada_sim tanada_options GTest::gtest GTest::gtest_main)
add_test(NAME gfile_view COMMAND gfile_view)
set_tests_properties(gfile_view PROPERTIES TIMEOUT 60)
foreach(part hold/fair hold/errors hold/losses hold/stalls repeat planted)
  string(REPLACE "/" "_" name ${part})
  add_test(NAME gfile_sim_${name} COMMAND gfile_sim --gtest_filter=*${part}*)
  set_tests_properties(gfile_sim_${name} PROPERTIES TIMEOUT 300
                       ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${gfile_sim_seeds}")
endforeach()
# A run that finds its planted fault leaves its session as it is.
set_property(TEST gfile_sim_planted APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
