// products/poold/server.hpp: the daemon's sockets and the threads that serve them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/sockets/socket_stream.hpp"
#include "products/poold/admission.hpp"
#include "products/poold/service.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

struct server_options {
  std::string host = "127.0.0.1";
  uint16_t port = 0;          // 0: a free one
  uint32_t worker_count = 0;  // threads; 0: one a processor, 8 at most
  uint32_t client_count_max = 4096;
  uint64_t lost_after_ns =
      port::stream_lost_after_ns;  // a client whose host gives no sign for so long has gone
  bool is_open =
      false;  // without keys: all users of this node may come, not only the daemon's own and root
};

// Serves from start() to stop(). Clients on this node come through a UNIX socket in the abstract
// space, named after the TCP port.
class server {
 public:
  // `with` outlives it. busy: the port is taken.
  static result<std::unique_ptr<server>> start(const server_options &options, service &with);
  ~server();

  // No more connections and requests; answers under way get until the deadline (monotonic_clock).
  void stop(uint64_t deadline_ns);

  uint16_t port() const noexcept {
    return port_;
  }
  std::vector<session::view> clients() const;

 private:
  class worker;
  server(const server_options &options, service &with);
  void accept_from(port::listener &from);
  void welcome(std::unique_ptr<port::stream> connection);
  void turn_away(port::stream &connection, status code, const std::string &reason);
  bool may_come(const port::stream &connection) const;
  worker &worker_of(uint64_t session) {
    return *workers_[session % workers_.size()];
  }

  server_options const options_;
  service &with_;
  port::listener tcp_, unix_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> stop_deadline_ns_{0};
  admission admission_;
  uint64_t next_session_ = 1;  // of the thread that accepts
  std::vector<std::unique_ptr<worker>> workers_;
};

}  // namespace tanada::poold
