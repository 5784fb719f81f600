# tanada_http, for programs that serve pages; paths are relative to src/port.
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
add_library(tanada_http STATIC http/http_server.cc http/bounded_stream.cc)
target_link_libraries(tanada_http PUBLIC tanada_port PRIVATE PkgConfig::HTTPLIB)
if(TANADA_TESTS)
  tanada_test(http_test SOURCES http/http_server_test.cc MODULES http)
endif()
