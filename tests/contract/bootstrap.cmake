# The bootstrap contract's binaries; tests/CMakeLists.txt includes this.
tanada_test(bootstrap_contract
  SOURCES contract/bootstrap_contract_test.cc contract/descriptor_strangers_test.cc
  MODULES bootstrap_local
  TIMEOUT 300)
set_tests_properties(bootstrap_contract PROPERTIES ENVIRONMENT TND_LOG=error)  # 64 ranks warn of what is tried
target_include_directories(bootstrap_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# In a launcher's job. ThreadSanitizer does not see how PMIx's threads agree.
if(TARGET tanada_bootstrap_pmix_plugin AND NOT TANADA_SANITIZE STREQUAL "thread")
  add_executable(bootstrap_contract_pmix contract/bootstrap_contract_pmix_test.cc)
  target_include_directories(bootstrap_contract_pmix PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(bootstrap_contract_pmix PRIVATE tanada_port tanada_options GTest::gtest GTest::gtest_main)
  add_dependencies(bootstrap_contract_pmix tanada_bootstrap_pmix_plugin)
  find_program(TANADA_MPIRUN mpirun)
  if(TANADA_MPIRUN)
    add_test(NAME bootstrap_contract_pmix
             COMMAND ${TANADA_MPIRUN} --allow-run-as-root --oversubscribe --bind-to none -n 4
                     $<TARGET_FILE:bootstrap_contract_pmix>)
    # Of what PMIx and Open MPI leave for the end LeakSanitizer is not to speak.
    set_tests_properties(bootstrap_contract_pmix PROPERTIES TIMEOUT 300
      ENVIRONMENT "TND_PLUGIN_PATH=${PROJECT_BINARY_DIR}/lib;ASAN_OPTIONS=detect_leaks=0")
  else()
    message(STATUS "the bootstrap contract is not run under a launcher: openmpi-bin is not installed")
  endif()
endif()
