// backends/http/http_server.hpp: a few read-only pages over HTTP on loopback, by cpp-httplib. A
// library of its own, tanada_http: libtanada.so does not need it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::port {

// `body` is called by the server's threads, by several at a time. What it throws becomes status
// 500.
struct http_page {
  std::string path;  // "/metrics"; compared byte by byte
  std::string content_type;
  std::function<std::string()> body;
};

struct http_server_options {
  uint16_t port = 0;                // 0: any that is free
  uint32_t thread_count = 2;        // that answer; one more accepts
  uint32_t waiting_count_max = 16;  // connections that wait for one of them; others get 503 at once
  uint32_t request_size_max = 8192;     // bytes of line, headers and all
  uint64_t timeout_ns = 5'000'000'000;  // of a connection, from its first byte to its last
};

/**
 * Answers GET and HEAD of its pages on 127.0.0.1, a request a connection.
 *
 * A request whose Host header names another machine gets 403, so that no page of the web reaches
 * this one through a name of its own that it points here. Everything else is refused with the usual
 * status.
 */
class http_server {
 public:
  // Returns listening. status::busy: another has the port; status::io: any other reason. The
  // message names it.
  static result<std::unique_ptr<http_server>> start(const http_server_options &options,
                                                    std::vector<http_page> pages);
  // Ends what is under way.
  ~http_server();
  http_server(const http_server &) = delete;
  http_server &operator=(const http_server &) = delete;

  uint16_t port() const noexcept;

 private:
  class state;
  explicit http_server(std::unique_ptr<state> of);
  std::unique_ptr<state> state_;
};

}  // namespace tanada::port
