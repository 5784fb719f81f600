// The routes of the daemon's HTTP server.
#include "products/pool/web/web.hpp"

#include <algorithm>
#include <fstream>

#include "core/base/log.hpp"
#include "products/pool/web/page.hpp"
#include "seams/os/secret_file.hpp"

namespace tanada::pool {

result<std::unique_ptr<backends::http_server>> web_start(
    const backends::http_server_options &options, pool_reporter reporter) {
  return backends::http_server::start(options,
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

result<std::string> web_token_read(const std::string &path) {
  constexpr size_t token_size_min = 16, token_size_max = 512;
  TND_TRY(seams::check_secret_file(path, "token file"));
  std::string token;
  std::ifstream file{path};
  std::getline(file, token);
  bool const is_printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (token.size() < token_size_min || token.size() > token_size_max || !is_printable)
    return fail(status::invalid,
                "the first line of {} is no token: give 16 to 512 characters without blanks, such "
                "as those of openssl rand -hex 32",
                path);
  return token;
}

}  // namespace tanada::pool
