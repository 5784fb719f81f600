# gfile's contract on the host executor and, where nvcc is installed, on a GPU. The exit status is 77
# without a GPU.
set(gfile_contract_sources
    contract/gfile_contract.cu contract/gfile_calls.cu contract/gfile_paths.cu
    contract/gfile_rows.cu contract/gfile_small.cu contract/gfile_main.cc)
tanada_kernel_executable(gfile_contract HOST SOURCES ${gfile_contract_sources})
target_link_libraries(gfile_contract PRIVATE tanada_options GTest::gtest)
tanada_compile_as_test(gfile_contract OPTIMIZED)
add_test(NAME gfile_contract COMMAND gfile_contract)
set_tests_properties(gfile_contract PROPERTIES TIMEOUT 600)
if(CMAKE_CUDA_COMPILER)
  tanada_kernel_executable(gfile_contract_cuda CUDA SOURCES ${gfile_contract_sources})
  tanada_for_gpus(gfile_contract_cuda)
  target_link_libraries(gfile_contract_cuda PRIVATE tanada_options GTest::gtest)
  add_test(NAME gfile_contract_cuda COMMAND gfile_contract_cuda)
  set_tests_properties(gfile_contract_cuda PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 LABELS gpu)
endif()
