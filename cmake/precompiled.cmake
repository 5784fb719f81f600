# Precompiled headers, by GCC. Those of tests have GoogleTest's header, a third of what most tests
# take to compile. In a first build, with TANADA_UNITY, all targets have the headers of the standard
# library that most sources read, and programs those of command lines and JSON. Other builds find a
# source that lacks an #include.
#
# GCC takes a precompiled header only with the options by which it was made, so each kind of target
# has a program or a library of its own that makes one, and which nobody uses. GCC then does not
# know which code is the system's, and warns of what it inlines of that. Such warnings are off,
# which builds for release and with sanitizers have, and in tests no warning is an error. Caches of
# compilers' results do not work with precompiled headers.

# tanada_precompile(KIND LIBRARY|PROGRAM HEADERS ...): make tanada_KIND_headers.
function(tanada_precompile kind type)
  set(target tanada_${kind}_headers)
  if(type STREQUAL "LIBRARY")
    add_library(${target} STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/headers.cc)
  else()
    add_executable(${target} EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/headers.cc)
  endif()
  target_link_libraries(${target} PRIVATE tanada_options)
  foreach(header IN LISTS ARGN)
    target_precompile_headers(${target} PRIVATE <${header}>)
  endforeach()
endfunction()

# tanada_reuse_headers(TARGET KIND): compile it with them, where they are made. CMake cannot do so
# if the target has sources in C, too.
function(tanada_reuse_headers target kind)
  get_target_property(sources ${target} SOURCES)
  if(NOT TARGET tanada_${kind}_headers OR sources MATCHES "\\.c(;|$)")
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM tanada_${kind}_headers)
  if(kind MATCHES "test$")
    target_link_libraries(${target} PRIVATE tanada_test_warnings)
  else()
    foreach(warning IN ITEMS array-bounds maybe-uninitialized stringop-overflow stringop-overread)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-${warning}>)
    endforeach()
  endif()
endfunction()

# tanada_precompile_folder(FOLDER): the rest of its targets and of those below it.
function(tanada_precompile_folder folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
    get_target_property(made ${target} PRECOMPILE_HEADERS)
    get_target_property(disabled ${target} DISABLE_PRECOMPILE_HEADERS)
    if(reused OR made OR disabled)
      continue()
    elseif(type STREQUAL "EXECUTABLE")
      tanada_reuse_headers(${target} program)
    elseif(type MATCHES "^(STATIC|SHARED|MODULE)_LIBRARY$")
      tanada_reuse_headers(${target} library)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    tanada_precompile_folder(${below})
  endforeach()
endfunction()

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
set(standard_headers
    algorithm array atomic chrono condition_variable deque fstream functional map memory mutex
    optional set span string string_view thread unordered_map utility variant vector)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cc CONTENT "int main() {\n  return 0;\n}\n")
if(TANADA_TESTS)
  add_library(tanada_test_warnings INTERFACE)
  target_compile_options(tanada_test_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error>)
  set(test_headers gtest/gtest.h)
  if(TANADA_UNITY)
    list(APPEND test_headers ${standard_headers})
  endif()
  foreach(kind IN ITEMS test optimized_test)
    tanada_precompile(${kind} PROGRAM ${test_headers})
    target_link_libraries(tanada_${kind}_headers PRIVATE GTest::gtest tanada_test_warnings)
  endforeach()
  target_compile_options(tanada_test_headers PRIVATE ${TANADA_TEST_OPTIONS})
  target_compile_options(tanada_optimized_test_headers PRIVATE ${TANADA_OPTIMIZED_TEST_OPTIONS})
endif()
if(TANADA_UNITY AND NOT TANADA_SANITIZE)
  tanada_precompile(library LIBRARY ${standard_headers})
  # Command lines are half of what small programs take.
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  tanada_precompile(program PROGRAM ${standard_headers} CLI/CLI.hpp nlohmann/json.hpp)
  target_link_libraries(tanada_program_headers PRIVATE
    CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()
