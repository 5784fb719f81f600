// port/stream/teller.hpp: a process of which others of its user may ask what it is doing, by a name of this machine that is no file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tanada::port {

// Who connects gets a text, and the end. Not thread-safe.
class teller {
 public:
  // exists: somebody has the name; or what socket(2) says; with a message.
  static result<std::unique_ptr<teller>> open(std::string_view name);
  ~teller();
  teller(const teller &) = delete;
  teller &operator=(const teller &) = delete;

  // `text` is called for each of the first who have come. Never waits: who does not read loses what does not fit into a socket.
  void answer(const std::function<std::string()> &text);

 private:
  explicit teller(int socket) : socket_{socket} {}

  int socket_;
};

// Not before the answer has come, or 2 s. no_entry: nobody has the name; not_permitted: another user has it; timed_out. No messages.
result<std::string> teller_ask(std::string_view name);

// Names of tellers of this machine that begin so, whoever they are of; in any order, each once.
std::vector<std::string> tellers_find(std::string_view begin);

}  // namespace tanada::port
