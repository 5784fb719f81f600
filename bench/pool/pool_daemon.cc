#include "pool_daemon.hpp"

#include <filesystem>

#include "rival.hpp"
#include "socket.hpp"

namespace bench {
namespace {

std::string program() {
  std::string found =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tanada-poold").string();
  if (!std::filesystem::exists(found))
    throw not_here(found + " is not there");
  return found;
}

std::vector<std::string> words(uint64_t capacity,
                               uint16_t port,
                               const std::vector<std::string> &more) {
  std::vector<std::string> all{
      program(), "--size", std::to_string(capacity >> 20) + "MiB", "--port", std::to_string(port)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

pool_daemon::pool_daemon(uint64_t capacity, const std::vector<std::string> &more)
    : port_{free_port()}, process_{words(capacity, port_, more), scratch_.path() + "/log"} {
  // It touches all of its memory first, which takes time on a busy machine.
  process_.wait_until([this] { return socket_place{"", port_}.answers(); }, 60);
}

}  // namespace bench
