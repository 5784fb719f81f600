# Compiler options of every target, as the interface target tanada_options.
add_library(tanada_options INTERFACE)
target_compile_options(tanada_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>
  $<$<AND:$<BOOL:${TANADA_WARNINGS_ARE_ERRORS}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # At -O3 GCC 12 wrongly warns of an overlap in `"text" + std::string`: gcc.gnu.org/PR105651.
  target_compile_options(tanada_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-restrict>)
endif()
target_compile_definitions(tanada_options INTERFACE _GNU_SOURCE)

if(TANADA_SANITIZE STREQUAL "address")
  # Checks of dynamic types fail for objects of fmt's library: the type information of this tree is
  # hidden, so that the two differ.
  target_compile_options(tanada_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr>)
  target_link_options(tanada_options INTERFACE -fsanitize=address,undefined)
elseif(TANADA_SANITIZE STREQUAL "thread")
  # ThreadSanitizer does not model fences, which GCC warns of. Here fences only order accesses of
  # different processes, which it does not observe either.
  target_compile_options(tanada_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-tsan>)
  target_compile_definitions(tanada_options INTERFACE TND_TSAN=1)
  target_link_options(tanada_options INTERFACE -fsanitize=thread)
elseif(TANADA_SANITIZE)
  message(FATAL_ERROR "TANADA_SANITIZE=${TANADA_SANITIZE}: use address, thread or nothing")
endif()

if(TANADA_FUZZ)
  target_compile_options(tanada_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Tests run once. At -O1 they compile in a quarter less time than at -O2, and at -O0, for those that
# do not compute, in half of it. At -O0 the checks of sanitizers take too long.
set(TANADA_OPTIMIZED_TEST_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O1>)
set(TANADA_TEST_OPTIONS ${TANADA_OPTIMIZED_TEST_OPTIONS})
if(NOT TANADA_SANITIZE)
  set(TANADA_TEST_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O0>)
endif()

option(TANADA_TESTED_ONLY
  "Optimize all by -O1, without line numbers: for a build that is tested and not measured" OFF)
if(TANADA_TESTED_ONLY)
  add_compile_options(${TANADA_OPTIMIZED_TEST_OPTIONS} $<$<COMPILE_LANGUAGE:C,CXX>:-g0>)
endif()

# A first build spends most of its time in headers. With TANADA_UNITY several sources of a target
# are compiled as one, and headers are precompiled.
option(TANADA_UNITY "Compile several sources at once: a third of the time of a whole build, but a change compiles its neighbours, too" OFF)
if(TANADA_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
  # GCC collects its garbage less often: a tenth of its time, for at most 1 GiB.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>)
  # To GCC an included source is a header, whose types in unnamed namespaces it warns of. A local
  # name may also shadow a constant of the previous source. Builds without TANADA_UNITY check for
  # shadows.
  target_compile_options(tanada_options INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage> $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)
endif()

find_program(TANADA_CCACHE ccache)
foreach(language C CXX)
  if(TANADA_CCACHE AND NOT CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${TANADA_CCACHE})
  endif()
endforeach()

find_package(Threads REQUIRED)
if(TANADA_TESTS)
  find_package(GTest REQUIRED)
  enable_testing()
endif()
