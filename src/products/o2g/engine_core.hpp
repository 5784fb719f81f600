// products/o2g/engine_core.hpp: the implementation of the engine, in one file for each of its
// parts:
//   post.cc         requests
//   batching.cc     queued and batched operations
//   incoming.cc     received messages and replies
//   link.cc         bytes to and from a connection
//   one_sided.cc    one-sided operations
//   peers.cc        peers
//   credit.cc       credit for eager messages
//   connect.cc      connections and their handshake
//   engine_core.cc  progress, start and shutdown
//   offload.cc      the message driver
//   deferred.cc     requests posted while another thread holds the engine lock
#pragma once

#include <mutex>
#include <atomic>
#include <unistd.h>

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/log_limit.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/progress_thread.hpp"
#include "products/o2g/unexpected_buffer.hpp"
#include "products/o2g/engine.hpp"
#include "products/o2g/handover_lock.hpp"
#include "products/o2g/backoff.hpp"
#include "products/o2g/link.hpp"
#include "products/o2g/ack_batcher.hpp"
#include "products/o2g/id_table.hpp"

namespace tanada::o2g {

// Announced messages that no receive matches. Their senders hold more memory for each than this
// side.
inline constexpr uint64_t announced_count_max = 1 << 24;

// Smaller parts of a body are received by the set and copied. Larger ones use direct placement.
inline constexpr uint64_t direct_size_min = 8192;

// Bodies up to this size are copied after their envelope, because sending one part is cheaper than
// sending two.
inline constexpr uint64_t small_body_size_max = 1024;

// Interval at which handshake deadlines are checked.
inline constexpr uint64_t handshake_check_ns = 100'000'000;

// Upper bound on one sleep, also of a caller without a deadline.
inline constexpr uint64_t sleep_ns_limit = 1'000'000'000;

// How long an ACK that is not urgent may wait for another message to the same peer.
inline constexpr uint64_t ack_delay_ns = 1'000'000;

// Bytes of the buffer for what the message driver leaves to the engine.
inline constexpr size_t driver_buffer_size = 64 << 10;

// How long the destructor waits until the peers have received the last bytes, and its poll
// interval.
inline constexpr uint64_t shutdown_timeout_ns = 2'000'000'000, shutdown_poll_ns = 1'000'000;

static_assert(small_body_size_max < direct_size_min);
static_assert(ack_delay_ns < handshake_check_ns && handshake_check_ns < sleep_ns_limit);
static_assert(shutdown_poll_ns < shutdown_timeout_ns);

struct peer {
  seams::socket_address address{};
  uint64_t user_data = ~uint64_t{0};
  link *current = nullptr;                // the link for requests; null: no connection yet
  bool has_failed = false;                // its connection failed and was not established again
  bool is_registered = false;             // false: an unregistered peer
  uint64_t unexpected_count = 0;          // its messages in the unexpected buffer
  uint64_t unexpected_size = 0;           // bytes of those that were not announced
  std::array<uint8_t, 16> endpoint_id{};  // from its last hello message
};

// Arguments of the calls that have no public request struct.
struct discard_request {
  void *context = nullptr;
  bool errors_only = false;
  void *owner = nullptr;
};
struct cancel_request {
  void *context = nullptr;
};

// The engine. Locking: `mutex_` guards every member that is not documented otherwise, and its
// holder drives the stream set. The sink is called with the lock held. Requests never wait for the
// lock: a request posted while it is held is deferred to the holder.
class engine_core final : public engine, public seams::stream_handler, public region_user {
 public:
  engine_core(std::unique_ptr<seams::stream_set> set,
              const engine_options &options,
              completion_sink &sink,
              regions &memory,
              std::unique_ptr<message_driver> driver);
  ~engine_core() override;
  status start();

  seams::socket_address address() const override {
    return options_.listen_address;
  }
  result<peer_index> register_peer(const seams::socket_address &address) override;
  seams::socket_address peer_address(peer_index index) const override;
  void set_peer_user_data(peer_index index, uint64_t user_data) override;
  uint64_t peer_user_data(peer_index index) const override;

  status post_send(const send_request &request) override;
  status post_receive(const receive_request &request) override;
  status post_peek(const peek_request &request) override;
  status post_receive_claimed(const receive_request &request) override;
  status discard_claimed(void *context, bool errors_only, void *owner) override;
  status post_put(const remote_request &request) override;
  status post_get(const remote_request &request) override;
  status post_atomic(const atomic_request &request) override;
  status cancel(void *context) override;

  size_t poll(bool may_sleep) override;
  status wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) override;
  void wake() noexcept override {
    set_->wake();
  }
  int descriptor() const noexcept override;
  engine_statistics statistics() const override;

  // stream_handler
  uint64_t on_accepted(seams::stream_id id) override;
  void on_connected(uint64_t word) override;
  std::span<std::byte> receive_target(uint64_t word) override;
  void on_placed(uint64_t word, size_t size) override;
  size_t on_received(uint64_t word, std::span<const std::byte> bytes) override;
  void on_writable(uint64_t word) override;
  void on_closed(uint64_t word, status cause) override;
  bool should_stop() const noexcept override {
    return mutex_.is_contended();
  }

  void drop_closed() override;

 private:
  // engine_core.cc
  void complete(const completion &done) noexcept;
  size_t drive() noexcept;
  size_t progress_all() noexcept;
  void free_closed_links() noexcept;
  void shut_down();
  void log_counters() const noexcept;
  void fail_all(status cause) noexcept;
  bool drive_in_thread() noexcept;
  void arm_driver(uint64_t quiet_size) const noexcept;
  status wait_for_events(uint64_t deadline_ns, uint64_t quiet_size = 0) noexcept;
  // Puts the engine into its failed state. `notice` carries the numbers that peers log.
  void fail_engine(status cause,
                   const char *reason,
                   const wire::o2g::envelope &notice = {}) noexcept;
  void send_failure(status cause, wire::o2g::envelope notice) noexcept;

  // Records that an operation that has begun lacks memory. From now on nothing is sent and received
  // bytes are ignored. The call or drive in progress makes the engine fail when it ends, not in the
  // middle of an operation.
  void set_out_of_memory() noexcept {
    is_out_of_memory_ = true;
  }
  void fail_if_out_of_memory() noexcept;

  template <class Request>
  using request_method = status (engine_core::*)(const Request &);
  // Begins a request, or defers it while another thread holds the lock. If `method` throws, it
  // throws before it has begun anything. `kind`: of the completion, if a deferred request fails.
  template <class Request>
  status post(request_method<Request> method,
              std::optional<completion_kind> kind,
              const Request &request) {
    if (mutex_.try_lock()) {
      lock_guard const lock{mutex_, std::adopt_lock};
      return begin_request(method, request);
    }
    return defer_request(method, kind, request);
  }
  template <class Request>
  status begin_request(request_method<Request> method, const Request &request) noexcept {
    TND_ASSERT(mutex_.is_locked());
    TND_TRY(failure_);
    status code = status::no_memory;
    try {
      code = (this->*method)(request);
    } catch (const std::bad_alloc &) {}
    fail_if_out_of_memory();
    return code;
  }

  // deferred.cc
  template <class Request>
  class deferred_request;
  class deferred_flush;
  template <class Request>
  status defer_request(request_method<Request> method,
                       std::optional<completion_kind> kind,
                       const Request &request);
  uint64_t flush_before_sleep();
  void flush_batches_and_acks() noexcept {
    flush_all_batches();
    flush_delayed_acks();
  }

  // Runs the handler of a stream event. No exception passes through the stream set.
  template <class Handler>
  void handle_event(Handler handler) noexcept {
    if (is_out_of_memory_)
      return;
    try {
      handler();
    } catch (const std::bad_alloc &) {
      set_out_of_memory();
    }
  }

  // Logs a line that a peer can trigger, at a bounded rate.
  template <class Writer>
  void log_peer_error(Writer write_line) noexcept {
    if (!peer_log_limit_.admit(clock_.now_ns()))
      return;
    log_suppressed_count();
    try {
      write_line();
    } catch (const std::bad_alloc &) {}
  }
  void log_suppressed_count() noexcept;

  // peers.cc, connect.cc
  result<peer_index> add_peer(const seams::socket_address &address);
  result<peer_index> find_or_add_unregistered(const seams::socket_address &address);
  result<link *> link_for_peer(peer_index index);
  status open_connection(peer_index index);
  result<seams::stream_id> connect(link &peer_link, const seams::socket_address &address) noexcept;
  void close(seams::stream_id id) noexcept;
  link &make_link(link::phase phase);
  void send_handshake(link &peer_link, wire::o2g::kind message_kind, const std::string &reason);
  void handle_handshake(link &peer_link, wire::o2g::kind message_kind);
  std::string rejection_reason(const wire::o2g::hello_message &hello) const;
  void handle_hello(link &peer_link, const wire::o2g::hello_message &hello);
  bool replace_existing(link &peer_link,
                        peer_index index,
                        const wire::o2g::hello_message &hello,
                        bool keeps_handshaking);
  void reject(link &peer_link, const std::string &reason);
  void establish(link &peer_link, peer_index index, const wire::o2g::hello_message &hello);
  void close_link(link &peer_link) noexcept;
  void drop_link(link &peer_link, status cause) noexcept;
  void fail_operations(link &peer_link, status cause) noexcept;
  void fail_receives_from(peer_index index, status cause) noexcept;
  void promote_duplicate(link &failed, bool was_established);
  void drop_incoming(link &peer_link, status cause) noexcept;
  void drop_unexpected(link &peer_link) noexcept;
  void check_deadlines() noexcept;

  // credit.cc
  static bool has_credit(const link &peer_link, uint64_t size) noexcept;
  static void use_credit(link &peer_link, uint64_t size) noexcept;
  static void return_credit(link &peer_link, uint64_t size) noexcept;
  uint64_t credit_window() const noexcept;
  uint64_t grantable_size(const link &peer_link) const noexcept;
  void add_granted(link &peer_link, uint64_t size) noexcept;
  void grant_first_credit(link &peer_link) noexcept;
  void note_low_credit(link &peer_link) noexcept;
  bool record_eager(link &peer_link, uint64_t size) noexcept;
  void count_eager(link &peer_link, uint64_t cost) noexcept;
  void grant_due_credit() noexcept;
  bool grant_credit(link &peer_link) noexcept;
  void send_credit(link &peer_link) noexcept;
  void revoke_credit(link &peer_link) noexcept;

  // batching.cc
  operation *make_operation(const wire::o2g::envelope &head, std::span<const iovec> body) noexcept;
  operation *make_request(const wire::o2g::envelope &head,
                          std::span<const iovec> body,
                          bool must_copy,
                          bool expects_reply) noexcept;
  static bool copy_body(operation &op) noexcept;
  // `can_delay`: more is likely to follow at once, and both may be batched.
  void send_operation(link &peer_link, operation *op, bool can_delay = false) noexcept;
  void enqueue(link &peer_link, operation *op, bool can_delay = false) noexcept;
  void flush_replies() noexcept;
  bool cork(link &peer_link, const operation &op, bool was_empty) noexcept;
  void uncork(link &peer_link) noexcept;
  bool delay_ack(link &peer_link, operation *op) noexcept;
  void flush_delayed_acks() noexcept;
  void flush_due_acks(uint64_t now_ns) noexcept;
  void finish(operation *op, status code) noexcept;
  void add_to_batch(link &peer_link, const wire::o2g::envelope &head, std::span<const iovec> body);
  void flush_batch(link &peer_link) noexcept;
  void flush_all_batches() noexcept;

  // post.cc
  bool is_full(link &peer_link);
  void log_long_wait(link &peer_link) noexcept;
  result<link *> link_for_request(peer_index target, bool is_continuation = false);
  bool should_batch(link &peer_link, uint64_t size);
  bool can_send_at_once(const link &peer_link, const send_request &request, uint64_t size) const;
  uint64_t send_now(const link &peer_link,
                    const wire::o2g::envelope &head,
                    std::span<const iovec> body) noexcept;
  status send(const send_request &request);
  status send_on(link &peer_link, const send_request &request, uint64_t size);
  // What a call has done of a message that it queues.
  struct send_start {
    uint64_t written_size = 0;  // bytes
    bool is_credited = false;
  };
  status queue_send(link &peer_link,
                    const send_request &request,
                    const wire::o2g::envelope &head,
                    send_start start);
  status start_receive(const receive_request &request);
  bool receive_arrived(receive &receiver);
  status peek(const peek_request &request);
  status receive_claimed(const receive_request &request);
  status discard_claimed_message(const discard_request &request);
  status cancel_posted(const cancel_request &request);
  receive *make_receive(const receive_request &request) noexcept;
  void consume_unexpected(receive *receiver, message *unexpected, std::byte *buffer) noexcept;
  void discard_unexpected(message *unexpected) noexcept;
  void fail_receive(receive *receiver, status code) noexcept;
  status update_credit() noexcept;
  bool has_null_part(std::span<const iovec> parts) noexcept;
  status complete_with_fault(completion done) noexcept;

  // offload.cc
  void attach_to_driver(link &peer_link) noexcept;
  status register_with_driver(link &peer_link, int socket) noexcept;
  std::span<std::byte> driver_target(link &peer_link);
  void detach_from_driver(link &peer_link) noexcept;
  bool put_in_driver(receive &receiver) noexcept;
  bool claim_posted(receive &receiver) noexcept;
  void remove_posted(receive &receiver) noexcept;
  size_t drive_driver();
  size_t read_readable();
  size_t read_from_driver(link &peer_link);
  size_t take_driver_completions() noexcept;
  void finish_driver_receive(const driver_completion &event) noexcept;
  bool may_skip_set() noexcept;

  // link.cc
  void flush(link &peer_link) noexcept;
  uint64_t write_parts(const link &peer_link, std::span<const iovec> parts) noexcept;
  uint64_t write_joined(const link &peer_link, std::span<const iovec> parts) noexcept;
  bool begin_send(link &peer_link, operation &op) noexcept;
  void finish_write(operation *op) noexcept;
  void deliver_to_self(link &self) noexcept;
  void advance_body(link &peer_link, size_t size);
  void receive_bytes(link &peer_link, std::span<const std::byte> bytes);
  size_t receive_body(link &peer_link, std::span<const std::byte> bytes);
  void receive_envelope(link &peer_link);
  bool begin_region_use(link &peer_link);
  void drop_on_violation(link &peer_link, const char *violation) noexcept;

  // incoming.cc
  void dispatch_envelope(link &peer_link);
  void end_body(link &peer_link);
  void begin_message(link &peer_link, bool is_rendezvous);
  void begin_unexpected(link &peer_link, bool is_rendezvous);
  bool reserve_space(receive &receiver, incoming &info, std::byte *&buffer);
  void end_multi_receive(receive &receiver);
  static scatter receive_parts(const receive &receiver, const incoming &info, std::byte *buffer);
  void request_body(const pulled_message &pulled) noexcept;
  message *buffer_unexpected(link &peer_link, bool is_rendezvous);
  void fail_at_announcement_limit(const link &peer_link);
  void log_peer_failure(const link &peer_link) noexcept;
  void free_unexpected(message *unexpected) noexcept;
  void redirect_unexpected(link &peer_link);
  void finish_unexpected(link &peer_link);
  void begin_pulled_body(link &peer_link);
  void answer_pull(link &peer_link);
  void handle_ack(link &peer_link);
  void finish_receive(receive *receiver,
                      const incoming &info,
                      std::byte *buffer,
                      status code) noexcept;
  matcher &matcher_for(bool tagged) noexcept {
    return tagged ? tagged_matcher_ : untagged_matcher_;
  }

  // one_sided.cc
  status put(const remote_request &request);
  status get(const remote_request &request);
  status apply(const atomic_request &request);
  void begin_put(link &peer_link);
  void report_remote(const link &peer_link, completion_kind event_kind, uint64_t size);
  void end_put(link &peer_link);
  void begin_get(link &peer_link);
  operation *make_get_reply(const link &peer_link, const region_range &source) noexcept;
  operation *make_fetch_reply(const link &peer_link) noexcept;
  status apply_atomic(link &peer_link, std::span<std::byte> fetched);
  void begin_reply(link &peer_link);
  void end_reply(link &peer_link);
  void begin_atomic(link &peer_link);
  void end_atomic(link &peer_link);
  void acknowledge(link &peer_link, uint64_t id, status code, bool can_delay = false) noexcept;
  static void count_reply(link &peer_link, operation *op) noexcept;
  void deny(link &peer_link, status code);
  void queue_reply(link &peer_link, operation *op) noexcept;

  mutable handover_lock mutex_;
  std::unique_ptr<seams::stream_set> const set_;
  std::unique_ptr<message_driver> const driver_;  // may be null
  engine_options options_;
  std::string name_{};  // the local address as text, for log lines
  seams::clock &clock_;
  completion_sink &sink_;
  regions &memory_;
  std::array<uint8_t, 16> endpoint_{};
  status failure_ = status::ok;
  bool is_shutting_down_ = false;  // the engine is being destroyed and reports nothing
  bool is_out_of_memory_ = false;

  std::deque<peer> peers_;  // grows at its end only
  std::unordered_map<seams::socket_address, peer_index, seams::socket_address_hash> by_address_;
  std::vector<peer_index> unregistered_peers_;
  size_t last_replaced_ = 0;  // index in unregistered_peers_ of the last one that was replaced
  std::vector<std::unique_ptr<link>> links_;
  link null_link_{};  // closed: for connections accepted when there is no memory for a link
  size_t handshaking_link_count_ = 0;         // links with a handshake deadline
  uint64_t next_deadline_ns_ = ~uint64_t{0};  // no link has an earlier deadline
  uint64_t serial_ = 0;
  pid_t const owner_pid_ = getpid();
  bool has_closed_links_ = false;  // links_ has closed links to be freed

  matcher tagged_matcher_, untagged_matcher_;

  std::unordered_map<uint32_t, link *> driver_links_;  // by `driver_connection`
  std::vector<std::byte> driver_buffer_;
  uint32_t last_driver_connection_ = 0;
  size_t direct_link_count_ = 0;  // established links that the stream set reads
  uint32_t skipped_progress_count_ = 0;
  std::atomic<bool> must_progress_ = false;  // the next drive() must call the stream set
  mutable std::atomic<bool> is_descriptor_exposed_ = false;
  mutable mutex arm_mutex_;
  free_list<operation> operations_;
  free_list<receive> receives_;
  id_table<operation> awaiting_reply_;  // operations without a reply, by ID
  id_table<pulled_message> pulled_bodies_;
  std::unordered_multimap<void *, message *> claims_;
  full_peers full_peers_{.size_max = options_.send_queue_size};
  std::vector<link *> batched_links_;      // links that have a batch or are corked
  std::vector<link *> delayed_ack_links_;  // links whose queues hold only ACKs that are not urgent
  uint64_t acks_delayed_since_ns_ = 0;
  std::atomic<bool> has_deferred_flush_ = false;  // a deferred_flush has not run yet
  // A deferred request begins, which was already accepted and must not be refused.
  bool is_running_deferred_ = false;
  bool is_driving_ = false;      // replies are sent at the end of the drive
  bool has_reply_data_ = false;  // this drive has queued replies with data, which are urgent
  ack_batcher ack_batcher_;
  unexpected_buffer unexpected_buffer_;
  std::vector<link *> credit_due_links_;  // links to be granted credit, now or when memory is freed
  uint64_t unused_credit_ = 0;            // bytes that peers have been granted and have not used
  uint64_t announced_count_ = 0;          // announced messages in the unexpected buffer
  bool credit_changed_ = false;           // a link is newly due, or memory was freed
  engine_statistics counters_{};
  log_limit peer_log_limit_;

  backoff backoff_;
  progress_thread progress_thread_;
};

}  // namespace tanada::o2g
