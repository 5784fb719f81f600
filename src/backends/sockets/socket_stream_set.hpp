// backends/sockets/socket_stream_set.hpp: the common part of stream sets over sockets: the table of
// connections, sending, detecting failed peers, accepting when descriptors run out, sleeping and
// waking.
//
// An implementation adds progress(), which serves events and then calls run_timers(), and the
// functions that select what the kernel watches.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "core/base/log_limit.hpp"
#include "seams/stream/stream_set.hpp"

namespace tanada::backends {

class socket_stream_set : public seams::stream_set {
 public:
  ~socket_stream_set() override;

  void attach(seams::stream_handler &handler) final {
    handler_ = &handler;
  }
  result<seams::socket_address> listen(const seams::socket_address &address) final;
  result<seams::stream_id> connect(const seams::socket_address &target,
                                   const seams::socket_address &source,
                                   uint64_t word) final;
  result<seams::stream_id> adopt(int socket, uint64_t word) final;
  result<size_t> send(seams::stream_id id, std::span<const iovec> parts) final;
  void close(seams::stream_id id) final;
  uint64_t unsent_size(seams::stream_id id) const final;
  seams::socket_address peer(seams::stream_id id) const final;
  status wait(uint64_t deadline_ns) final;
  void wake() noexcept final;
  int descriptor() const noexcept final;

 protected:
  // Received bytes were sent before, and after everything that preceded their sending.
  // ThreadSanitizer derives that order from the system calls, but io_uring's receives are not such
  // calls. The address of this variable orders sends before them, for all sockets together.
  static inline char sent_;

  // Bytes received from one connection before the next one is served.
  static constexpr uint64_t share_size = 1 << 20;
  // Bytes of one system call, which bounds the time until a thread that requests a break gets it.
  static constexpr size_t piece_size = 256 << 10;
  static_assert(piece_size <= share_size);

  struct connection {
    // How the connection's bytes are received. Only io_uring uses this; each state except `nothing`
    // has a request in the kernel.
    enum class receiving : uint8_t { nothing, shared, stopping, direct };
    int socket = -1;
    uint32_t generation = 0;
    uint64_t word = 0;
    bool is_connecting = false, wants_writable = false, is_failed = false, is_paused = false,
         is_timeout_disabled = false;
    bool is_lent = false;   // its user reads the socket
    bool is_bulky = false;  // large parts are placed directly; only epoll uses this
    receiving receive_state = receiving::nothing;
  };

  explicit socket_stream_set(const seams::stream_set_options &options);
  bool has_descriptors() const noexcept {
    return poll_ >= 0 && event_ >= 0;
  }

  // Starts or resumes accepting connections.
  virtual status watch_listener() = 0;
  // Stops accepting because descriptors ran out; watch_listener() resumes it.
  virtual void unwatch_listener() {}
  // Watches a new connection for its bytes, or first for the end of its connect. On failure the
  // connection is not watched.
  virtual status watch(connection &entry, seams::stream_id id) = 0;
  // After this returns, the kernel no longer uses the handler's memory for the connection and
  // reports no more of its events.
  virtual void unwatch(connection &entry, seams::stream_id id) = 0;
  // Called when a thread is about to sleep on poll_: from then on, data on any connection must wake
  // it. Any thread.
  virtual void watch_all() const noexcept {}
  // Whether a thread sleeps on poll_, or is about to and has not called watch_all() yet.
  bool is_slept_on() const noexcept {
    return is_poll_exposed_.load() || waiters_.load() != 0;
  }
  // Requests a call of handler_->writable().
  virtual void watch_writable(connection &entry, seams::stream_id id) = 0;

  const connection *find(seams::stream_id id) const noexcept {
    uint32_t const index = uint32_t(id);
    if (index >= connections_.size())
      return nullptr;
    connection const &entry = connections_[index];
    return entry.socket >= 0 && entry.generation == uint32_t(id >> 32) ? &entry : nullptr;
  }
  connection *find(seams::stream_id id) noexcept {
    return const_cast<connection *>(std::as_const(*this).find(id));
  }

  // Both return the number of handler calls.
  size_t accept_some();  // accepts pending connections
  size_t deliver(seams::stream_id id, std::span<const std::byte> bytes);
  bool is_accepting() const noexcept {
    return accept_again_ns_ == 0;
  }

  // Returns true if the handler may be notified of the connection; otherwise it was notified of its
  // end.
  bool has_connected(connection &entry, seams::stream_id id, bool has_hung_up);
  void end(connection &entry, seams::stream_id id, status code);

  // Runs what is due by the clock. Returns the number of handler calls.
  size_t run_timers();

  seams::stream_set_options const options_;
  int const poll_, event_;  // an epoll descriptor to wait on, and an event that wakes it
  int listener_ = -1;
  seams::stream_handler *handler_ = nullptr;
  std::vector<connection> connections_;

 private:
  // Four bits of an id are reserved for io_uring's requests.
  static constexpr uint32_t generation_mask = (1u << 28) - 1;
  static_assert((generation_mask & (generation_mask + 1)) == 0, "generations wrap around");

  result<seams::stream_id> add(int socket, uint64_t word, bool is_connecting);
  void forget(connection &entry, seams::stream_id id);
  size_t add_accepted(int socket);
  void pause_accepting(int error);
  size_t end_lost_connections();
  bool wait_until(uint64_t deadline_ns);

  std::vector<uint32_t> free_;
  log_limit log_limit_{3};                        // for rejected connections
  std::atomic<uint64_t> accept_again_ns_ = 0;     // 0: accepting now
  std::atomic<uint64_t> next_loss_check_ns_ = 0;  // next check for failed peers; 0: there are no
                                                  // connections
  std::atomic<uint32_t> waiters_ = 0;
  mutable std::atomic<bool> is_poll_exposed_ = false;  // its user may sleep on it at any time
};

}  // namespace tanada::backends
