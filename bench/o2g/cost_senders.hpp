// bench/o2g/cost_senders.hpp: the senders of bench_o2g_cost: plain sockets of another process.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../common/report.hpp"
#include "core/wire/o2g.hpp"
#include "tanada/o2g.h"

namespace bench {

namespace wire = tanada::wire;
using wire::o2g::envelope;

inline constexpr size_t body_size = 64, message_size = sizeof(envelope) + body_size;

// What the senders write before each body: the head of the provider's peers, after their handshake,
// or that of the calls of tanada/o2g.h, with the socket's number as rank.
enum class protocol { plain, peer, calls };

template <class T>
T must(T value, const char *what) {
  if (value < 0)
    throw std::runtime_error(what);
  return value;
}

inline void write_all(int to, const void *source, size_t size) {
  for (auto const *at = static_cast<const char *>(source); size > 0;) {
    auto const written = size_t(must(write(to, at, size), "a write failed"));
    at += written;
    size -= written;
  }
}

inline void read_all(int from, void *target, size_t size) {
  for (auto *at = static_cast<char *>(target); size > 0;) {
    ssize_t const got = read(from, at, size);
    if (got <= 0)
      throw std::runtime_error("the other process has ended");
    at += got;
    size -= size_t(got);
  }
}

// The senders' process: connects, then sends the number of messages that a command requests, each
// on another socket.
class senders {
 public:
  senders(uint16_t port, size_t count, protocol wanted) {
    must(pipe(commands_), "no pipe");
    must(pipe(answers_), "no pipe");
    child_ = must(fork(), "no process");
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(guarded("bench_o2g_cost's senders", [&] { return serve(port, count, wanted); }));
    }
  }
  ~senders() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    for (int const each : {commands_[0], commands_[1], answers_[0], answers_[1]})
      close(each);
  }
  bool is_ready() {
    pollfd waiting{answers_[0], POLLIN, 0};
    if (::poll(&waiting, 1, 0) != 1)
      return false;
    wait();
    return true;
  }
  void send(uint32_t count) {
    write_all(commands_[1], &count, sizeof count);
    wait();
  }

 private:
  void wait() {
    char done = 0;
    read_all(answers_[0], &done, 1);
  }

  static int connected(uint16_t port) {
    int const made = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "no socket");
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(connect(made, reinterpret_cast<sockaddr *>(&at), sizeof at), "no connection");
    int const on = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    linger const at_once{
        1, 0};  // thousands of sockets closed in order would keep their ports for a minute
    setsockopt(made, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return made;
  }

  // Each is a peer with its own address, to which nothing connects.
  static void greet(int by, uint16_t port) {
    wire::o2g::hello_message mine;
    mine.port = port;
    mine.family = 4;
    mine.bytes = {127, 0, 0, 1};
    mine.credit = uint64_t{1} << 30;
    std::vector<std::byte> body;
    wire::encode(mine, body);
    envelope head;
    head.kind = uint8_t(wire::o2g::kind::hello);
    head.size = body.size();
    write_all(by, &head, sizeof head);
    write_all(by, body.data(), body.size());
  }

  static void be_welcome(int by) {
    envelope head;
    do
      read_all(by, &head, sizeof head);
    while (head.kind == uint8_t(wire::o2g::kind::credit));
    if (head.kind != uint8_t(wire::o2g::kind::welcome))
      throw std::runtime_error("not welcome");
    std::vector<std::byte> body(head.size);
    read_all(by, body.data(), body.size());
  }

  static void drop_answers(int from) {
    std::array<char, 4096> bytes;
    (void)!recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  }

  // The message that the socket of this rank sends.
  static std::vector<std::byte> message_of(protocol wanted, size_t rank) {
    o2g_header const calls_head{O2G_MAGIC, int32_t(rank), 0, 0, body_size, 0};
    envelope peer_head;
    peer_head.kind = uint8_t(wire::o2g::kind::message);
    peer_head.flags = wire::o2g::tagged;
    peer_head.size = body_size;
    auto const head = wanted == protocol::calls ? std::as_bytes(std::span{&calls_head, 1})
                                                : std::as_bytes(std::span{&peer_head, 1});
    std::vector<std::byte> message{head.begin(), head.end()};
    message.resize(head.size() + body_size);
    return message;
  }

  int serve(uint16_t port, size_t count, protocol wanted) {
    std::vector<int> all;
    for (size_t i = 0; i < count; i++)
      all.push_back(connected(port));
    if (wanted == protocol::peer) {
      for (size_t i = 0; i < count; i++)
        greet(all[i], uint16_t(i + 1 == port ? 65535 : i + 1));
      for (int const each : all)
        be_welcome(each);
    }
    std::vector<size_t> order(count);  // of the sockets
    std::iota(order.begin(), order.end(), size_t{0});
    std::minstd_rand random{1};
    size_t used = 0;
    for (char const done = 0;;) {
      write_all(answers_[1], &done, 1);
      uint32_t message_count = 0;
      read_all(commands_[0], &message_count, sizeof message_count);
      for (size_t i = 0; i < used; i++)
        drop_answers(all[order[i]]);
      for (size_t i = 0; i < message_count; i++) {  // the first ones are a random choice without
                                                    // repetition
        std::swap(order[i], order[i + random() % (count - i)]);
        auto const message = message_of(wanted, order[i]);
        write_all(all[order[i]], message.data(), message.size());
      }
      used = message_count;
    }
  }

  pid_t child_ = -1;
  int commands_[2] = {}, answers_[2] = {};
};

}  // namespace bench
