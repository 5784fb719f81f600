#include "port/stream/teller.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>

#include "base/log.hpp"

namespace tanada::port {
namespace {

constexpr size_t text_size_max = size_t{4} << 20;  // bytes that are read of an answer
constexpr int answer_limit_s = 2;
constexpr int answers_at_a_time = 4;  // whoever else comes keeps nobody from other work

struct place {
  sockaddr_un address{};
  socklen_t size = 0;
};

// A first byte of zero: no file.
place place_of(std::string_view name) {
  place made;
  made.address.sun_family = AF_UNIX;
  size_t const size = std::min(name.size(), sizeof made.address.sun_path - 1);
  std::memcpy(made.address.sun_path + 1, name.data(), size);
  made.size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size);
  return made;
}

bool is_of_this_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

}  // namespace

result<std::unique_ptr<teller>> teller::open(std::string_view name) {
  int const made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return fail(status(-errno), "no socket for the name %.*s: %s", int(name.size()), name.data(), std::strerror(errno));
  std::unique_ptr<teller> held{new teller{made}};
  auto const at = place_of(name);
  if (::bind(made, reinterpret_cast<const sockaddr *>(&at.address), at.size) != 0 || ::listen(made, 4) != 0) {
    status const code = errno == EADDRINUSE ? status::exists : status(-errno);
    return fail(code, "the name %.*s is not to be had: %s", int(name.size()), name.data(), std::strerror(errno));
  }
  return held;
}

teller::~teller() { ::close(socket_); }

void teller::answer(const std::function<std::string()> &text) {
  for (int i = 0; i < answers_at_a_time; i++) {
    int const other = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (other < 0) return;
    if (is_of_this_user(other)) {
      std::string const all = text();
      (void)::send(other, all.data(), all.size(), MSG_NOSIGNAL);
    }
    ::close(other);
  }
}

result<std::string> teller_ask(std::string_view name) {
  int const own = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (own < 0) return status(-errno);
  struct closer {
    int socket;
    ~closer() { ::close(socket); }
  } const held{own};
  timeval const limit{.tv_sec = answer_limit_s, .tv_usec = 0};
  auto const at = place_of(name);
  if (::setsockopt(own, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) return status(-errno);
  if (::setsockopt(own, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) return status(-errno);
  if (::connect(own, reinterpret_cast<const sockaddr *>(&at.address), at.size) != 0) {
    return errno == ECONNREFUSED ? status::no_entry : errno == EAGAIN ? status::timed_out : status(-errno);
  }
  if (!is_of_this_user(own)) return status::not_permitted;
  std::string all;
  char part[16384];
  while (all.size() < text_size_max) {
    ssize_t const got = ::recv(own, part, sizeof part, 0);
    if (got == 0) return all;
    if (got < 0) return errno == EAGAIN ? status::timed_out : status(-errno);
    all.append(part, size_t(got));
  }
  return status::too_big;
}

// Each line ends with the name, a @ in place of the zero.
std::vector<std::string> tellers_find(std::string_view begin) {
  std::string const wanted = "@" + std::string{begin};
  std::set<std::string> found;
  std::ifstream lines{"/proc/net/unix"};
  for (std::string line; std::getline(lines, line);) {
    size_t const at = line.find(wanted);
    if (at != std::string::npos && at > 0 && line[at - 1] == ' ') found.insert(line.substr(at + 1));
  }
  return {found.begin(), found.end()};
}

}  // namespace tanada::port
