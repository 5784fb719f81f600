# One-sided operations under simulation; tests/CMakeLists.txt includes this. One ctest test for each
# weather, so that they run in parallel.
tanada_test_program(pgas_sim OPTIMIZED
  SOURCES sim/pgas_sim_test.cc sim/pgas_harness.cc sim/pgas_actors.cc sim/pgas_shared.cc
  MODULES onesided_job sim)
target_include_directories(pgas_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set(pgas_sim_seeds 400)
if(TANADA_SANITIZE)
  set(pgas_sim_seeds 50)
endif()
set(pgas_sim_parts ordered unordered narrow dying parted lossy)
list(TRANSFORM pgas_sim_parts PREPEND staged_ OUTPUT_VARIABLE pgas_sim_staged)
list(TRANSFORM pgas_sim_parts PREPEND taken_ OUTPUT_VARIABLE pgas_sim_taken)
list(APPEND pgas_sim_parts ${pgas_sim_staged} ${pgas_sim_taken})
foreach(part IN LISTS pgas_sim_parts)
  tanada_simulation(pgas_sim_${part} ${pgas_sim_seeds} pgas_sim --gtest_filter=*weathers*/${part})
endforeach()
add_test(NAME pgas_sim_planted COMMAND pgas_sim --gtest_filter=*plants*)
set_tests_properties(pgas_sim_planted PROPERTIES TIMEOUT 300 ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${pgas_sim_seeds}")
foreach(program IN ITEMS pgas_threads pgas_staged_threads)
  tanada_test(${program} OPTIMIZED
    SOURCES sim/${program}_test.cc MODULES onesided_job sim TIMEOUT 300)
endforeach()
tanada_test(pgas_staged_queue SOURCES sim/pgas_staged_queue_test.cc MODULES onesided_job sim)
set_tests_properties(pgas_staged_queue PROPERTIES ENVIRONMENT "TND_LOG=off")
foreach(program IN ITEMS pgas_threads pgas_staged_threads pgas_staged_queue)
  target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
endforeach()
