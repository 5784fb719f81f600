# The pool under simulation.
tanada_test(pool_sim SOURCES sim/pool_sim_test.cc sim/pool_harness.cc MODULES products_pool products_poold sim TIMEOUT 300)
target_include_directories(pool_sim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_tests_properties(pool_sim PROPERTIES ENVIRONMENT TND_LOG=off)
