# gfile under the faults of real stores, with kernels on the host executor. Built with
# tests/contract, whose support header and Gfarm fixture these use.
function(tanada_fault_test name source)
  tanada_kernel_executable(${name} HOST SOURCES ${source})
  target_link_libraries(${name} PRIVATE tanada_options GTest::gtest GTest::gtest_main)
  tanada_compile_as_test(${name} OPTIMIZED)
endfunction()

tanada_fault_test(gfile_file_fault e2e/gfile/gfile_file_test.cu)
add_test(NAME gfile_file_fault COMMAND gfile_file_fault)
tanada_fault_test(gfile_leak e2e/gfile/gfile_leak_test.cu)
add_test(NAME gfile_leak COMMAND gfile_leak)
set_tests_properties(gfile_leak PROPERTIES LABELS slow TIMEOUT 300
                     ENVIRONMENT ASAN_OPTIONS=quarantine_size_mb=1)
tanada_kernel_executable(gfile_peer HOST SOURCES e2e/gfile/gfile_peer.cu)
target_link_libraries(gfile_peer PRIVATE tanada_options)
add_test(NAME gfile_two_processes COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/e2e/gfile/two_processes.py $<TARGET_FILE:gfile_peer>)
set_tests_properties(gfile_two_processes PROPERTIES TIMEOUT 120)
tanada_kernel_executable(gfile_victim HOST SOURCES e2e/gfile/gfile_victim.cu)
target_link_libraries(gfile_victim PRIVATE tanada_options)
set(process_test ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/e2e/gfile/process_faults.py)
add_test(NAME gfile_process_fault COMMAND ${process_test} local $<TARGET_FILE:gfile_victim> $<TARGET_SONAME_FILE:tanada>)
set_tests_properties(gfile_file_fault gfile_process_fault PROPERTIES TIMEOUT 120)
set(stress_test ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/e2e/gfile/stress_faults.py)
add_test(NAME gfile_stress_fault COMMAND ${stress_test} local $<TARGET_FILE:gfile_stress>)
set_tests_properties(gfile_stress_fault PROPERTIES TIMEOUT 240)

if(TARGET tanada_store_gfarm AND TANADA_GFMD AND TANADA_GFSD AND Python3_FOUND)
  tanada_fault_test(gfile_gfarm_fault e2e/gfile/gfile_gfarm_test.cu)
  set(fixture ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/gfarm.py run)
  add_test(NAME gfile_contract_gfarm COMMAND ${fixture} -- $<TARGET_FILE:gfile_contract>)
  add_test(NAME gfile_contract_gfarm_remote COMMAND ${fixture} --remote -- $<TARGET_FILE:gfile_contract>)
  add_test(NAME gfile_gfarm_fault COMMAND ${fixture} --remote -- $<TARGET_FILE:gfile_gfarm_fault>)
  add_test(NAME gfile_process_fault_gfarm
    COMMAND ${process_test} gfarm $<TARGET_FILE:gfile_victim> $<TARGET_SONAME_FILE:tanada> $<TARGET_FILE:tanada_store_gfarm>)
  add_test(NAME gfile_stress_fault_gfarm COMMAND ${fixture} --remote -- ${stress_test} gfarm $<TARGET_FILE:gfile_stress>)
  set_tests_properties(gfile_stress_fault_gfarm PROPERTIES TIMEOUT 240)
  # gfile_stress_fault has the same operations on local stores, gfile_gfarm_fault the faults of this one.
  set_tests_properties(gfile_stress_fault_gfarm gfile_contract_gfarm_remote PROPERTIES LABELS slow)
  set_tests_properties(gfile_contract_gfarm gfile_contract_gfarm_remote PROPERTIES TIMEOUT 600)
  set_tests_properties(gfile_gfarm_fault gfile_process_fault_gfarm PROPERTIES TIMEOUT 120)
  # It measures how a stall affects others, so few tests run beside it.
  set_tests_properties(gfile_gfarm_fault PROPERTIES PROCESSORS 2)
  set_tests_properties(gfile_contract_gfarm gfile_contract_gfarm_remote gfile_gfarm_fault gfile_stress_fault_gfarm PROPERTIES
    ENVIRONMENT TND_PLUGIN_PATH=$<TARGET_FILE_DIR:tanada_store_gfarm>)
endif()
