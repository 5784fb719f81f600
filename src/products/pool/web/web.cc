// The routes of the daemon's HTTP server.
#include "products/pool/web/web.hpp"

#include "products/pool/web/page.hpp"

namespace tanada::pool {

result<std::unique_ptr<backends::http_server>> web_start(uint16_t port, pool_reporter reporter) {
  return backends::http_server::start({.port = port},
                                      {{"/",
                                        "text/html; charset=utf-8",
                                        [] {
                                          return std::string(page_html);
                                        }},
                                       {"/metrics",
                                        "text/plain; version=0.0.4; charset=utf-8",
                                        [reporter] {
                                          return report_metrics(reporter());
                                        }},
                                       {"/stats.json", "application/json", [reporter] {
                                          return report_json(reporter());
                                        }}});
}

}  // namespace tanada::pool
