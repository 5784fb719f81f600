# gfile under simulation; one ctest test for each weather, so that they run in parallel.
tanada_test_program(gfile_sim OPTIMIZED
  SOURCES sim/gfile_sim_test.cc sim/gfile_harness.cc sim/gfile_end.cc MODULES products_gfile sim)
set(gfile_sim_seeds 1500)
if(TANADA_SANITIZE)
  set(gfile_sim_seeds 150)
endif()
# Not under TSan: it treats each lane as a thread, while models and store rely on a single one. The
# contract tests run under it, with real threads.
if(TANADA_SANITIZE STREQUAL "thread")
  return()
endif()
tanada_test_program(gfile_late SOURCES sim/gfile_late_test.cc MODULES products_gfile sim)
add_test(NAME gfile_late COMMAND gfile_late)
set_tests_properties(gfile_late PROPERTIES TIMEOUT 60)
tanada_test_program(gfile_view SOURCES sim/gfile_view_test.cc MODULES products_gfile sim)
add_test(NAME gfile_view COMMAND gfile_view)
set_tests_properties(gfile_view PROPERTIES TIMEOUT 60)
foreach(weather fair errors losses stalls)
  tanada_simulation(
    gfile_sim_hold_${weather} ${gfile_sim_seeds} gfile_sim --gtest_filter=*hold/${weather})
endforeach()
foreach(part repeat planted)
  add_test(NAME gfile_sim_${part} COMMAND gfile_sim --gtest_filter=*${part}*)
  set_tests_properties(gfile_sim_${part} PROPERTIES TIMEOUT 300 ENVIRONMENT TND_LOG=off)
endforeach()
# A run that finds its planted fault leaves its session as it is.
set_property(TEST gfile_sim_planted APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
