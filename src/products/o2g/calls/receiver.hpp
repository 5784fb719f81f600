// products/o2g/calls/receiver.hpp: the implementation of tanada/o2g.h in the process: the sockets,
// the queues of expected and unexpected messages, and the dump area.
//
// One lock covers all of it. Of the waiting threads, one waits in the stream_set and then makes
// progress; the others wait for that thread.
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
#include "products/o2g/calls/receive_service.hpp"
#include "products/o2g/match.hpp"
#include "seams/os/arena.hpp"
#include "seams/stream/stream_set.hpp"

namespace tanada::o2g::calls {

using message_header = ::o2g_header;
static_assert(sizeof(message_header) == 32 && offsetof(message_header, context) == 12 &&
              offsetof(message_header, size) == 16 && offsetof(message_header, reserved) == 24);
static_assert(sizeof(queue_entry) == 168 && offsetof(queue_entry, data) == 24 &&
              offsetof(queue_entry, reserved) == 72);

// The queue's node for an expected message. It is stored in the caller's entry.
struct expected {
  posted_entry node;
  queue_entry *entry = nullptr;
};
static_assert(sizeof(expected) <= sizeof(queue_entry::reserved));

// The header of an unexpected message in the dump area. The bytes of the message follow it.
struct unexpected {
  arrived_entry node;
  match_link all_link{};  // all unexpected messages, claimed or not, oldest first
  queue_entry entry{};
};

class receiver final : public receive_service, public seams::stream_handler {
 public:
  static result<std::unique_ptr<receiver>> create(uint32_t socket_count_max);
  ~receiver() override;

  status add_socket(int socket, int rank) override;
  status set_dump_area(std::span<std::byte> memory) override;
  status start_threads(uint32_t count) override;

  status put(queue_entry &entry) override;
  status cancel(queue_entry &entry) override;
  status free(queue_entry &entry) override;
  status find(queue_entry &request, queue_entry *&match) override;
  queue_entry *next(const queue_entry *after) override;
  uint64_t sequence() const noexcept override {
    return sequence_.load(std::memory_order_acquire);
  }

  status poll(uint64_t *event_count, uint64_t timeout_ns) override;

  status rank_status(int rank) override;
  void count(o2g_statistics &statistics) override;

 private:
  // What the connection receives next. `head`: a header. `body`: the bytes of a message. `blocked`:
  // nothing, because an unexpected message does not fit into the dump area.
  enum class stage : uint8_t { head, body, blocked, ended };

  struct connection {
    seams::stream_id id = seams::no_stream;
    int32_t rank = 0;
    stage phase = stage::head;
    status code = status::ok;  // `ended`: the reason
    message_header head{};
    size_t head_size = 0;              // bytes of `head` received
    queue_entry *entry = nullptr;      // body
    uint64_t remaining_size = 0;       // bytes still to be received into the entry
    uint64_t discard_size = 0;         // bytes still to be received that do not fit there
    std::vector<std::byte> backlog{};  // `blocked`: bytes read after the header
  };

  explicit receiver(uint32_t socket_count_max, std::unique_ptr<seams::stream_set> set);

  // sockets.cc: turns bytes into messages. All are called with the lock held.
  uint64_t on_accepted(seams::stream_id) override {
    return 0;
  }
  void on_connected(uint64_t) override {}
  void on_writable(uint64_t) override {}
  std::span<std::byte> receive_target(uint64_t word) override;
  void on_placed(uint64_t word, size_t size) override;
  size_t on_received(uint64_t word, std::span<const std::byte> bytes) override;
  void on_closed(uint64_t word, status reason) override;
  bool should_stop() const noexcept override {
    return lock_waiter_count_.load(std::memory_order_relaxed) != 0;
  }

  void consume(connection &sender, std::span<const std::byte> bytes) TND_REQUIRES(mutex_);
  // False: the connection is blocked or has ended.
  bool begin_message(connection &sender) TND_REQUIRES(mutex_);
  void receive_into(connection &sender, queue_entry &entry) TND_REQUIRES(mutex_);
  bool receive_unexpected(connection &sender) TND_REQUIRES(mutex_);
  void advance(connection &sender) TND_REQUIRES(mutex_);
  void end(connection &sender, status reason) TND_REQUIRES(mutex_);
  void unblock(connection &sender) TND_REQUIRES(mutex_);
  bool unblock_for(expected &posted) TND_REQUIRES(mutex_);
  void unblock_fitting() TND_REQUIRES(mutex_);

  // receiver.cc
  void complete_entry(queue_entry &entry, uint32_t flags) TND_REQUIRES(mutex_);
  size_t progress_if_unthreaded() TND_REQUIRES(mutex_);
  void receive_step(unique_lock<mutex> &lock, uint64_t deadline_ns) TND_REQUIRES(mutex_);
  unique_lock<mutex> lock_for_call() TND_NO_THREAD_SAFETY_ANALYSIS;  // it returns the lock
  void yield_lock(unique_lock<mutex> &lock) TND_REQUIRES(mutex_);
  void notify_waiters(uint64_t event_count_before) TND_REQUIRES(mutex_);
  connection *find_connection(int32_t rank) TND_REQUIRES(mutex_);

  mutex mutex_;
  std::atomic<uint32_t> lock_waiter_count_ =
      0;  // callers that wait only for the lock, not for messages
  condition_variable changed_;
  bool has_leader_ TND_GUARDED_BY(mutex_) = false;
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ TND_GUARDED_BY(mutex_);

  uint32_t const socket_count_max_;
  std::unique_ptr<seams::arena> unexpected_buffer_;  // outlives the entries in the queues
  std::vector<connection> connections_ TND_GUARDED_BY(mutex_);
  std::unordered_map<int32_t, uint32_t> by_rank_ TND_GUARDED_BY(mutex_);
  std::vector<uint32_t> blocked_ TND_GUARDED_BY(mutex_);  // the connection blocked longest is first
  match_link unexpected_ TND_GUARDED_BY(mutex_){};
  matcher queues_ TND_GUARDED_BY(mutex_);  // without claimed entries
  std::unique_ptr<seams::stream_set> set_;

  std::atomic<uint64_t> sequence_ = 0;
  uint64_t event_count_ TND_GUARDED_BY(mutex_) = 0;  // messages received, connections ended
  uint64_t polled_event_count_ TND_GUARDED_BY(mutex_) =
      0;  // value of `event_count_` at the last return of o2g_poll()
  uint64_t received_count_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t race_count_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t unexpected_count_ TND_GUARDED_BY(mutex_) = 0;
  uint32_t open_count_ TND_GUARDED_BY(mutex_) = 0;
};

match_key key_of(const message_header &head);
match_pattern pattern_of(const queue_entry &entry);
unexpected &unexpected_of(queue_entry &entry);
void set_flags(queue_entry &entry, uint32_t add, uint32_t remove = 0);

}  // namespace tanada::o2g::calls
