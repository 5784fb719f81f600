// products/poold/server.hpp: the daemon's sockets and the threads that serve them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/sockets/socket_stream.hpp"
#include "core/base/assert.hpp"
#include "products/poold/admission.hpp"
#include "products/poold/service.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

class poll_permits;

struct server_options {
  std::string host = "127.0.0.1";
  uint16_t port = 0;          // 0: any free port
  uint32_t worker_count = 0;  // threads; 0: one for each processor, at most 8
  uint32_t client_count_max = 4096;
  uint64_t lost_after_ns =
      backends::stream_lost_after_ns;  // a client whose host is silent for so long has failed
  bool is_open =
      false;  // without keys: admit all users of this node, not only the daemon's own and root
};

// Serves from start() to stop(). Clients on this node connect through a UNIX socket in the abstract
// namespace, named after the TCP port.
class server {
 public:
  // `shared` must outlive the server. invalid: lost_after_ns is out of range. busy: the port is in
  // use.
  static result<std::unique_ptr<server>> start(const server_options &options, service &shared);
  ~server();

  // Accept no more connections and requests. Outstanding replies are sent until the deadline, a
  // time of monotonic_clock.
  void stop(uint64_t deadline_ns);

  uint16_t port() const noexcept {
    return port_;
  }
  std::vector<session::view> clients() const;

 private:
  class worker;
  server(const server_options &options, service &shared);
  void accept_from(backends::listener &listener);
  void admit_connection(std::unique_ptr<seams::stream> connection);
  void reject_connection(seams::stream &connection, status code, const std::string &reason);
  bool is_user_allowed(const seams::stream &connection) const;
  worker &worker_for(uint64_t session) {
    TND_ASSERT(!workers_.empty());
    return *workers_[session % workers_.size()];
  }

  server_options const options_;
  service &service_;
  backends::listener tcp_, unix_;
  uint16_t port_ = 0;
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint64_t> stop_deadline_ns_{0};
  admission admission_;
  std::unique_ptr<poll_permits> const poll_permits_;
  uint64_t next_session_ = 1;  // used only by the accepting thread
  std::vector<std::unique_ptr<worker>> workers_;
};

}  // namespace tanada::poold
