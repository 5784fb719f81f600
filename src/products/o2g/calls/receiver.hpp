// products/o2g/calls/receiver.hpp: what is behind tanada/o2g.h: sockets that are read, the two
// queues, and the dump area.
//
// One lock covers all of it. Of those who wait, one waits in the stream_set and then drives; the
// others wait for it.
#pragma once

#include <tanada/o2g.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/o2g/match.hpp"
#include "seams/os/area.hpp"
#include "seams/stream/stream_set.hpp"

namespace tanada::o2g::seed {

using message_header = ::o2g_header;
static_assert(sizeof(message_header) == 32 && offsetof(message_header, context) == 12 &&
              offsetof(message_header, size) == 16 && offsetof(message_header, reserved) == 24);
static_assert(sizeof(queue_entry) == 168 && offsetof(queue_entry, data) == 24 &&
              offsetof(queue_entry, reserved) == 72);

// What stands in the queue for an entry of the caller's; it lies in the entry.
struct expected {
  posted_entry node;
  queue_entry *entry = nullptr;
};
static_assert(sizeof(expected) <= sizeof(queue_entry::reserved));

// The front of a piece of the dump area. The message's bytes follow.
struct unexpected {
  arrived_entry node;
  match_link all;  // claimed or not, oldest first
  queue_entry entry{};
};

class receiver final : public port::stream_handler {
 public:
  static result<std::unique_ptr<receiver>> create(uint32_t socket_count_max);
  ~receiver() override;

  status add_socket(int socket, int rank);
  status set_dump_area(std::span<std::byte> memory);
  status start_threads(uint32_t count);

  status put(queue_entry &entry);
  status cancel(queue_entry &entry);
  status free(queue_entry &entry);
  status find(queue_entry &wanted, queue_entry *&found);
  queue_entry *next(const queue_entry *after);
  uint64_t sequence() const noexcept {
    return sequence_.load(std::memory_order_acquire);
  }

  // Null: the process's own.
  status poll(uint64_t *seen, uint64_t timeout_ns);

  status rank_status(int rank);
  void count(o2g_statistics &into);

 private:
  // head: of the next message. body: bytes land. blocked: a message that nobody expects does not
  // fit.
  enum class stage : uint8_t { head, body, blocked, ended };

  struct connection {
    port::stream_id id = port::no_stream;
    int32_t rank = 0;
    stage at = stage::head;
    status code = status::ok;  // ended: why
    message_header head{};
    size_t head_size = 0;              // bytes of it that have come
    queue_entry *into = nullptr;       // body
    uint64_t landing_size = 0;         // bytes still to come into the entry
    uint64_t lost_size = 0;            // bytes still to come that have no room there
    std::vector<std::byte> backlog{};  // blocked: read already, behind the header
  };

  explicit receiver(uint32_t socket_count_max, std::unique_ptr<port::stream_set> set);

  // sockets.cc: bytes to messages. All with the lock held.
  uint64_t accepted(port::stream_id) override {
    return 0;
  }
  void connected(uint64_t) override {}
  void writable(uint64_t) override {}
  std::span<std::byte> landing(uint64_t word) override;
  void landed(uint64_t word, size_t size) override;
  size_t shown(uint64_t word, std::span<const std::byte> bytes) override;
  void ended(uint64_t word, status why) override;
  bool wants_break() const noexcept override {
    return wanted_count_.load(std::memory_order_relaxed) != 0;
  }

  void consume(connection &from, std::span<const std::byte> bytes);
  bool begin_message(connection &from);  // false: the connection is blocked or has ended
  void receive_into(connection &from, queue_entry &entry);
  bool receive_unexpected(connection &from);
  void advance(connection &from);
  void end(connection &what, status why);
  void unblock(connection &what);
  bool unblock_for(expected &wanted);
  void unblock_what_fits();

  // receiver.cc
  bool is_raced(const queue_entry &entry, const match_pattern &pattern);
  void settle(queue_entry &entry, uint32_t flags);
  size_t drive_if_alone();
  void step(unique_lock<mutex> &lock, uint64_t deadline_ns);
  unique_lock<mutex> enter();
  void make_way(unique_lock<mutex> &lock);
  void tell(uint64_t event_count_before);
  connection *of_rank(int32_t rank);

  mutex mutex_;
  std::atomic<uint32_t> wanted_count_ =
      0;  // callers who do not wait for messages, only for the lock
  condition_variable changed_;
  bool has_leader_ = false, is_stopping_ = false;
  std::vector<std::thread> threads_;

  uint32_t const socket_count_max_;
  std::unique_ptr<port::area> dump_;  // outlives what stands in the queues
  std::vector<connection> connections_;
  std::unordered_map<int32_t, uint32_t> by_rank_;
  std::vector<uint32_t> blocked_;  // longest first
  match_link unexpected_;
  matcher queues_;  // claimed entries have left it
  std::unique_ptr<port::stream_set> set_;

  std::atomic<uint64_t> sequence_ = 0;
  uint64_t event_count_ = 0;  // messages received, connections ended
  uint64_t polled_ = 0;       // of these, when poll() last told
  uint64_t received_count_ = 0, race_count_ = 0, unexpected_count_ = 0;
  uint32_t open_count_ = 0;
};

match_key key_of(const message_header &head);
match_pattern pattern_of(const queue_entry &entry);
unexpected &unexpected_of(queue_entry &entry);
void set_flags(queue_entry &entry, uint32_t add, uint32_t remove = 0);

}  // namespace tanada::o2g::seed
