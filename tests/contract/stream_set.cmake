# The stream_set contract's binary; tests/CMakeLists.txt includes this.
tanada_test(stream_set_contract SOURCES contract/stream_set_contract_test.cc MODULES port sim TIMEOUT 300)
target_include_directories(stream_set_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
