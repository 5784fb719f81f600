// backends/http/http_server.hpp: a few read-only pages over HTTP, by cpp-httplib. It is
// in a separate library, tanada_http, which libtanada.so does not need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::backends {

// `body` is called by the server's threads, several at a time. An exception becomes status 500.
struct http_page {
  std::string path;  // "/metrics"; compared byte by byte
  std::string content_type;
  std::function<std::string()> body;
};

struct http_server_options {
  std::string address = "127.0.0.1";  // to listen at; other than loopback needs a token
  std::string token = {};             // requests need it; empty: all requests are answered
  uint16_t port = 0;                  // 0: any free port
  uint32_t thread_count = 2;          // threads that answer; one more accepts
  uint32_t waiting_count_max = 16;   // connections waiting for a thread; others get 503 immediately
  uint32_t request_size_max = 8192;  // bytes of the request line, headers and body
  uint64_t timeout_ns = 5'000'000'000;  // of a connection, from its first byte to its last
};

/**
 * Answers GET and HEAD of its pages, one request for each connection.
 *
 * Without a token, a request whose Host header names another machine gets 403. A web page therefore
 * cannot reach this server through a DNS name that resolves to 127.0.0.1. With a token, requests
 * have it as "Authorization: Bearer TOKEN", or as the password of any user ("Basic", as browsers
 * send it); others get 401. Other requests are refused with the usual status.
 */
class http_server {
 public:
  // Returns after the server listens. status::access: the address is not loopback and there is no
  // token. status::busy: the port is in use; status::io: any other
  // reason. The message names the reason.
  static result<std::unique_ptr<http_server>> start(const http_server_options &options,
                                                    std::vector<http_page> pages);
  // Aborts requests in flight.
  ~http_server();
  http_server(const http_server &) = delete;
  http_server &operator=(const http_server &) = delete;

  uint16_t port() const noexcept;

 private:
  class state;
  explicit http_server(std::unique_ptr<state> server_state);
  std::unique_ptr<state> state_;
};

}  // namespace tanada::backends
