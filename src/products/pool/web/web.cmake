# tanada_pool_web, for the daemon; paths are relative to src/products/pool.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/page.html)
file(READ ${CMAKE_CURRENT_LIST_DIR}/page.html page)
configure_file(web/page.cc.in ${CMAKE_CURRENT_BINARY_DIR}/page.cc @ONLY)
add_library(tanada_pool_web STATIC web/report.cc web/metrics.cc web/web.cc ${CMAKE_CURRENT_BINARY_DIR}/page.cc)
tanada_use_view(tanada_pool_web products/pool)
target_link_libraries(tanada_pool_web PUBLIC tanada_core_base tanada_backends_linux tanada_backends_http PRIVATE nlohmann_json::nlohmann_json)
if(TANADA_TESTS)
  tanada_test(pool_web_test SOURCES web/report_test.cc MODULES pool_web)
  # Serves reports that a test makes up; see tests/e2e/pool/test_web.py.
  add_executable(pool_web_served web/testing/served.cc)
  tanada_use_view(pool_web_served products/pool)
  target_link_libraries(pool_web_served PRIVATE tanada_pool_web nlohmann_json::nlohmann_json)
endif()
