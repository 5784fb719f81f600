// products/o2g/engine_core.hpp: the engine, in parts: post.cc (requests), gather.cc (operations
// that wait), arrive.cc (what comes), link.cc (bytes to and from a connection), remote.cc
// (one-sided operations), peers.cc (who they are), connect.cc (connections: made, greeted, lost),
// engine_core.cc (who drives), leave.cc (requests that find somebody driving).
#pragma once

#include <mutex>
#include <atomic>
#include <unistd.h>

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/log_limit.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/attendance.hpp"
#include "products/o2g/dump_memory.hpp"
#include "products/o2g/engine.hpp"
#include "products/o2g/handover_lock.hpp"
#include "products/o2g/idle.hpp"
#include "products/o2g/link.hpp"
#include "products/o2g/patience.hpp"
#include "products/o2g/slots.hpp"

namespace tanada::o2g {

// Messages of up to so many bytes are never announced: there must be something that always goes
// through.
inline constexpr uint64_t unannounced_size = 256;

// Smaller parts of a body are shown by the set and copied; larger ones are received straight into
// place.
inline constexpr uint64_t landing_size_min = 8192;

// Smaller bodies are copied behind their envelope: one part of a send is cheaper than two.
inline constexpr uint64_t small_body_size_max = 1024;

// While connections are being made, deadlines are looked at this often.
inline constexpr uint64_t young_check_ns = 100'000'000;

// Who sleeps without a deadline looks up so often all the same.
inline constexpr uint64_t longest_wait_ns = 1'000'000'000;

// How long answers that nobody waits for stand in the queue for something to go with.
inline constexpr uint64_t late_ns = 1'000'000;

// How long an engine that ends takes to see its last bytes off, and how often it looks meanwhile.
inline constexpr uint64_t leave_ns = 2'000'000'000, leave_look_ns = 1'000'000;

struct peer {
  port::socket_address address{};
  uint64_t word = ~uint64_t{0};
  link *current = nullptr;             // where requests go; null: none yet
  bool lost = false;                   // its connection failed, and it has not come back
  bool is_named = false;               // by the program; else a stranger
  uint64_t kept_count = 0;             // messages of it in the dump
  std::array<uint8_t, 16> endpoint{};  // of its last greeting
};

// What a call without a struct of its own asks for.
struct discard_request {
  void *context = nullptr;
  bool is_quiet = false;
  void *owner = nullptr;
};
struct cancel_request {
  void *context = nullptr;
};

// Locking: `mutex_` covers all but what says otherwise; whoever has it drives the set. A sink is
// called with it held. Requests never wait for it: one that finds it held is left to its holder.
class engine_core final : public engine, public port::stream_handler, public region_user {
 public:
  engine_core(std::unique_ptr<port::stream_set> set, const engine_options &options,
              completion_sink &sink, regions &memory);
  ~engine_core() override;
  status start();

  port::socket_address address() const override {
    return options_.at;
  }
  result<peer_index> peer_of(const port::socket_address &address) override;
  port::socket_address peer_address(peer_index index) const override;
  void set_peer_word(peer_index index, uint64_t word) override;
  uint64_t peer_word(peer_index index) const override;

  status post_send(const send_request &request) override;
  status post_receive(const receive_request &request) override;
  status post_peek(const peek_request &request) override;
  status post_receive_claimed(const receive_request &request) override;
  status discard_claimed(void *context, bool is_quiet, void *owner) override;
  status post_put(const remote_request &request) override;
  status post_get(const remote_request &request) override;
  status post_atomic(const atomic_request &request) override;
  status cancel(void *context) override;

  size_t poll(bool may_sleep) override;
  status wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) override;
  void wake() noexcept override {
    set_->wake();
  }
  int descriptor() const noexcept override {
    return set_->descriptor();
  }
  engine_statistics statistics() const override;

  // stream_handler
  uint64_t accepted(port::stream_id id) override;
  void connected(uint64_t word) override;
  std::span<std::byte> landing(uint64_t word) override;
  void landed(uint64_t word, size_t size) override;
  size_t shown(uint64_t word, std::span<const std::byte> bytes) override;
  void writable(uint64_t word) override;
  void ended(uint64_t word, status why) override;
  bool wants_break() const noexcept override {
    return mutex_.is_wanted();
  }

  void drop_closed() override;

 private:
  // engine_core.cc
  void complete(const completion &done) noexcept;
  size_t drive() noexcept;
  void take_leave();
  void tell_counts() const noexcept;
  void end_all(status why) noexcept;
  // `notice`: what peers are to log besides the status.
  void end_with(status why, const char *reason, const wire::o2g::envelope &notice = {}) noexcept;
  void send_ending(status why, wire::o2g::envelope notice) noexcept;

  // Memory is missing for something that was begun. From now on nothing is sent and nothing that
  // comes is heard; the call or the drive that is under way ends the engine when it is done, not in
  // the middle of something.
  void out_of_memory() noexcept {
    is_out_of_memory_ = true;
  }
  void end_if_out_of_memory() noexcept;

  template <class Request>
  using request_call = status (engine_core::*)(const Request &);
  // What `call` throws it throws before anything is begun. `kind`: of the completion, where the
  // request is left and fails.
  template <class Request>
  status post(request_call<Request> call, std::optional<completion_kind> kind,
              const Request &request) {
    if (mutex_.try_lock()) {
      lock_guard const lock{mutex_, std::adopt_lock};
      return begin_request(call, request);
    }
    return leave_request(call, kind, request);
  }
  // With the lock held.
  template <class Request>
  status begin_request(request_call<Request> call, const Request &request) noexcept {
    TND_TRY(ended_);
    status code = status::no_memory;
    try {
      code = (this->*call)(request);
    } catch (const std::bad_alloc &) {}
    end_if_out_of_memory();
    return code;
  }

  // leave.cc
  template <class Request>
  class left_request;
  class left_sending;
  template <class Request>
  status leave_request(request_call<Request> call, std::optional<completion_kind> kind,
                       const Request &request);
  bool send_before_sleep();
  void send_gathered_and_late() noexcept {
    send_all_gathered();
    send_all_late();
  }

  // Something that comes. No exception goes through the set.
  template <class Call>
  void heard(Call call) noexcept {
    if (is_out_of_memory_)
      return;
    try {
      call();
    } catch (const std::bad_alloc &) {
      out_of_memory();
    }
  }

  // A line that a peer or a stranger brings about: there are no more of them than the log can bear.
  template <class Say>
  void complain(Say say) noexcept {
    if (!complaints_.admits(clock_.now_ns()))
      return;
    tell_left_out();
    try {
      say();
    } catch (const std::bad_alloc &) {}
  }
  void tell_left_out() noexcept;

  // peers.cc, connect.cc
  result<peer_index> add_peer(const port::socket_address &address);
  result<peer_index> stranger_at(const port::socket_address &address);
  result<link *> link_to(peer_index index);
  status open(peer_index index);
  result<port::stream_id> connect(link &with, const port::socket_address &to) noexcept;
  void close(port::stream_id id) noexcept;
  link &make_link(link::phase phase);
  void greet(link &with, wire::o2g::kind what, const std::string &reason);
  void greeted(link &with, wire::o2g::kind what);
  void refuse(link &with, const std::string &reason);
  void come_up(link &with, peer_index index, const wire::o2g::hello_message &said);
  void leave(link &with) noexcept;
  void lose(link &with, status why) noexcept;
  void revive(link &lost, bool was_up);
  void lose_incoming(link &with, status why) noexcept;
  void check_deadlines() noexcept;
  void tell_room() noexcept;
  uint64_t room() const noexcept;

  // gather.cc
  operation *make_operation(const wire::o2g::envelope &head, std::span<const iovec> body) noexcept;
  operation *make_request(const wire::o2g::envelope &head, std::span<const iovec> body, bool copies,
                          bool is_answered) noexcept;
  static bool keep_copy(operation &what) noexcept;
  // `has_time`: more is likely to follow at once, and it may go with that.
  void say(link &via, operation *what, bool has_time = false) noexcept;
  void push(link &via, operation *what, bool has_time = false) noexcept;
  void send_answers() noexcept;
  bool cork(link &via, const operation &what, bool was_empty) noexcept;
  void uncork(link &via) noexcept;
  bool keep_for_later(link &via, operation *what) noexcept;
  void send_all_late() noexcept;
  void finish(operation *what, status code) noexcept;
  void gather(link &via, const wire::o2g::envelope &head, std::span<const iovec> body);
  void send_gathered(link &via) noexcept;
  void send_all_gathered() noexcept;

  // post.cc
  bool is_full(const link &via);
  bool gathers(link &via, uint64_t size);
  uint64_t send_now(const link &via, const wire::o2g::envelope &head,
                    std::span<const iovec> body) noexcept;
  status send(const send_request &request);
  status receive_into(const receive_request &request);
  status peek(const peek_request &request);
  status receive_claimed(const receive_request &request);
  status discard_found(const discard_request &request);
  status cancel_posted(const cancel_request &request);
  receive *make_receive(const receive_request &request) noexcept;
  void take(receive *into, message *came, std::byte *to) noexcept;
  void discard(message *what) noexcept;
  void fail_receive(receive *what, status code) noexcept;
  status told() noexcept;
  bool names_null(std::span<const iovec> parts) noexcept;
  status fail_at_once(completion done) noexcept;

  // link.cc
  void flush(link &to) noexcept;
  uint64_t hand_over(const link &via, std::span<const iovec> parts) noexcept;
  uint64_t hand_over_joined(const link &to, std::span<const iovec> parts) noexcept;
  bool begin(link &to, operation &what) noexcept;
  void handed_over(operation *what) noexcept;
  void feed_self(link &self) noexcept;
  void land(link &from, size_t size);
  void feed(link &from, std::span<const std::byte> bytes);
  size_t feed_body(link &from, std::span<const std::byte> bytes);
  void feed_envelope(link &from);
  bool begin_use(link &from);
  void broken(link &from, const char *what) noexcept;

  // arrive.cc
  void arrived(link &from);
  void end_body(link &from);
  void arrive_message(link &from, bool is_announced);
  bool make_place(receive &into, incoming &about, std::byte *&to);
  void retire(receive &into);
  static scatter place_of(const receive &into, const incoming &about, std::byte *to);
  void pull(const pulled_message &what) noexcept;
  message *dump(link &from, bool is_announced);
  void end_at_hard_limit(const link &from);
  void peer_ends(const link &from) noexcept;
  void drop(message *what) noexcept;
  void switch_dump(link &from);
  void dump_ended(link &from);
  void pulled(link &from);
  void answer_pull(link &from);
  void acknowledged(link &from);
  void finish_receive(receive *into, const incoming &about, std::byte *to, status code) noexcept;
  matcher &queue_of(bool tagged) noexcept {
    return tagged ? tagged_ : plain_;
  }

  // remote.cc
  status put(const remote_request &request);
  status get(const remote_request &request);
  status apply(const atomic_request &request);
  void begin_put(link &from);
  void tell_remote(const link &from, completion_kind what, uint64_t size);
  void end_put(link &from);
  void begin_get(link &from);
  void begin_answer(link &from);
  void end_answer(link &from);
  void begin_atomic(link &from);
  void end_atomic(link &from);
  void acknowledge(link &to, uint64_t id, status code, bool can_wait = false) noexcept;
  static void count_answer(link &to, operation *what) noexcept;
  void deny(link &from, status code);
  void answer(link &to, operation *what) noexcept;

  mutable handover_lock mutex_;
  std::unique_ptr<port::stream_set> const set_;
  engine_options options_;
  std::string name_{};  // the address, for messages
  port::clock &clock_;
  completion_sink &sink_;
  regions &memory_;
  std::array<uint8_t, 16> endpoint_{};
  status ended_ = status::ok;
  bool is_mute_ = false;  // being destroyed: nobody is told anything
  bool is_out_of_memory_ = false;

  std::deque<peer> peers_;  // grows at its end only
  std::unordered_map<port::socket_address, peer_index, port::socket_address_hash> by_address_;
  std::vector<peer_index> strangers_;
  size_t stranger_at_ = 0;  // where the last one was found that made room
  std::vector<std::unique_ptr<link>> links_;
  link nobody_{};  // gone: of connections that come when the engine has ended for want of memory
  size_t young_count_ = 0;                     // links with a deadline
  uint64_t deadline_first_ns_ = ~uint64_t{0};  // no link's is earlier
  uint64_t serial_ = 0;
  pid_t const process_ = getpid();
  bool has_gone_ = false;  // some of links_ are gone

  matcher tagged_, plain_;
  free_list<operation> operations_;
  free_list<receive> receives_;
  slots<operation> waiting_;  // for answers
  slots<pulled_message> pulling_;
  std::unordered_multimap<void *, message *> claims_;
  full_peers full_peers_{.size_max = options_.send_queue_size};
  std::vector<link *> gathering_;  // links with something gathered, or corked
  std::vector<link *> late_;  // links whose queues hold nothing but answers that nobody waits for
  uint64_t late_since_ns_ = 0;
  std::atomic<bool> is_sending_left_ = false;  // a left_sending has not run yet
  bool is_catching_up_ =
      false;  // a request that was left is begun: its caller was told that it is accepted
  bool is_driving_ = false;          // what is said meanwhile goes at the end of it
  bool has_data_to_answer_ = false;  // this drive; somebody waits for that
  patience patience_;
  dump_memory dump_memory_;
  bool is_dump_moved_ = false;
  uint64_t room_last_ = ~uint64_t{0};
  engine_statistics counts_{};
  log_limit complaints_;

  idle_rule idle_;
  attendance attendance_;
};

}  // namespace tanada::o2g
