// products/pool/web/web.hpp: a daemon's metrics and page, on loopback.
#pragma once

#include <memory>

#include "backends/http/http_server.hpp"
#include "products/pool/web/report.hpp"

namespace tanada::pool {

/**
 * Serve /metrics, /stats.json and / at 127.0.0.1 until the server is destroyed.
 *
 * @param port 0: any that is free.
 * @return as backends::http_server::start().
 */
result<std::unique_ptr<backends::http_server>> web_start(uint16_t port, pool_reporter reporter);

}  // namespace tanada::pool
