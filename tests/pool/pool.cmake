# The pool through its C API: client and daemon in one process, over real sockets; tests/CMakeLists.txt includes this.
tanada_test(pool_contract
  SOURCES pool/pool_contract_test.cc pool/pool_async_test.cc pool/pool_security_test.cc pool/pool_path_test.cc
  MODULES pool poold sim
  TIMEOUT 300)
target_include_directories(pool_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
if(TARGET tanada_fabric_plugin)
  add_dependencies(pool_contract tanada_fabric_plugin)
  target_compile_definitions(pool_contract PRIVATE TND_TEST_FABRIC=1)
endif()
set_tests_properties(pool_contract PROPERTIES ENVIRONMENT TND_PLUGIN_PATH=${PROJECT_BINARY_DIR}/lib)

# pool:// under the suite of all stores, and under gfile.
tanada_test(store_contract_pool
  SOURCES pool/store_contract_pool_test.cc
  MODULES port poold
  TIMEOUT 300)
target_include_directories(store_contract_pool PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_dependencies(store_contract_pool tanada_store_pool)
set_tests_properties(store_contract_pool PROPERTIES ENVIRONMENT TND_PLUGIN_PATH=$<TARGET_FILE_DIR:tanada_store_pool>)

# A daemon of its own process, killed.
tanada_test(pool_crash SOURCES pool/pool_crash_test.cc MODULES pool poold sim TIMEOUT 600)
target_include_directories(pool_crash PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(pool_crash PRIVATE TND_TEST_POOLD="$<TARGET_FILE:tanada_poold_program>")
add_dependencies(pool_crash tanada_poold_program)
