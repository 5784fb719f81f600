# CUDA where its compiler is available: TANADA_CUDA_FOUND, the language CUDA, and programs with
# kernels.
set(TANADA_CUDA_FOUND OFF)
if(NOT TANADA_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TANADA_CUDA=${TANADA_CUDA}: use AUTO, ON or OFF")
endif()

if(NOT TANADA_CUDA STREQUAL "OFF")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    # CUDA's installer does not change PATH.
    find_program(TANADA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
    if(TANADA_NVCC)
      set(CMAKE_CUDA_COMPILER ${TANADA_NVCC})
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # unknown to CMake before 3.26
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(TANADA_CUDA_FOUND ON)
    target_compile_options(tanada_options INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>
      $<$<AND:$<BOOL:${TANADA_WARNINGS_ARE_ERRORS}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings -Xcompiler=-Werror>)
  elseif(TANADA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TANADA_CUDA=ON: no nvcc found; put it on PATH or set CMAKE_CUDA_COMPILER")
  endif()
endif()
message(STATUS "CUDA: ${TANADA_CUDA_FOUND}")

option(TANADA_GPU_PROGRAMS "build programs for GPUs that take minutes to compile" ON)

# A program that only machines with a GPU need. With TANADA_GPU_PROGRAMS off, it is built only when
# named as a target.
function(tanada_for_gpus program)
  if(NOT TANADA_GPU_PROGRAMS)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# tanada_kernel_program(NAME SOURCES a.cu b.cc ... LIBRARIES ...): a program with kernels. NAME runs
# them on the host executor and, with CUDA, NAME_cuda runs the same source on a GPU. With FOR_GPUS,
# tanada_for_gpus(NAME_cuda) is called.
function(tanada_kernel_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "FOR_GPUS" "" "SOURCES;LIBRARIES")
  tanada_kernel_executable(${name} HOST SOURCES ${ARG_SOURCES})
  set(programs ${name})
  # Sanitizers apply only to the host executor.
  if(TANADA_CUDA_FOUND AND NOT TANADA_SANITIZE)
    tanada_kernel_executable(${name}_cuda CUDA SOURCES ${ARG_SOURCES})
    list(APPEND programs ${name}_cuda)
    if(ARG_FOR_GPUS)
      tanada_for_gpus(${name}_cuda)
    endif()
  endif()
  foreach(program IN LISTS programs)
    target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${program} PRIVATE tanada_options ${ARG_LIBRARIES})
  endforeach()
endfunction()
