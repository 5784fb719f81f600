// backends/sockets/socket_stream_set.hpp: what sets of the system's sockets have in common,
// whatever drives them: the table of connections, sending, finding the lost, accepting when
// descriptors run out, sleeping and waking.
//
// An implementation adds drive(), in which it serves what has come and then calls tend(), and the
// calls that say what the kernel is to watch.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "core/base/log_limit.hpp"
#include "seams/stream/stream_set.hpp"

namespace tanada::port {

class socket_stream_set : public stream_set {
 public:
  ~socket_stream_set() override;

  void attach(stream_handler &handler) final {
    handler_ = &handler;
  }
  result<socket_address> listen(const socket_address &at) final;
  result<stream_id> connect(const socket_address &to, const socket_address &from,
                            uint64_t word) final;
  result<stream_id> adopt(int socket, uint64_t word) final;
  result<size_t> send(stream_id id, std::span<const iovec> parts) final;
  void close(stream_id id) final;
  uint64_t unsent_size(stream_id id) const final;
  socket_address peer(stream_id id) const final;
  status wait(uint64_t deadline_ns) final;
  void wake() noexcept final;
  int descriptor() const noexcept final;

 protected:
  // What is received was sent before, and so was all that came before its sending. ThreadSanitizer
  // takes that order from the calls of the system, of which io_uring's receives are none: the
  // address of this orders sends before them, of all sockets as its own does.
  static inline char sent_;

  // Bytes received from one connection before the next has its turn.
  static constexpr uint64_t share_size = 1 << 20;
  // Bytes of one call of the system: what a thread that asks for a break waits for.
  static constexpr size_t piece_size = 256 << 10;

  struct connection {
    // What receives its bytes; io_uring's alone, each but `nothing` is under way in the kernel.
    enum class receiving : uint8_t { nothing, shared, stopping, direct };
    int socket = -1;
    uint32_t generation = 0;
    uint64_t word = 0;
    bool is_connecting = false, wants_room = false, is_failed = false, is_paused = false,
         is_patient = false;
    bool is_bulky = false;  // large parts land: epoll's alone
    receiving now = receiving::nothing;
  };

  explicit socket_stream_set(const stream_set_options &options);
  bool has_descriptors() const noexcept {
    return poll_ >= 0 && event_ >= 0;
  }

  // From now on connections are accepted, or again.
  virtual status watch_listener() = 0;
  // There are no descriptors to accept with; watch_listener() follows.
  virtual void unwatch_listener() {}
  // A fresh one: its bytes, or first the end of its connect. When this fails nothing watches it.
  virtual status watch(connection &what, stream_id id) = 0;
  // When this returns the kernel no longer uses the handler's memory for it, and tells nothing more
  // of it.
  virtual void unwatch(connection &what, stream_id id) = 0;
  // Somebody is about to sleep by poll_: what comes on any connection wakes him. Any thread.
  virtual void watch_all() const noexcept {}
  // Whether somebody sleeps by poll_, or is about to, and has not looked by watch_all() yet.
  bool is_slept_on() const noexcept {
    return is_poll_told_.load() || waiters_.load() != 0;
  }
  // `writable` is to follow.
  virtual void watch_for_room(connection &what, stream_id id) = 0;

  const connection *find(stream_id id) const noexcept {
    uint32_t const index = uint32_t(id);
    if (index >= connections_.size())
      return nullptr;
    connection const &found = connections_[index];
    return found.socket >= 0 && found.generation == uint32_t(id >> 32) ? &found : nullptr;
  }
  connection *find(stream_id id) noexcept {
    return const_cast<connection *>(std::as_const(*this).find(id));
  }

  // Of these two, how many calls of the handler were made.
  size_t accept_some();  // of those who wait
  size_t show(stream_id id, std::span<const std::byte> bytes);
  bool is_accepting() const noexcept {
    return accept_again_ns_ == 0;
  }

  // Whether `connected` may be told; else the end was.
  bool has_connected(connection &what, stream_id id, bool has_hung_up);
  void end(connection &what, stream_id id, status why);

  // What is due by the clock. How many calls of the handler were made.
  size_t tend();

  stream_set_options const options_;
  int const poll_, event_;  // an epoll descriptor to wait with; what wakes it
  int listener_ = -1;
  stream_handler *handler_ = nullptr;
  std::vector<connection> connections_;

 private:
  // A number has four bits left, for io_uring's requests.
  static constexpr uint32_t generation_mask = (1u << 28) - 1;

  result<stream_id> add(int socket, uint64_t word, bool is_connecting);
  void forget(connection &what, stream_id id);
  size_t take_in(int socket);
  void pause_accepting(int error);
  size_t look_for_lost();
  bool wait_until(uint64_t deadline_ns);

  std::vector<uint32_t> free_;
  log_limit told_{3};                          // of connections that were not taken
  std::atomic<uint64_t> accept_again_ns_ = 0;  // 0: accepting
  std::atomic<uint64_t> look_again_ns_ = 0;  // for those that are lost; 0: there are no connections
  std::atomic<uint32_t> waiters_ = 0;
  mutable std::atomic<bool> is_poll_told_ =
      false;  // to somebody who may sleep by it whenever he likes
};

}  // namespace tanada::port
