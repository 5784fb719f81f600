# What unit tests find at run time.
if(NOT TANADA_TESTS)
  return()
endif()

# SHARED: a MODULE would be installed as a plugin.
add_library(old_gpu_plugin SHARED backends/registry/testing/old_plugin.cc)
target_include_directories(old_gpu_plugin PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
add_dependencies(backends_test old_gpu_plugin)
target_compile_definitions(backends_test PRIVATE TND_TEST_OLD_PLUGIN="$<TARGET_FILE:old_gpu_plugin>")

# Found under the name of a real plugin, in a folder of its own.
add_library(gfile_slow_plugin SHARED products/gfile/host/testing/slow_plugin.cc)
target_include_directories(gfile_slow_plugin PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
set(slow_plugin_folder ${CMAKE_CURRENT_BINARY_DIR}/slow_plugin)
set_target_properties(gfile_slow_plugin PROPERTIES
  OUTPUT_NAME tanada_store_gfarm LIBRARY_OUTPUT_DIRECTORY ${slow_plugin_folder})
add_dependencies(gfile_test gfile_slow_plugin)
target_compile_definitions(gfile_test PRIVATE TND_TEST_SLOW_PLUGIN_FOLDER="${slow_plugin_folder}")
