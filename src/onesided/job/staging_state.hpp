// onesided/job/staging_state.hpp: what is inside a stager; for staging*.cc alone.
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "onesided/job/staging.hpp"
#include "onesided/job/staging_wire.hpp"
#include "onesided/job/turns.hpp"

namespace tanada::pgas {

// Rules of locking: turns', the queue as the endpoint. The mutex of `turns_` protects everything
// here and what contexts keep for us, but for their atomics. It is held while the device copies.
//
// A stream goes to each peer, in order: requests, and answers to its own. The peer starts requests
// in the order of the stream; a fenced one waits there until puts and updates before it are
// performed.
struct stager::state {
 public:
  using held = turns::held;
  static constexpr uint32_t none = ~uint32_t{0};
  static constexpr size_t frame_size_cap = 4096;  // bytes
  static constexpr uint32_t request_count_max = 1024,
                            window = 256;  // requests of ours; those to one peer
  static constexpr size_t direct_size_max =
      size_t{1} << 20;  // bytes that the fabric moves at a time between heaps

  // A blocking call, on its stack. Its failure is told by it and is not the context's.
  struct waiter {
    uint32_t left = 0;  // requests
    status code = status::ok;
  };

  // What becomes of a request's answer.
  struct aim {
    waiter *waits = nullptr;
    std::byte *target = nullptr;  // of what is fetched
    bool is_to_device = false;
    bool is_to_heap = false;          // the fabric brings it there
    uint32_t slot = none;             // of ours that the request needs
    call_landing *landing = nullptr;  // of a fetch
    uint64_t first = 0;               // where there
  };

  state(std::unique_ptr<port::fabric_endpoint> endpoint, std::unique_ptr<port::device_queue> queue,
        pe_index me, const options &chosen);
  ~state();

  status open();
  status join(std::span<const contact> everybodys);
  void start();
  bool stop() noexcept;
  size_t withheld() const noexcept {
    return withheld_count_.load(std::memory_order_relaxed);
  }
  void attend() noexcept;

  // staging_wait.cc. leave: what was said is sent, now (`is_idle`), or with what may come soon.
  held enter() {
    return turns_.enter();
  }
  held look() {
    return turns_.lock();
  }  // without the endpoint
  void claim(held &lock) {
    turns_.claim(lock);
  }
  void leave(held &lock, bool is_idle = true) noexcept;
  void wait(held &lock, waiter &what);
  void drain(held &lock, staged_context &owner);  // until all that was started before is complete
  // False: at the deadline.
  template <class Over>
  bool wait_until(held &lock, uint64_t deadline_ns, Over &&is_over) {
    if (is_over())
      return true;
    (void)progress();
    for (pacing pace; !is_over(); step(lock, pace)) {
      if (options_.time->now_ns() >= deadline_ns)
        return false;
    }
    return true;
  }
  bool has_room(pe_index pe, size_t size) const noexcept;  // for a call or a fetch
  void abandon(staged_context &owner) noexcept;

  // staging_ask.cc
  // `waits`: for the source, where it is not copied; null: the caller does not.
  status put(held &lock, staged_context &owner, pe_index pe, uint64_t offset,
             const std::byte *source, size_t size, waiter *waits);
  status put_direct(held &lock, staged_context &owner, pe_index pe, uint64_t offset,
                    const std::byte *source, size_t size, waiter *waits);
  status put_staged(held &lock, staged_context &owner, pe_index pe, uint64_t offset,
                    const std::byte *source, size_t size);
  status get(held &lock, staged_context &owner, pe_index pe, std::byte *target, uint64_t offset,
             size_t size, waiter *waits);
  status update(held &lock, staged_context &owner, pe_index pe, const staging::record &what,
                const aim &to);

  // staging_call.cc
  using filler = std::function<void(std::span<std::byte>)>;
  status call(held &lock, staged_context &owner, pe_index pe, size_t size, const filler &fill);
  status fetch(held &lock, staged_context &owner, pe_index pe, std::span<const std::byte> words,
               size_t size, aim to);

  contact own_{};
  std::atomic<pe_index> failed_{-1};
  options const options_;
  pe_index const me_;
  size_t inline_size_max() const noexcept {
    return 2 * data_size_max_;
  }  // in two records: a slot costs more
  size_t message_size_max() const noexcept {
    return data_size_max_;
  }
  size_t peer_count() const noexcept {
    return peers_.size();
  }
  bool is_direct() const noexcept {
    return heap_region_ != port::no_fabric_region;
  }
  // A put leaves its source where it is, to be read from there.
  bool keeps(const std::byte *source, size_t size) const noexcept {
    return is_direct() && size > inline_size_max() && is_in_heap(source, size);
  }

 private:
  struct frame {
    std::vector<std::byte> bytes;
    size_t size = sizeof(staging::frame_head);
    uint32_t count = 0, index = 0;  // of records; in frames_
    pe_index pe = 0;
  };

  struct waiting_request {
    staging::record what;
    std::vector<std::byte> data;
  };

  static constexpr uint64_t none_yet = ~uint64_t{0};
  struct peer {
    port::fabric_peer number = port::no_fabric_peer;
    port::fabric_remote area{}, heap{};
    bool is_lost = false;
    // What goes there.
    std::deque<frame *> outgoing{};  // the last may be added to
    uint32_t sent = 0;               // frames that the fabric has
    bool is_listed = false;          // in unsent_
    // Of our requests.
    uint32_t outstanding = 0;  // not answered yet
    uint32_t slots = 0;        // ours, that they hold
    uint64_t passed =
        none_yet;  // the first of our direct transfers that has ended since sweep() looked
    // Of its requests.
    std::deque<waiting_request> waiting{};  // not started yet
    bool is_waiting = false;                // in clients_
    uint32_t asked = 0;                     // waiting, and started and not answered
    uint32_t reads = 0;                     // puts whose data are still on their way
    uint32_t serving = 0;                   // slots that they hold
  };

  // Its time counts from when it is asked for; but that of a direct transfer that reads, from when
  // the fabric has it, and that of what a peer does behind direct ones of ours, from the end of the
  // last of those that were asked for before. All are bounded: there are so many before it. What a
  // peer offers in its area has no more time than from its being asked for, as the peer uses the
  // slot again.
  struct request {
    staged_context *owner = nullptr;  // null: nobody asks any more
    aim to{};
    pe_index pe = 0;
    staging::record_kind kind = staging::record_kind::put;
    uint8_t epoch = 0;
    bool is_used = false;
    bool is_reading = false;  // the fabric has the target
    bool is_landing = false;  // the queue has
    bool is_direct = false;   // nobody was asked: it is read from the peer's heap
    uint32_t size = 0, got = 0, generation = 0,
             next_free = none;  // bytes: in all, of a get those that have come
    uint64_t deadline_ns = 0, served_id = 0;
    uint64_t number = 0;                // of all that we have asked for
    uint64_t remote_offset = none_yet;  // of what was asked for, in the peer's area or heap
    status parts = status::ok;          // what became of those that have landed
  };

  // One for each slot that serves.
  struct service {
    enum class stage : uint8_t { free, reading, performed, offered } at = stage::free;
    pe_index pe = 0;
    uint32_t generation = 0, size = 0;
    uint64_t id = 0, offset = 0, remote_offset = 0, deadline_ns = 0;
    bool is_posted = false;  // the fabric has the slot
    bool is_call = false;
    bool is_direct = false;   // read from the peer's heap
    bool is_to_heap = false;  // and not to the slot
  };

  // A call that its server has begun. Fenced requests of its peer wait for it, as for reads.
  struct deferred_call {
    pe_index pe;
    staging::record what;
    std::vector<std::byte> request = {}, reply = {};  // where no slot has them
    uint32_t service = none;
    std::unique_ptr<pending_call> call = {};
  };

  // What the queue was asked to do, to be told when it has done so.
  struct deed {
    enum class what : uint8_t {
      reply,
      offer,
      landed,
      nothing
    } is = what::reply;  // nothing: to be waited for alone
    pe_index pe = 0;
    uint64_t id = 0;
    uint32_t index = none;  // of a service, of a request
    status code = status::ok;
    uint64_t offset = 0, size = 0;  // of the heap, if it has changed
  };

  enum class op_use : uint8_t { receive, send, land, serve };
  static uint64_t op_id(op_use use, uint64_t index) {
    return uint64_t(use) << 56 | index;
  }

  // staging.cc: what moves.
  size_t progress(bool is_idle = true) noexcept;
  bool advance() noexcept;
  void dispatch(const port::fabric_completion &done);
  void post_receives();
  void arrive(std::span<const std::byte> bytes, port::fabric_peer from);
  std::byte *say(pe_index pe, staging::record what);
  frame *frame_take();
  void send_frames(bool is_idle);
  void send_frames_of(pe_index pe, bool is_idle);
  void frame_free(frame *which);
  void list_unsent(pe_index pe);
  bool is_full(const frame &which) const noexcept {
    return frame_size_ - which.size < 2 * sizeof(staging::record);
  }
  void post_reads();
  bool post_read(uint64_t id);
  void sweep(uint64_t now_ns);
  bool is_late(request &of, uint64_t now_ns) const;
  void lose(pe_index pe, status code);
  void lose_requests(pe_index pe, status code);
  void lose_services(pe_index pe);
  uint64_t deadline_ns() const {
    return port::deadline_after(options_.time->now_ns(), options_.timeout_ns);
  }
  staging::limits limits_of(pe_index pe) const noexcept;

  // staging_ask.cc: our requests.
  status room(held &lock, pe_index pe);
  size_t data_room(pe_index pe, size_t size) const noexcept;
  bool has_slot(pe_index pe) const noexcept;
  result<uint32_t> slot_take(held &lock, pe_index pe);
  void slot_free(pe_index pe, uint32_t slot);
  void ask(staged_context &owner, pe_index pe, staging::record what, const aim &to,
           std::byte **data);
  void answered(const staging::record &what, std::span<const std::byte> data, pe_index pe);
  void part_came(request &of, std::span<const std::byte> data, uint64_t offset);
  void offered(const staging::record &what, pe_index pe);
  void landed(uint32_t index, status code);
  void finish(uint32_t index, status code);
  void tell_owner(request &of, status code);
  request *find(uint64_t id, pe_index pe);
  std::byte *slot_at(uint32_t slot) const noexcept {
    return options_.area.data() + slot * options_.slot_size;
  }
  bool is_in_heap(const std::byte *addr, size_t size) const noexcept {
    size_t const offset =
        reinterpret_cast<uintptr_t>(addr) - reinterpret_cast<uintptr_t>(options_.heap.data());
    return offset <= options_.heap.size() && size <= options_.heap.size() - offset;
  }
  void read(staged_context &owner, pe_index pe, const staging::record &what, const aim &to);
  uint32_t request_take(staged_context &owner, pe_index pe, const staging::record &what,
                        const aim &to);

  // staging_serve.cc: requests of others.
  void requested(const staging::record &what, std::span<const std::byte> data, pe_index pe);
  bool serve_waiting();
  bool serve(pe_index pe, const staging::record &what, std::span<const std::byte> data);
  void serve_update(pe_index pe, const staging::record &what);
  void serve_get(pe_index pe, const staging::record &what);
  bool serve_staged(pe_index pe, const staging::record &what);
  status heap_written();
  uint32_t service_take(pe_index pe, const staging::record &what);
  void served_data_here(uint32_t index, status code);
  void offer(uint32_t index);
  void done_with(const staging::record &what, pe_index pe);
  void service_free(uint32_t index);
  void reply(pe_index pe, uint64_t id, status code, uint64_t value = 0);

  // staging_call.cc: calls of others.
  bool serve_call(pe_index pe, const staging::record &what, std::span<const std::byte> data);
  void serve_fetch(pe_index pe, const staging::record &what, std::span<const std::byte> request);
  void say_fetched(pe_index pe, const staging::record &what, std::span<const std::byte> bytes);
  void served_call_here(uint32_t index);
  void defer(std::unique_ptr<deferred_call> made);
  bool settle_deferred();
  void end_deferred(deferred_call &of, status code);
  uint64_t deferred_look_ns() const;

  // staging_queue.cc: what the device is asked to do, and what it has until it says that it is
  // done.
  status queue_said(status code);
  status queue_wait();
  status queue_wait_serving();
  status queue_put(void *target, std::span<const std::byte> source);
  status queue_get(const std::byte *source, size_t size);
  bool settle_deeds();
  void leave_no_deeds(bool is_idle) noexcept;
  void settle(const deed &what, status code);
  void catch_up(uint64_t deadline_ns) noexcept;
  void slot_let_go(pe_index pe, uint32_t slot);
  void service_let_go(uint32_t index);
  void withhold(std::vector<std::byte> &memory);
  bool is_useless() const noexcept {
    return queue_code_ != status::ok && queue_code_ != status::timed_out;
  }

  // staging_wait.cc
  bool is_busy() const noexcept;
  void step(held &lock, pacing &pace);
  void serve_thread();

  std::vector<std::vector<std::byte>> receives_;  // the endpoint goes before them
  std::deque<std::unique_ptr<frame>> frames_;
  std::vector<frame *> frames_free_;
  std::unique_ptr<port::fabric_endpoint> const endpoint_;
  std::unique_ptr<port::device_queue> const queue_;
  size_t const frame_size_, data_size_max_;
  uint32_t const receive_count_, send_count_max_, frames_sent_max_,
      read_count_max_;  // that the fabric has; frames to one peer

  turns turns_;
  std::vector<std::byte> scratch_;  // between the queue and a frame, or a frame and the queue
  std::atomic<bool> is_stopped_{true};
  uint64_t attended_ns_ = 0;  // somebody else than the thread was at it, and will be again soon
  uint64_t looked_ns_ = 0;    // somebody attended
  std::thread thread_;

  port::fabric_region_id area_region_ = port::no_fabric_region;
  port::fabric_region_id heap_region_ = port::no_fabric_region;
  std::vector<peer> peers_;
  std::vector<pe_index> unsent_;  // with something outgoing
  std::deque<pe_index> clients_;  // with something waiting, in turn
  std::vector<uint32_t> receives_due_;
  std::deque<uint64_t> reads_due_;  // op ids
  uint32_t sends_ = 0, reads_ = 0;  // that the fabric has
  std::vector<request> requests_;
  uint32_t first_free_ = none, request_count_ = 0;
  uint64_t requests_made_ = 0;
  uint64_t read_posted_ns_ = 0;          // the last of ours
  std::vector<uint32_t> slots_free_;     // for our own
  std::vector<uint32_t> services_free_;  // of `services_`
  uint32_t slot_count_ = 0;              // of either half: ours come first
  std::vector<service> services_;
  std::vector<deed> deeds_;
  uint64_t deeds_since_ns_ = 0;  // 0: the queue has not been asked whether it has done them
  std::vector<std::unique_ptr<deferred_call>> deferred_;
  uint64_t deferred_since_ns_ = 0;  // of all, nothing has come of any
  std::vector<pe_index> leaving_;   // to be forgotten by the endpoint
  uint64_t sweep_ns_ = 0;

  status queue_code_ =
      status::ok;  // timed_out: the queue is to catch up; else it has failed for good
  // What the queue may still be at. Nothing is added but when `queue_code_` is not ok, and little:
  // it is asked nothing more then.
  std::vector<uint32_t> withheld_slots_, withheld_services_;
  std::vector<std::vector<std::byte>> withheld_memory_;
  std::atomic<size_t> withheld_count_{0};  // of slots of either kind
};

}  // namespace tanada::pgas
