// onesided/job/staging_state.hpp: private state of a stager; included only by staging*.cc.
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "onesided/job/staging.hpp"
#include "onesided/job/staging_wire.hpp"
#include "onesided/job/progress_lock.hpp"

namespace tanada::onesided {

// Locking: the rules of progress_lock, for the queue as for the endpoint. The mutex of
// `progress_lock_` protects everything here, and what contexts keep for the stager, except their
// atomics. It is held while the device copies.
//
// Each peer receives one ordered stream: requests, and replies to its own requests. It starts
// requests in the order of the stream. A fenced request waits there until earlier puts and updates
// are performed.
struct stager::state {
 public:
  using guard = progress_lock::guard;
  static constexpr uint32_t no_index = ~uint32_t{0};
  static constexpr size_t frame_size_cap = 4096;  // bytes
  // Outstanding requests: of this PE, and to one peer.
  static constexpr uint32_t request_count_max = 1024, window = 256;
  // Bytes of one transfer by the fabric between heaps.
  static constexpr size_t direct_size_max = size_t{1} << 20;

  // A blocking call, on its stack. The call returns its own failure, which the context does not
  // keep.
  struct blocking_wait {
    uint32_t remaining = 0;  // outstanding requests
    status code = status::ok;
  };

  // Where the reply of a request goes.
  struct reply_target {
    blocking_wait *waiter = nullptr;
    std::byte *target = nullptr;  // of fetched data
    bool is_to_device = false;
    bool is_to_heap = false;     // the fabric writes to the heap
    uint32_t slot = no_index;    // own slot that the request needs
    fetch_sink *sink = nullptr;  // of a fetch
    uint64_t sink_offset = 0;    // where in the sink
  };

  state(std::unique_ptr<seams::fabric_endpoint> endpoint,
        std::unique_ptr<seams::device_queue> queue,
        pe_index me,
        const options &chosen);
  ~state();

  status open();
  status join(std::span<const contact> contacts);
  void start();
  bool stop() noexcept;
  size_t quarantined_slot_count() const noexcept {
    return quarantined_slot_count_.load(std::memory_order_relaxed);
  }
  void try_progress() noexcept;

  // staging_wait.cc. leave() sends queued frames now (`is_idle`), or with records that may follow
  // soon.
  guard enter() {
    return progress_lock_.acquire();
  }
  // Without the endpoint.
  guard lock_mutex() {
    return progress_lock_.lock_mutex();
  }
  void claim_endpoint(guard &lock) {
    progress_lock_.claim_endpoint(lock);
  }
  void leave(guard &lock, bool is_idle = true) noexcept;
  void wait(guard &lock, blocking_wait &waiter);
  // Waits until all operations of the context are complete that were started before the call.
  void drain(guard &lock, staged_context &owner);
  // False: at the deadline.
  template <class Over>
  bool wait_until(guard &lock, uint64_t deadline_ns, Over &&is_over) {
    if (is_over())
      return true;
    (void)progress();
    for (backoff_state backoff; !is_over(); step(lock, backoff)) {
      if (options_.time->now_ns() >= deadline_ns)
        return false;
    }
    return true;
  }
  bool has_capacity(pe_index pe, size_t size) const noexcept;  // for an active message or a fetch
  void abandon(staged_context &owner) noexcept;

  // staging_request.cc. `waiter`: for a source that is read in place; null: the caller does not
  // wait.
  status put(guard &lock,
             staged_context &owner,
             pe_index pe,
             uint64_t offset,
             const std::byte *source,
             size_t size,
             blocking_wait *waiter);
  status put_direct(guard &lock,
                    staged_context &owner,
                    pe_index pe,
                    uint64_t offset,
                    const std::byte *source,
                    size_t size,
                    blocking_wait *waiter);
  status put_staged(guard &lock,
                    staged_context &owner,
                    pe_index pe,
                    uint64_t offset,
                    const std::byte *source,
                    size_t size);
  status get(guard &lock,
             staged_context &owner,
             pe_index pe,
             std::byte *target,
             uint64_t offset,
             size_t size,
             blocking_wait *waiter);
  status update(guard &lock,
                staged_context &owner,
                pe_index pe,
                const staging::record &record,
                const reply_target &reply_to);

  // staging_active_message.cc
  using filler = std::function<void(std::span<std::byte>)>;
  status active_message(
      guard &lock, staged_context &owner, pe_index pe, size_t size, const filler &fill);
  status fetch(guard &lock,
               staged_context &owner,
               pe_index pe,
               std::span<const std::byte> body,
               size_t size,
               reply_target reply_to);

  contact own_contact_{};
  std::atomic<pe_index> failed_pe_{-1};
  options const options_;
  pe_index const me_;
  // Two records: a slot costs more than they do.
  size_t inline_size_max() const noexcept {
    return 2 * data_size_max_;
  }
  size_t eager_size_max() const noexcept {
    return data_size_max_;
  }
  size_t peer_count() const noexcept {
    return peers_.size();
  }
  bool is_direct() const noexcept {
    return heap_region_ != seams::no_fabric_region;
  }
  // A put reads such a source in place.
  bool reads_in_place(const std::byte *source, size_t size) const noexcept {
    return is_direct() && size > inline_size_max() && is_in_heap(source, size);
  }

 private:
  struct frame {
    std::vector<std::byte> bytes;
    size_t size = sizeof(staging::frame_header);
    uint32_t count = 0, index = 0;  // of records; position in frames_
    pe_index pe = 0;
  };

  struct waiting_request {
    staging::record record;
    std::vector<std::byte> data;
  };

  static constexpr uint64_t unset = ~uint64_t{0};
  struct peer {
    seams::fabric_peer fabric_id = seams::no_fabric_peer;
    seams::fabric_remote staging_buffer{}, heap{};
    bool has_failed = false;
    // Frames to the peer.
    std::deque<frame *> outgoing{};  // the last one may receive more records
    uint32_t frames_in_flight = 0;   // frames that the fabric has
    bool is_in_unsent = false;       // in unsent_
    // Requests of this PE to the peer.
    uint32_t outstanding_count = 0;  // without a reply
    uint32_t slot_count = 0;         // own slots that they hold
    // The first of the direct transfers that ended since the last sweep().
    uint64_t direct_ended_since_sweep = unset;
    // Requests of the peer to this PE.
    std::deque<waiting_request> waiting_requests{};  // not started yet
    bool is_waiting = false;                         // in clients_
    uint32_t pending_count = 0;                      // received and not answered
    uint32_t unfinished_count = 0;  // puts and active messages that fences wait for
    uint32_t service_count = 0;     // slots that they hold
  };

  // The time of a request counts from its start, with two exceptions. For a direct read it counts
  // from when the fabric accepts the read. For a request that the peer performs after direct
  // transfers of this PE, it counts from the end of the last of those started before it. All times
  // are bounded, since the number of earlier requests is. Announced data have no extra time, as the
  // peer uses the slot again.
  struct request {
    staged_context *owner = nullptr;  // null: abandoned by its context
    reply_target reply_to{};
    pe_index pe = 0;
    staging::record_kind kind = staging::record_kind::put;
    uint8_t epoch = 0;
    bool is_used = false;
    bool is_fabric_reading = false;  // the fabric writes to the target
    bool is_device_copying = false;  // the device queue does
    bool is_direct = false;          // read from the peer's heap, without a request to it
    // Bytes: in all, and of a get those received so far.
    uint32_t size = 0, received_size = 0, generation = 0, next_free = no_index;
    uint64_t deadline_ns = 0, service_id = 0;
    uint64_t sequence = 0;             // counts all requests of this PE
    uint64_t remote_offset = unset;    // of the data, in the peer's staging buffer or heap
    status parts_status = status::ok;  // status of the parts copied so far
  };

  // One for each slot that serves a peer.
  struct service {
    enum class stage : uint8_t { free, reading, performed, announced } current_stage = stage::free;
    pe_index pe = 0;
    uint32_t generation = 0, size = 0;
    uint64_t id = 0, offset = 0, remote_offset = 0, deadline_ns = 0;
    bool is_posted = false;  // the fabric has the slot
    bool is_active_message = false;
    bool is_direct = false;   // read from the peer's heap
    bool is_to_heap = false;  // and not to the slot
  };

  // An active message that its server has begun and not finished. Fenced requests of its peer wait
  // for it, as for reads.
  struct deferred_call {
    pe_index pe;
    staging::record record;
    std::vector<std::byte> request = {}, reply = {};  // unless a slot has them
    uint32_t service = no_index;
    std::unique_ptr<deferred_message> operation = {};
  };

  // An operation of the device queue, and what follows its completion.
  struct device_operation {
    enum class completion_action : uint8_t {
      reply,
      announce,
      copied_to_target,
      no_action
    } action = completion_action::reply;  // no_action: part of a larger operation
    pe_index pe = 0;
    uint64_t id = 0;
    uint32_t index = no_index;  // of a service or a request
    status code = status::ok;
    uint64_t offset = 0, size = 0;  // range of the heap that has changed
  };

  enum class op_use : uint8_t { receive, send, request_read, service_read };
  static uint64_t op_id(op_use use, uint64_t index) {
    return uint64_t(use) << 56 | index;
  }

  // staging.cc: frames, reads and progress.
  status register_memory();
  void fill_free_lists();
  size_t progress(bool is_idle = true) noexcept;
  bool advance() noexcept;
  void dispatch(const seams::fabric_completion &done);
  void handle_received(uint32_t index, const seams::fabric_completion &done);
  void handle_sent(uint32_t index, const seams::fabric_completion &done);
  void handle_read(pe_index pe,
                   const seams::fabric_completion &done,
                   void (state::*handle_end)(uint32_t, status));
  void post_receives();
  void handle_frame(std::span<const std::byte> bytes, seams::fabric_peer source);
  std::byte *append_record(pe_index pe, staging::record record);
  frame *frame_take();
  void send_frames(bool is_idle);
  void send_frames_to(pe_index pe, bool is_idle);
  void frame_free(frame *item);
  void list_unsent(pe_index pe);
  bool is_full(const frame &item) const noexcept {
    return frame_size_ - item.size < 2 * sizeof(staging::record);
  }
  void post_reads();
  seams::fabric_op read_op(op_use use, uint32_t index, pe_index pe, bool is_direct) const;
  seams::fabric_op request_read_op(uint32_t index) const;
  seams::fabric_op service_read_op(uint32_t index) const;
  bool post_read(uint64_t id);
  void sweep(uint64_t now_ns);
  void end_overdue_requests(uint64_t now_ns);
  void end_unread_services(uint64_t now_ns);
  bool is_overdue(request &entry, uint64_t now_ns) const;
  void fail_peer(pe_index pe, status code);
  void fail_requests(pe_index pe, status code);
  void release_services(pe_index pe);
  uint64_t deadline_ns() const {
    return seams::deadline_after(options_.time->now_ns(), options_.timeout_ns);
  }
  staging::limits limits_for(pe_index pe) const noexcept;

  // staging_request.cc: requests of this PE.
  struct staged_source {
    const std::byte *addr;
    size_t size;
    bool is_device;
  };
  struct staged_piece {
    uint32_t slot;
    size_t offset, size;  // of the source
  };
  // Slots that the device fills before the first of them is sent.
  struct staged_batch {
    std::array<staged_piece, 4> pieces{};
    size_t count = 0, end = 0;  // of the pieces; of the bytes that they hold
    status code = status::ok;
    status copied = status::ok;  // not ok: the device may still access the slots
  };
  status fill_batch(guard &lock, pe_index pe, const staged_source &source, staged_batch &batch);
  status send_batch(
      guard &lock, staged_context &owner, pe_index pe, uint64_t offset, const staged_batch &batch);
  // How the data of a get reach their target.
  struct get_plan {
    bool is_to_device, is_staged;
    bool is_to_heap = false;  // the fabric writes to the heap
    bool needs_slot = false;  // the device copies from a slot
    bool is_read = false;     // from the peer's heap, without a request to it
    size_t piece_size_max = 0;
  };
  get_plan plan_get(pe_index pe, const std::byte *target, size_t size) const;
  status get_piece(guard &lock,
                   staged_context &owner,
                   pe_index pe,
                   const get_plan &plan,
                   const staging::record &request_record,
                   reply_target reply_to);
  void finish_fetch(uint32_t index, status code);
  void copy_to_target(uint32_t index);
  status wait_for_request(guard &lock, pe_index pe);
  size_t next_piece_size(pe_index pe, size_t size) const noexcept;
  bool has_slot(pe_index pe) const noexcept;
  result<uint32_t> slot_take(guard &lock, pe_index pe);
  void slot_free(pe_index pe, uint32_t slot);
  void send_request(staged_context &owner,
                    pe_index pe,
                    staging::record record,
                    const reply_target &reply_to,
                    std::byte **data);
  void handle_reply(const staging::record &record, std::span<const std::byte> data, pe_index pe);
  void receive_part(request &entry, std::span<const std::byte> data, uint64_t offset);
  void handle_ready(const staging::record &record, pe_index pe);
  void handle_read_done(uint32_t index, status code);
  void finish_request(uint32_t index, status code);
  void report_to_owner(request &entry, status code);
  request *find_request(uint64_t id, pe_index pe);
  std::byte *slot_at(uint32_t slot) const noexcept {
    return options_.staging_buffer.data() + slot * options_.slot_size;
  }
  bool is_in_heap(const std::byte *addr, size_t size) const noexcept {
    size_t const offset =
        reinterpret_cast<uintptr_t>(addr) - reinterpret_cast<uintptr_t>(options_.heap.data());
    return offset <= options_.heap.size() && size <= options_.heap.size() - offset;
  }
  void start_read(staged_context &owner,
                  pe_index pe,
                  const staging::record &record,
                  const reply_target &reply_to);
  uint32_t request_take(staged_context &owner,
                        pe_index pe,
                        const staging::record &record,
                        const reply_target &reply_to);

  // staging_serve.cc: requests of peers.
  void handle_request(const staging::record &record, std::span<const std::byte> data, pe_index pe);
  bool serve_waiting();
  bool serve(pe_index pe, const staging::record &record, std::span<const std::byte> data);
  void serve_update(pe_index pe, const staging::record &record);
  void serve_get(pe_index pe, const staging::record &record);
  bool serve_staged(pe_index pe, const staging::record &record);
  status flush_heap_writes();
  uint32_t service_take(pe_index pe, const staging::record &record);
  void handle_put_data(uint32_t index, status code);
  void announce(uint32_t index);
  void handle_done(const staging::record &record, pe_index pe);
  void service_free(uint32_t index);
  void reply(pe_index pe, uint64_t id, status code, uint64_t value = 0);

  // staging_active_message.cc: active messages of peers.
  bool serve_active_message(pe_index pe,
                            const staging::record &record,
                            std::span<const std::byte> data);
  void serve_eager_message(pe_index pe,
                           const staging::record &record,
                           std::span<const std::byte> data);
  void serve_staged_fetch(uint32_t index,
                          const staging::record &record,
                          std::span<const std::byte> data);
  void serve_fetch(pe_index pe, const staging::record &record, std::span<const std::byte> body);
  void send_fetch_data(pe_index pe,
                       const staging::record &record,
                       std::span<const std::byte> bytes);
  void handle_message_data(uint32_t index);
  void defer(std::unique_ptr<deferred_call> deferred);
  bool step_deferred();
  void finish_deferred(deferred_call &deferred, status code);
  uint64_t deferred_poll_ns() const;

  // staging_queue.cc: operations of the device queue, and memory that it may still access.
  status record_queue_status(status code);
  status queue_wait();
  status queue_wait_serving();
  status queue_put(void *target, std::span<const std::byte> source);
  status queue_get(const std::byte *source, size_t size);
  bool complete_device_operations();
  void flush_device_operations(bool is_idle) noexcept;
  void complete_operation(const device_operation &operation, status code);
  void try_resume_queue(uint64_t deadline_ns) noexcept;
  void slot_retire(pe_index pe, uint32_t slot);
  void service_retire(uint32_t index);
  void quarantine(std::vector<std::byte> &memory);
  bool has_queue_failed() const noexcept {
    return queue_status_ != status::ok && queue_status_ != status::timed_out;
  }

  // staging_wait.cc
  bool is_busy() const noexcept;
  void step(guard &lock, backoff_state &backoff);
  void serve_thread();

  std::vector<std::vector<std::byte>> receives_;  // outlive the endpoint
  std::deque<std::unique_ptr<frame>> frames_;
  std::vector<frame *> frames_free_;
  std::unique_ptr<seams::fabric_endpoint> const endpoint_;
  std::unique_ptr<seams::device_queue> const queue_;
  size_t const frame_size_, data_size_max_;
  // Of operations that the fabric has; frames_sent_max_ is for one peer.
  uint32_t const receive_count_, send_count_max_, frames_sent_max_, read_count_max_;

  progress_lock progress_lock_;
  std::vector<std::byte> scratch_;  // between the queue and a frame
  std::atomic<bool> is_stopped_{true};
  // When a thread other than the stager's made progress, and is likely to continue.
  uint64_t last_progress_ns_ = 0;
  uint64_t last_attempt_ns_ = 0;  // when a waiting thread last tried
  std::thread thread_;

  seams::fabric_region_id staging_region_ = seams::no_fabric_region;
  seams::fabric_region_id heap_region_ = seams::no_fabric_region;
  std::vector<peer> peers_;
  std::vector<pe_index> unsent_;  // with frames to be sent
  std::deque<pe_index> clients_;  // with waiting requests, in turn
  std::vector<uint32_t> receives_due_;
  std::deque<uint64_t> reads_due_;                      // op ids
  uint32_t sends_in_flight_ = 0, reads_in_flight_ = 0;  // that the fabric has
  std::vector<request> requests_;
  uint32_t first_free_ = no_index, request_count_ = 0;
  uint64_t request_sequence_ = 0;
  uint64_t read_posted_ns_ = 0;          // the last one
  std::vector<uint32_t> slots_free_;     // for own requests
  std::vector<uint32_t> services_free_;  // of `services_`
  uint32_t slot_count_ = 0;              // of either half; slots for own requests come first
  std::vector<service> services_;
  std::vector<device_operation> device_operations_;
  uint64_t operations_since_ns_ = 0;  // 0: the queue has not been polled for them
  std::vector<std::unique_ptr<deferred_call>> deferred_;
  uint64_t deferred_progress_ns_ = 0;      // when one of them last completed
  std::vector<pe_index> peers_to_remove_;  // failed peers that the endpoint is still to remove
  uint64_t sweep_ns_ = 0;

  // timed_out: the queue has to catch up. Any other error: it has failed for good.
  status queue_status_ = status::ok;
  // What the queue may still access. Items are added only while `queue_status_` is not ok, and few
  // of them, since the queue is not used then.
  std::vector<uint32_t> quarantined_slots_, quarantined_services_;
  std::vector<std::vector<std::byte>> quarantined_memory_;
  std::atomic<size_t> quarantined_slot_count_{0};  // of slots of either kind
};

}  // namespace tanada::onesided
