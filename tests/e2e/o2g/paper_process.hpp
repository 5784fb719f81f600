// tests/e2e/o2g/paper_process.hpp: a process that uses tanada/o2g.h, with peers at the other ends
// of its TCP sockets.
//
// The tests of paper_*_test.cc state what a program can rely on. The environment selects who
// receives: TND_O2G_DRIVER=required the driver, TND_O2G_DRIVER=off the process.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <tanada/o2g.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "loopback_listener.hpp"

namespace tanada::o2g::calls {

inline constexpr uint64_t second_ns = 1'000'000'000;

// Whether the tests run on the driver, and not in the process.
inline bool is_driver_required() {
  const char *const setting = std::getenv("TND_O2G_DRIVER");
  return setting != nullptr && std::string{setting} == "required";
}

// The two ends of a TCP connection: the peer's, which sends small messages at once, and ours.
inline std::pair<int, int> tcp_pair() {
  static test::loopback_listener listener;
  auto const ends = listener.connected();
  int const on = 1;
  EXPECT_EQ(setsockopt(ends.first, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
  return ends;
}

// Ranks 0, 1, ...: `peers` are the peers' ends; bytes written there arrive.
class paper_process {
 public:
  explicit paper_process(int peer_count, size_t area_size = 1 << 20, int thread_count = 0)
      : area_(area_size) {
    EXPECT_EQ(o2g_init(peer_count), TND_OK);
    if (area_size != 0) {
      EXPECT_EQ(o2g_set_dump_area(area_.data(), area_.size()), TND_OK);
    }
    for (int rank = 0; rank < peer_count; rank++) {
      auto const [peer, ours] = tcp_pair();
      EXPECT_EQ(o2g_register_socket(ours, rank), TND_OK);
      ::close(ours);
      peers.push_back(peer);
    }
    EXPECT_EQ(o2g_start_dumper_thread(thread_count), TND_OK);
  }
  ~paper_process() {
    EXPECT_EQ(o2g_fini(), TND_OK);
    for (int const peer : peers)
      if (peer >= 0)
        ::close(peer);
  }
  void end_peer(int rank) {
    ::close(std::exchange(peers[size_t(rank)], -1));
  }

  std::vector<int> peers;

 private:
  std::vector<char> area_;
};

inline o2g_header header_of(int rank, int tag, uint64_t size, uint32_t context = 0) {
  return {O2G_MAGIC, rank, tag, context, size, 0};
}

inline std::string message_of(int rank, int tag, const std::string &text, uint32_t context = 0) {
  o2g_header const head = header_of(rank, tag, text.size(), context);
  return std::string(reinterpret_cast<const char *>(&head), sizeof head) + text;
}

// Writes everything; the socket blocks.
inline void write_all(int socket, const std::string &bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t const size = ::send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    ASSERT_GT(size, 0);
    done += size_t(size);
  }
}

// A receive and its buffer.
struct receive {
  receive(int source, int tag, size_t size, uint32_t context = 0) : buffer(size) {
    entry.source = source;
    entry.tag = tag;
    entry.context = context;
    entry.data = buffer.data();
    entry.size = size;
  }
  ~receive() {
    if ((flags() & O2G_QUEUED) != 0)
      (void)!o2g_cancel_entry(&entry);  // the library must not keep pointers to it
  }
  receive(const receive &) = delete;
  receive &operator=(const receive &) = delete;
  uint32_t flags() const {
    return o2g_entry_flags(&entry);
  }
  bool is_done() const {
    return (flags() & (O2G_RECEIVED | O2G_FAILED)) != 0;
  }
  std::string text() const {
    (void)flags();  // received_size belongs to the flags
    return {buffer.data(), size_t(entry.received_size)};
  }

  std::vector<char> buffer;
  queue_entry entry = O2G_ENTRY_INIT;
};

inline std::string text_of(const queue_entry &entry) {
  return {static_cast<const char *>(entry.data), size_t(entry.size)};
}

inline o2g_statistics statistics() {
  o2g_statistics now{};
  now.struct_size = sizeof now;
  EXPECT_EQ(o2g_get_statistics(&now), TND_OK);
  return now;
}

// Receives until the condition holds, for ten seconds.
template <class Condition>
bool until(Condition is_so) {
  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  uint64_t seen = 0;
  while (!is_so() && std::chrono::steady_clock::now() < limit)
    (void)!o2g_poll_for(&seen, second_ns / 1000);
  return is_so();
}

// Receives until so many messages have been received since o2g_init().
inline bool until_received(uint64_t count) {
  return until([&] { return statistics().received_count == count; });
}

// Receives what has arrived: of a peer of this machine, nearly always all that it has sent.
inline void receive_all() {
  uint64_t seen = 0;
  while (o2g_poll_for(&seen, 0) == TND_OK) {}
}

}  // namespace tanada::o2g::calls
