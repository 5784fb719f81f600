// products/pool/web/web.hpp: a daemon's metrics and page.
#pragma once

#include <memory>

#include "backends/http/http_server.hpp"
#include "products/pool/web/report.hpp"

namespace tanada::pool {

/**
 * Serve /metrics, /stats.json and / until the server is destroyed.
 *
 * @param options where, and with which token.
 * @return as backends::http_server::start().
 */
result<std::unique_ptr<backends::http_server>> web_start(
    const backends::http_server_options &options, pool_reporter reporter);

// Reads the token of a file that only its owner may access: its first line, of at least 16
// characters. access: the file is open to others. invalid: it has no such line.
result<std::string> web_token_read(const std::string &path);

}  // namespace tanada::pool
