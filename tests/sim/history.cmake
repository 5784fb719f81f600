# The checker of histories of named registers; tests/CMakeLists.txt includes this.
tanada_test(history_test
  SOURCES sim/history_test.cc sim/history.cc sim/history_search.cc
  MODULES core_base)
target_include_directories(history_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
