# The checker of histories of named registers; tests/CMakeLists.txt includes this.
add_library(history_checker STATIC sim/history.cc sim/history_search.cc)
target_link_libraries(history_checker PUBLIC tanada_core_base tanada_options)
tanada_test(history_test OPTIMIZED SOURCES sim/history_test.cc LIBRARIES history_checker)
target_include_directories(history_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
