// bench/pool/line_store.hpp: shared parts of rivals that are one server program with a line
// protocol.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rival.hpp"
#include "server.hpp"
#include "socket.hpp"

namespace bench {

class line_client : public plain_client {
 public:
  explicit line_client(stream_socket socket) : lines_{std::move(socket)} {}

 protected:
  line_socket lines_;
};

// A server owned by this process, at a UNIX socket or a port of 127.0.0.1.
template <class Client>
class line_store : public rival {
 public:
  std::unique_ptr<client> connect() final {
    return std::make_unique<Client>(at_.open());
  }

 protected:
  explicit line_store(bool is_unix)
      : at_{is_unix ? scratch_.path() + "/socket" : "", is_unix ? uint16_t{0} : free_port()} {}

  // Runs the command and waits for the socket.
  void start(const std::vector<std::string> &words) {
    server_ = std::make_unique<server>(words, scratch_.path() + "/log");
    server_->wait_until([this] { return at_.answers(); }, 10);
  }
  const socket_place &at() const {
    return at_;
  }
  std::string folder() const {
    return scratch_.path();
  }

 private:
  scratch_folder scratch_;
  socket_place at_;
  std::unique_ptr<server> server_;
};

}  // namespace bench
