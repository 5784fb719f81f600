# The processes that test_launch.py starts under launchers; tests/CMakeLists.txt includes this.
if(TARGET tanada_bootstrap_pmix_plugin)
  add_executable(launch_victim launch/launch_victim.cc)
  target_link_libraries(launch_victim PRIVATE tanada_port tanada_options)
  add_dependencies(launch_victim tanada_bootstrap_pmix_plugin)
endif()
