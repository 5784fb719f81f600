# The gpu contract: always on the host executor, and on CUDA where it is built. tests/CMakeLists.txt
# includes this file.
set(gpu_kernels_host ${CMAKE_CURRENT_BINARY_DIR}/gpu_kernels_host.cc)
file(CONFIGURE OUTPUT ${gpu_kernels_host} CONTENT "#include \"contract/gpu_kernels.cu\"\n")
tanada_test(gpu_contract OPTIMIZED
  SOURCES contract/gpu_contract_host_test.cc ${gpu_kernels_host}
  MODULES backends executor)
target_include_directories(gpu_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# tanada_cuda_test(NAME SOURCES ... MODULES ...): a test that runs only on CUDA. Without a GPU it is
# skipped.
function(tanada_cuda_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;MODULES")
  tanada_test(${name} SOURCES contract/cuda_main.cc ${ARG_SOURCES} MODULES backends ${ARG_MODULES} LABELS device)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  add_dependencies(${name} tanada_cuda)
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

if(TANADA_CUDA_FOUND AND NOT TANADA_SANITIZE)
  tanada_cuda_test(gpu_contract_cuda SOURCES contract/gpu_contract_cuda_test.cc contract/gpu_kernels.cu MODULES executor)
  # GPU memory over libfabric, and over the pool that uses libfabric.
  if(TARGET tanada_fabric_plugin)
    tanada_cuda_test(fabric_device_cuda SOURCES contract/fabric_device_test.cc MODULES products_pool products_poold)
    add_dependencies(fabric_device_cuda tanada_fabric_plugin)
    set_tests_properties(fabric_device_cuda PROPERTIES ENVIRONMENT TND_PLUGIN_PATH=${PROJECT_BINARY_DIR}/lib)
  endif()
endif()
