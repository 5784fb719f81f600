# The programs of the store contract. tests/CMakeLists.txt includes this file: paths are relative to
# tests.
tanada_test(store_contract
  SOURCES contract/store_contract_test.cc contract/store_file_test.cc
  MODULES backends sim
  TIMEOUT 300)
target_include_directories(store_contract PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

# Gfarm: where its client library and its servers are installed, the tests are registered and must
# pass.
find_program(TANADA_GFMD gfmd PATHS /usr/sbin /sbin)
find_program(TANADA_GFSD gfsd PATHS /usr/sbin /sbin)
find_package(Python3 COMPONENTS Interpreter)
if(TARGET tanada_store_gfarm AND TANADA_GFMD AND TANADA_GFSD AND Python3_FOUND)
  foreach(name store_contract_gfarm store_gfarm_fault)
    tanada_test_program(${name} SOURCES contract/${name}_test.cc MODULES backends)
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    add_dependencies(${name} tanada_store_gfarm)
  endforeach()
  set(fixture ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/gfarm.py run)
  add_test(NAME store_contract_gfarm COMMAND ${fixture} -- $<TARGET_FILE:store_contract_gfarm>)
  add_test(NAME store_contract_gfarm_remote COMMAND ${fixture} --remote -- $<TARGET_FILE:store_contract_gfarm>)
  add_test(NAME store_gfarm_fault COMMAND ${fixture} -- $<TARGET_FILE:store_gfarm_fault>)
  add_test(NAME gfarm_fixture COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/gfarm_test.py)
  # The test searches the machine for daemons, and must not find those of other tests. Slow: pytest
  # runs it, too.
  set_tests_properties(gfarm_fixture PROPERTIES TIMEOUT 300 RUN_SERIAL ON LABELS slow)
  set_tests_properties(store_contract_gfarm store_contract_gfarm_remote store_gfarm_fault PROPERTIES
    TIMEOUT 300
    ENVIRONMENT TND_PLUGIN_PATH=$<TARGET_FILE_DIR:tanada_store_gfarm>)
endif()

# GlusterFS, likewise. Where no volume can run (no root, no extended attributes) the fixture prints
# the reason and exits with 77.
find_program(TANADA_GLUSTERD glusterd PATHS /usr/sbin /sbin)
if(TARGET tanada_store_gluster AND TANADA_GLUSTERD AND Python3_FOUND)
  tanada_test_program(store_contract_gluster
    SOURCES contract/store_contract_gluster_test.cc MODULES backends)
  target_include_directories(store_contract_gluster PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  add_dependencies(store_contract_gluster tanada_store_gluster)
  # GlusterFS loads libtirpc later. The sanitizers call its functions by addresses that they looked
  # up when the program began.
  find_library(TANADA_TIRPC NAMES libtirpc.so.3)
  if(TANADA_SANITIZE AND TANADA_TIRPC)
    foreach(program IN ITEMS store_contract_gluster gfile_contract)
      target_link_options(
        ${program} PRIVATE LINKER:--no-as-needed ${TANADA_TIRPC} LINKER:--as-needed)
    endforeach()
  endif()
  set(gluster_fixture ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/gluster.py run)
  add_test(NAME store_contract_gluster COMMAND ${gluster_fixture} --ping-timeout 2 -- $<TARGET_FILE:store_contract_gluster>)
  add_test(NAME gfile_contract_gluster COMMAND ${gluster_fixture} -- $<TARGET_FILE:gfile_contract>)
  set_tests_properties(store_contract_gluster gfile_contract_gluster PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77
    # Libraries of GlusterFS keep memory when a volume is closed.
    ENVIRONMENT "TND_PLUGIN_PATH=$<TARGET_FILE_DIR:tanada_store_gluster>;ASAN_OPTIONS=detect_leaks=0")
  set_tests_properties(gfile_contract_gluster PROPERTIES LABELS slow)
endif()
