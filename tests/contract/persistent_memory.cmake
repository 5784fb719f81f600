# The contract of persistent memory; tests/CMakeLists.txt includes this. libpmem treats an ordinary
# file as persistent memory with PMEM_IS_PMEM_FORCE, so that the suite needs no module of it.
tanada_test(persistent_memory_contract
  SOURCES contract/persistent_memory_contract_test.cc
  MODULES backends_pmem sim)
target_include_directories(persistent_memory_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_tests_properties(persistent_memory_contract PROPERTIES ENVIRONMENT PMEM_IS_PMEM_FORCE=1)
add_test(NAME persistent_memory_contract_ordinary
         COMMAND persistent_memory_contract --gtest_filter=*ordinary*)
