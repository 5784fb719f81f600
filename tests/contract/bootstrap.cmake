# The bootstrap contract's binaries; tests/CMakeLists.txt includes this.
tanada_test(bootstrap_contract
  SOURCES contract/bootstrap_contract_test.cc contract/descriptor_strangers_test.cc
  MODULES backends_local
  TIMEOUT 300)
set_tests_properties(bootstrap_contract PROPERTIES ENVIRONMENT TND_LOG=error)  # 64 ranks warn of what is tried
target_include_directories(bootstrap_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# In a launcher's job. ThreadSanitizer does not see how PMIx's threads agree.
if(TARGET tanada_bootstrap_pmix_plugin AND NOT TANADA_SANITIZE STREQUAL "thread")
  tanada_test_program(bootstrap_contract_pmix
    SOURCES contract/bootstrap_contract_pmix_test.cc MODULES backends)
  target_include_directories(bootstrap_contract_pmix PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
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

# In a job of MPI's launcher, with the MPI that libcomex.so is for. ThreadSanitizer does not see how an MPI's threads agree.
if(TARGET comex AND NOT TANADA_SANITIZE STREQUAL "thread")
  find_package(MPI REQUIRED COMPONENTS C)
  set(comex_mpi ${PROJECT_SOURCE_DIR}/src/products/comex/mpi)
  tanada_test_program(bootstrap_contract_mpi
    SOURCES contract/bootstrap_contract_mpi_test.cc ${comex_mpi}/mpi_bootstrap.cc
            ${comex_mpi}/backoff_wait.cc
    MODULES onesided_job LIBRARIES MPI::MPI_C)
  target_include_directories(bootstrap_contract_mpi PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(bootstrap_contract_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  if(MPIEXEC_EXECUTABLE)
    foreach(count 1 2 4 8)
      add_test(NAME bootstrap_contract_mpi_${count}
               COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${count} $<TARGET_FILE:bootstrap_contract_mpi>)
      # As root, on fewer processors; what an MPI leaves for the end LeakSanitizer is not to speak of.
      set_tests_properties(bootstrap_contract_mpi_${count} PROPERTIES TIMEOUT 300 ENVIRONMENT
        "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;\
OMPI_MCA_hwloc_base_binding_policy=none;PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe;ASAN_OPTIONS=detect_leaks=0")
    endforeach()
  else()
    message(STATUS "the bootstrap contract is not run under MPI's launcher: openmpi-bin is not installed")
  endif()
endif()
