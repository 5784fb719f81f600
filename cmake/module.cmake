# tanada_module(FOLDER SOURCES ... TESTS ... TEST_GROUP name LIBRARIES ...): one folder of src/ as a
# static library, named tanada_ and the folder with "_" for "/". It sees the headers of the folders
# that cmake/layers.txt allows it and no others, and links them. Unit tests of all folders of one
# TEST_GROUP are one program, GROUP_test (tanada_unit_tests).

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/layers.txt layer_lines REGEX "^[a-z]")
set(TANADA_MODULES "")
foreach(line IN LISTS layer_lines)
  string(REGEX MATCH "^([a-z0-9_/]+):([^@]*)@?(.*)$" _ "${line}")
  set(module ${CMAKE_MATCH_1})
  separate_arguments(uses UNIX_COMMAND "${CMAKE_MATCH_2}")
  separate_arguments(definers UNIX_COMMAND "${CMAKE_MATCH_3}")
  list(APPEND TANADA_MODULES ${module})
  set(TANADA_USES_${module} ${uses})
  set(TANADA_DEFINED_BY_${module} ${definers})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/layers.txt)

function(tanada_link source target)
  cmake_path(GET target PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${source} ${target} SYMBOLIC)
endfunction()

# A folder of links that is the whole include path of a folder of src/: the folders that it may
# include, and the public headers.
function(tanada_include_view folder result)
  set(view ${PROJECT_BINARY_DIR}/include_views/${folder})
  file(REMOVE_RECURSE ${view})
  set(include ${PROJECT_SOURCE_DIR}/include)
  file(GLOB headers RELATIVE ${include} ${include}/tanada/*.h ${include}/tanada/device/*.cuh ${include}/compat/*)
  foreach(header IN LISTS headers)
    tanada_link(${include}/${header} ${view}/${header})
  endforeach()
  foreach(used IN LISTS folder TANADA_USES_${folder})
    if(used MATCHES "^device/(.*)$")
      tanada_link(${include}/tanada/device/detail/${CMAKE_MATCH_1} ${view}/tanada/device/detail/${CMAKE_MATCH_1})
    elseif(used MATCHES "^kernel/")
      tanada_link(${PROJECT_SOURCE_DIR}/${used} ${view}/${used})
    else()
      tanada_link(${PROJECT_SOURCE_DIR}/src/${used} ${view}/${used})
    endif()
  endforeach()
  set(${result} ${view} PARENT_SCOPE)
endfunction()

# The same of the folders of kernel/ alone.
set(kernel_view ${PROJECT_BINARY_DIR}/include_views/kernel_headers)
foreach(module IN LISTS TANADA_MODULES)
  if(module MATCHES "^kernel/")
    tanada_link(${PROJECT_SOURCE_DIR}/${module} ${kernel_view}/${module})
  endif()
endforeach()

# Give a target that is compiled from a folder of src/ the include path of that folder.
function(tanada_use_view target folder)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include_views/${folder})
endfunction()

foreach(module IN LISTS TANADA_MODULES)
  if(NOT module MATCHES "^(device|kernel)/")
    tanada_include_view(${module} view)
  endif()
endforeach()

# The folders that a user of `folder` links: those it may include, and those that define what they
# declare.
function(tanada_linked_folders folder result)
  set(linked "")
  foreach(used IN LISTS folder TANADA_USES_${folder})
    list(APPEND linked ${used} ${TANADA_DEFINED_BY_${used}})
  endforeach()
  list(FILTER linked EXCLUDE REGEX "^(device|kernel)/")
  list(REMOVE_ITEM linked ${folder})
  list(REMOVE_DUPLICATES linked)
  set(${result} ${linked} PARENT_SCOPE)
endfunction()

function(tanada_module folder)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TEST_GROUP" "SOURCES;TESTS;LIBRARIES")
  if(NOT folder IN_LIST TANADA_MODULES)
    message(FATAL_ERROR "src/${folder} is not in cmake/layers.txt")
  endif()
  string(REPLACE "/" "_" name ${folder})
  set(sources ${ARG_SOURCES})
  if(NOT sources)
    # A library of CMake's has a source; an INTERFACE library may not be part of a circle of links.
    set(sources ${PROJECT_BINARY_DIR}/empty.cc)
    file(CONFIGURE OUTPUT ${sources} CONTENT "")
  endif()
  add_library(tanada_${name} STATIC ${sources})
  tanada_use_view(tanada_${name} ${folder})
  if(TANADA_USES_${folder} MATCHES "kernel/")  # for users that see src/ whole: tests, benchmarks
    target_include_directories(tanada_${name} PUBLIC ${kernel_view})
  endif()
  target_link_libraries(tanada_${name} PUBLIC tanada_options Threads::Threads)
  tanada_linked_folders(${folder} linked)
  foreach(used IN LISTS linked)
    string(REPLACE "/" "_" used ${used})
    target_link_libraries(tanada_${name} PUBLIC tanada_${used})
  endforeach()
  target_link_libraries(tanada_${name} PRIVATE ${ARG_LIBRARIES})
  if(TANADA_TESTS AND ARG_TEST_GROUP)
    list(TRANSFORM ARG_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_property(GLOBAL APPEND PROPERTY TANADA_UNIT_TESTS_${ARG_TEST_GROUP} ${ARG_TESTS})
    set_property(GLOBAL APPEND PROPERTY TANADA_UNIT_TESTED_${ARG_TEST_GROUP} ${name})
  endif()
endfunction()

# tanada_unit_tests(GROUP [OPTIMIZED] LIBRARIES ...): the program of a group's unit tests.
function(tanada_unit_tests group)
  if(NOT TANADA_TESTS)
    return()
  endif()
  get_property(tests GLOBAL PROPERTY TANADA_UNIT_TESTS_${group})
  get_property(modules GLOBAL PROPERTY TANADA_UNIT_TESTED_${group})
  tanada_test(${group}_test SOURCES ${tests} MODULES ${modules} ${ARGN})
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/precompiled.cmake)

# tanada_limit_test(NAME): a TIMEOUT that only ends what hangs. What a test takes on an idle machine, and what its TIMEOUT was
# chosen by, takes several times as long where every processor has other work.
function(tanada_limit_test name)
  set(limit_min 600)  # seconds
  get_test_property(${name} TIMEOUT timeout)
  if(NOT timeout)
    set(timeout ${limit_min})
  elseif(timeout LESS limit_min)
    math(EXPR timeout "3 * ${timeout}")
    if(timeout LESS limit_min)
      set(timeout ${limit_min})
    endif()
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout})
endfunction()

# tanada_simulation(NAME SEEDS COMMAND ...): a part of a simulation, with a third of its seeds, and NAME_all with all of
# them, which is slow. With sanitizers one test has all: they have few.
function(tanada_simulation name seeds)
  set(few ${seeds})
  if(NOT TANADA_SANITIZE)
    math(EXPR few "${seeds} / 3")
    add_test(NAME ${name}_all COMMAND ${ARGN})
    set_tests_properties(${name}_all PROPERTIES LABELS slow TIMEOUT 300 ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${seeds}")
  endif()
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 ENVIRONMENT "TND_LOG=off;TND_SIM_COUNT=${few}")
endfunction()

# tanada_compile_as_test(NAME [OPTIMIZED]): options and precompiled headers of a program with tests.
# OPTIMIZED: for those that compute.
function(tanada_compile_as_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "OPTIMIZED" "" "")
  if(ARG_OPTIMIZED)
    target_compile_options(${name} PRIVATE ${TANADA_OPTIMIZED_TEST_OPTIONS})
    tanada_reuse_headers(${name} optimized_test)
  else()
    target_compile_options(${name} PRIVATE ${TANADA_TEST_OPTIONS})
    tanada_reuse_headers(${name} test)
  endif()
endfunction()

# tanada_test_program(NAME [OPTIMIZED] SOURCES ... MODULES ... LIBRARIES ...): a program of
# GoogleTest.
function(tanada_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "OPTIMIZED" "" "SOURCES;MODULES;LIBRARIES")
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  foreach(module IN LISTS ARG_MODULES)
    target_link_libraries(${name} PRIVATE tanada_${module})
  endforeach()
  target_link_libraries(${name} PRIVATE tanada_options ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main)
  if(ARG_OPTIMIZED)
    tanada_compile_as_test(${name} OPTIMIZED)
  else()
    tanada_compile_as_test(${name})
  endif()
endfunction()

# tanada_test(NAME ... LABELS ... TIMEOUT seconds): a program of tanada_test_program and one test of
# CTest, since one for each suite takes too long to start.
function(tanada_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "LABELS")
  tanada_test_program(${name} ${ARG_UNPARSED_ARGUMENTS})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  if(ARG_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  endif()
  tanada_limit_test(${name})
endfunction()
