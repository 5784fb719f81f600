# One-sided operations between processes; tests/CMakeLists.txt includes this.
if(TARGET tanada_fabric)
  tanada_test(pgas_processes SOURCES pgas/remote_process_test.cc MODULES pgas fabric TIMEOUT 300)
  if(TARGET o2g-fi)
    add_dependencies(pgas_processes o2g-fi)
    set_tests_properties(pgas_processes PROPERTIES ENVIRONMENT "TND_LOG=off;TND_PLUGIN_PATH=${PROJECT_BINARY_DIR}/lib")
  endif()
endif()
