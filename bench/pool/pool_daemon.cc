#include "pool_daemon.hpp"

#include <filesystem>

#include "rival.hpp"
#include "socket.hpp"

namespace bench {
namespace {

std::string program() {
  std::string found = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tanada-poold").string();
  if (!std::filesystem::exists(found)) throw not_here(found + " is not there");
  return found;
}

}  // namespace

pool_daemon::pool_daemon(uint64_t capacity)
    : port_{free_port()},
      process_{{program(), "--size", std::to_string(capacity >> 20) + "MiB", "--port", std::to_string(port_)}, scratch_.path() + "/log"} {
  // It touches all of its memory first, which takes its time on a machine that does other things.
  process_.wait_until([this] { return socket_place{"", port_}.answers(); }, 60);
}

}  // namespace bench
