# The pool through its C API: client and daemon in one process, over real sockets; tests/CMakeLists.txt includes this.
tanada_test(pool_contract
  SOURCES e2e/pool/pool_contract_test.cc e2e/pool/pool_names_test.cc e2e/pool/pool_async_test.cc e2e/pool/pool_security_test.cc
          e2e/pool/pool_path_test.cc e2e/pool/pool_turns_test.cc e2e/pool/pool_connections_test.cc e2e/pool/pool_device_test.cc
          e2e/pool/pool_namespaces_test.cc e2e/pool/pool_ring_test.cc e2e/pool/nixl_worker_test.cc
  MODULES products_pool products_poold products_nixl sim
  TIMEOUT 300)
target_include_directories(pool_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
if(TARGET tanada_fabric_plugin)
  add_dependencies(pool_contract tanada_fabric_plugin)
  target_compile_definitions(pool_contract PRIVATE TND_TEST_FABRIC=1)
  target_sources(pool_contract PRIVATE e2e/pool/pool_fabric_test.cc)
endif()
set_tests_properties(pool_contract PROPERTIES ENVIRONMENT TND_PLUGIN_PATH=${PROJECT_BINARY_DIR}/lib)

# Striped objects; e2e/pool/test_cluster.py runs it against a cluster.
tanada_test(pool_striped SOURCES e2e/pool/pool_striped_test.cc MODULES products_pool TIMEOUT 60)

# The clients of a real cluster while things fail; e2e/pool/cluster_faults.py runs them.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
tanada_test(pool_load_record
  SOURCES e2e/pool/load_record_test.cc e2e/pool/load_record.cc
  MODULES seams_clock
  LIBRARIES history_checker)
target_include_directories(pool_load_record PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_executable(pool_cluster_load
  e2e/pool/cluster_load.cc e2e/pool/load_client.cc e2e/pool/load_record.cc)
target_link_libraries(pool_cluster_load PRIVATE
  history_checker tanada_products_pool tanada_sim tanada_options
  CLI11::CLI11 nlohmann_json::nlohmann_json)
target_include_directories(pool_cluster_load PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(pool_load_record pool_cluster_load PROPERTIES UNITY_BUILD OFF)

# pool:// in the contract suite of all stores, and under gfile.
tanada_test(store_contract_pool
  SOURCES e2e/pool/store_contract_pool_test.cc
  MODULES backends products_poold
  TIMEOUT 300)
target_include_directories(store_contract_pool PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_dependencies(store_contract_pool tanada_store_pool)
set_tests_properties(store_contract_pool PROPERTIES ENVIRONMENT TND_PLUGIN_PATH=$<TARGET_FILE_DIR:tanada_store_pool>)

# pool:// as the swap store.
tanada_test(swap_pool
  SOURCES e2e/pool/swap_pool_test.cc
  MODULES backends products_poold products_comex
  TIMEOUT 60)
target_include_directories(swap_pool PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_dependencies(swap_pool tanada_store_pool)
set_tests_properties(swap_pool PROPERTIES ENVIRONMENT TND_PLUGIN_PATH=$<TARGET_FILE_DIR:tanada_store_pool>)

# Kernels on the pool's own pages; the daemon and the plugin are found beside the program and the
# library.
set(gfile_pool_sources e2e/pool/gfile_pool_contract.cu contract/gfile_main.cc)
tanada_kernel_executable(gfile_pool_contract HOST SOURCES ${gfile_pool_sources})
target_link_libraries(gfile_pool_contract PRIVATE tanada_options GTest::gtest)
tanada_compile_as_test(gfile_pool_contract OPTIMIZED)
add_dependencies(gfile_pool_contract tanada_store_pool tanada_poold_program)
if(TARGET tanada_fabric_plugin)
  add_dependencies(gfile_pool_contract tanada_fabric_plugin)
endif()
add_test(NAME gfile_pool_contract COMMAND gfile_pool_contract)
set_tests_properties(gfile_pool_contract PROPERTIES TIMEOUT 300)
if(CMAKE_CUDA_COMPILER)
  tanada_kernel_executable(gfile_pool_contract_cuda CUDA SOURCES ${gfile_pool_sources})
  tanada_for_gpus(gfile_pool_contract_cuda)
  target_link_libraries(gfile_pool_contract_cuda PRIVATE tanada_options GTest::gtest)
  add_dependencies(gfile_pool_contract_cuda tanada_store_pool tanada_poold_program)
  add_test(NAME gfile_pool_contract_cuda COMMAND gfile_pool_contract_cuda)
  set_tests_properties(gfile_pool_contract_cuda PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 LABELS gpu)
endif()

# A daemon in a process of its own, which is killed.
tanada_test(pool_crash SOURCES e2e/pool/pool_crash_test.cc MODULES products_pool products_poold sim TIMEOUT 600)
target_include_directories(pool_crash PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(pool_crash PRIVATE TND_TEST_POOLD="$<TARGET_FILE:tanada_poold_program>"
                                              TND_TEST_HAS_PMEM=$<BOOL:${PMEM_FOUND}>)
add_dependencies(pool_crash tanada_poold_program)
# libpmem then treats every file as persistent memory.
add_test(NAME pool_crash_persistent COMMAND pool_crash --gtest_filter=*/file)
set_tests_properties(pool_crash_persistent PROPERTIES
  TIMEOUT 600 ENVIRONMENT PMEM_IS_PMEM_FORCE=1)

# A backing file that is truncated under the daemon.
tanada_test(pool_loss SOURCES e2e/pool/pool_loss_test.cc MODULES products_pool products_poold sim TIMEOUT 300)
target_include_directories(pool_loss PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(pool_loss PRIVATE TND_TEST_POOLD="$<TARGET_FILE:tanada_poold_program>")
add_dependencies(pool_loss tanada_poold_program)
add_test(NAME pool_loss_persistent COMMAND pool_loss)
set_tests_properties(pool_loss_persistent PROPERTIES
  TIMEOUT 300 ENVIRONMENT PMEM_IS_PMEM_FORCE=1)

# The wall clock jumps. The shim is linked into the test for its clients, and preloaded into the
# daemon.
add_library(pool_clock_shim SHARED e2e/pool/clock_shim.cc)
target_include_directories(pool_clock_shim PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
tanada_test(pool_clock SOURCES e2e/pool/pool_clock_test.cc MODULES products_pool products_poold sim TIMEOUT 300)
target_include_directories(pool_clock PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(pool_clock PRIVATE pool_clock_shim)
target_compile_definitions(pool_clock PRIVATE TND_TEST_POOLD="$<TARGET_FILE:tanada_poold_program>"
                                              TND_TEST_CLOCK_SHIM="$<TARGET_FILE:pool_clock_shim>")
add_dependencies(pool_clock tanada_poold_program)

# The same over a fabric, with clients in processes of their own.
if(TARGET tanada_fabric_plugin)
  tanada_test(pool_over_fabric SOURCES e2e/pool/pool_over_fabric_test.cc MODULES products_pool products_poold sim TIMEOUT 300)
  target_include_directories(pool_over_fabric PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(pool_over_fabric PRIVATE TND_TEST_POOLD="$<TARGET_FILE:tanada_poold_program>")
  add_dependencies(pool_over_fabric tanada_poold_program tanada_fabric_plugin)
  set_tests_properties(pool_over_fabric PROPERTIES ENVIRONMENT TND_PLUGIN_PATH=${PROJECT_BINARY_DIR}/lib)
endif()
