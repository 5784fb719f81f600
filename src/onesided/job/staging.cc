// A stager's frames, reads and progress.
#include "onesided/job/staging.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/staging_state.hpp"

namespace tanada::onesided {
namespace {

using seams::fabric_op_kind;
using staging::record;
using staging::record_kind;

constexpr uint32_t receive_count_max = 64;
// Completions between two polls, so that waiting callers are served between copies; polls of one
// call.
constexpr size_t completions_max = 4, rounds_max = 16;
constexpr uint64_t sweep_ns_max = 1'000'000;
// Past the deadline of a request, until the fabric must have released its memory.
constexpr uint64_t grace_ns = 1'000'000'000;

}  // namespace

stager::stager(std::unique_ptr<state> new_state) : state_{std::move(new_state)} {}
stager::~stager() = default;

result<std::unique_ptr<stager>> stager::create(std::unique_ptr<seams::fabric_endpoint> endpoint,
                                               std::unique_ptr<seams::device_queue> queue,
                                               pe_index me,
                                               const options &chosen) {
  auto new_state = std::make_unique<state>(std::move(endpoint), std::move(queue), me, chosen);
  TND_TRY(new_state->open());
  return std::unique_ptr<stager>{new stager{std::move(new_state)}};
}

const stager::contact &stager::own_contact() const noexcept {
  return state_->own_contact_;
}
status stager::join(std::span<const contact> contacts) {
  return state_->join(contacts);
}
void stager::start() {
  state_->start();
}
bool stager::is_direct() const noexcept {
  return state_->is_direct();
}
void stager::try_progress() noexcept {
  state_->try_progress();
}
size_t stager::quarantined_slot_count() const noexcept {
  return state_->quarantined_slot_count();
}
bool stager::stop() noexcept {
  return state_->stop();
}
pe_index stager::failed_pe() const noexcept {
  return state_->failed_pe_.load(std::memory_order_relaxed);
}

stager::state::state(std::unique_ptr<seams::fabric_endpoint> endpoint,
                     std::unique_ptr<seams::device_queue> queue,
                     pe_index me,
                     const options &chosen)
    : options_{chosen},
      me_{me},
      endpoint_{std::move(endpoint)},
      queue_{std::move(queue)},
      frame_size_{std::min(frame_size_cap, endpoint_->properties().message_size_max)},
      data_size_max_{frame_size_ - sizeof(staging::frame_header) - sizeof(record) -
                     staging::record_alignment},
      receive_count_{std::clamp(endpoint_->properties().depth / 4, 1u, receive_count_max)},
      send_count_max_{std::max(endpoint_->properties().depth / 4, 1u)},
      frames_sent_max_{std::max(send_count_max_ / 4, 1u)},
      read_count_max_{std::max(endpoint_->properties().depth / 2, 1u)},
      progress_lock_{*endpoint_, *options_.time, options_.is_oversubscribed},
      scratch_(frame_size_cap),
      requests_(request_count_max) {}

stager::state::~state() {
  (void)stop();
}

status stager::state::open() {
  slot_count_ = uint32_t(options_.staging_buffer.size() / options_.slot_size / 2);
  if (slot_count_ == 0) {
    return fail(status::invalid,
                "{} bytes of staging buffer (TND_PGAS_STAGING) are less than two slots of {}",
                options_.staging_buffer.size(),
                options_.slot_size);
  }
  uint32_t const depth = endpoint_->properties().depth;
  if (depth < 4)
    return fail(status::invalid, "the fabric accepts only {} operations; staging needs 4", depth);
  TND_TRY(register_memory());
  fill_free_lists();
  return status::ok;
}

status stager::state::register_memory() {
  seams::fabric_memory const buffer{.addr = options_.staging_buffer.data(),
                                    .size = options_.staging_buffer.size()};
  auto shared = endpoint_->region_register(buffer, {.remote_read = true});
  if (!shared.ok())
    return shared.error();
  auto local = endpoint_->region_register(buffer, {});
  if (!local.ok())
    return local.error();
  staging_region_ = local.value().id;
  own_contact_ = {endpoint_->address(), shared.value().remote, {}};
  if (options_.heap_view.addr == nullptr || options_.heap.empty())
    return status::ok;
  // One region for local and remote access: the GPU memory that network cards can map is scarce.
  auto heap = endpoint_->region_register(options_.heap_view, {.remote_read = true});
  if (heap.ok()) {
    heap_region_ = heap.value().id;
    own_contact_.heap = heap.value().remote;
  }
  return status::ok;
}

// Nothing is in use yet.
void stager::state::fill_free_lists() {
  TND_ASSERT(slots_free_.empty() && services_free_.empty() && first_free_ == no_index);
  services_.resize(slot_count_);
  for (uint32_t i = slot_count_; i > 0; i--) {
    slots_free_.push_back(i - 1);
    services_free_.push_back(i - 1);
  }
  for (uint32_t i = request_count_max; i > 0; i--) {
    requests_[i - 1].next_free = first_free_;
    first_free_ = i - 1;
  }
  receives_.assign(receive_count_, std::vector<std::byte>(frame_size_));
  for (uint32_t i = 0; i < receive_count_; i++)
    receives_due_.push_back(i);
}

status stager::state::join(std::span<const contact> contacts) {
  TND_ASSERT(peers_.empty() && size_t(me_) < contacts.size());
  peers_.resize(contacts.size());
  for (pe_index pe = 0; pe < pe_index(contacts.size()); pe++) {
    auto const &peer_contact = contacts[size_t(pe)];
    if (pe == me_)
      continue;
    auto added = endpoint_->peer_add(peer_contact.address.span());
    if (!added.ok())
      return added.error();
    peers_[size_t(pe)].fabric_id = added.value();
    peers_[size_t(pe)].staging_buffer = peer_contact.staging_buffer;
    peers_[size_t(pe)].heap = peer_contact.heap;
  }
  post_receives();
  return status::ok;
}

staging::limits stager::state::limits_for(pe_index pe) const noexcept {
  auto const &sender = peers_[size_t(pe)];
  return {.heap_size = options_.heap.size(),
          .staging_size = sender.staging_buffer.size,
          .slot_size = options_.slot_size,
          .data_size_max = data_size_max_,
          .shared_size = sender.heap.size,
          .direct_size = is_direct() ? direct_size_max : options_.slot_size};
}

// Polls, and handles what has completed. Returns the number of completions, and of device
// operations that will complete soon. `is_idle`: no more records will follow soon.
size_t stager::state::progress(bool is_idle) noexcept {
  TND_ASSERT(progress_lock_.is_held());
  std::array<seams::fabric_completion, completions_max> done;
  size_t total = 0;
  for (size_t count = done.size(); count == done.size() && total < rounds_max * done.size();
       total += count) {
    count = endpoint_->poll(done);
    for (size_t i = 0; i < count; i++)
      dispatch(done[i]);
    while (advance()) {}
  }
  if (uint64_t const now_ns = options_.time->now_ns(); now_ns >= sweep_ns_) {
    sweep(now_ns);
    while (advance()) {}
  }
  if (is_idle)
    send_frames(true);
  return total + device_operations_.size();
}

// True: another call may find more to do.
bool stager::state::advance() noexcept {
  for (pe_index const pe : std::exchange(peers_to_remove_, {}))
    (void)endpoint_->peer_remove(peers_[size_t(pe)].fabric_id);
  post_receives();
  bool const has_served = serve_waiting();
  // The fabric does not wait for the queue. Complete earlier device operations before it writes to
  // the heap.
  bool const has_completed_operations = complete_device_operations();
  bool const has_finished_deferred = step_deferred();
  if (device_operations_.empty() || !is_direct())
    post_reads();
  send_frames(false);
  return has_served || has_completed_operations || has_finished_deferred ||
         !peers_to_remove_.empty();
}

void stager::state::dispatch(const seams::fabric_completion &done) {
  auto const index = uint32_t(done.op_id);
  switch (op_use(done.op_id >> 56)) {
    case op_use::receive:
      return handle_received(index, done);
    case op_use::send:
      return handle_sent(index, done);
    case op_use::request_read:
      return handle_read(requests_[index].pe, done, &state::handle_read_done);
    case op_use::service_read:
      return handle_read(services_[index].pe, done, &state::handle_put_data);
  }
}

void stager::state::handle_received(uint32_t index, const seams::fabric_completion &done) {
  TND_ASSERT(index < receive_count_);
  status const before = queue_status_;
  if (done.code == status::ok) {
    std::span<const std::byte> const buffer{receives_[index]};
    handle_frame(buffer.first(done.size), done.peer);
  }
  if (queue_status_ != before && done.settled)
    quarantine(receives_[index]);
  if (done.settled)
    receives_due_.push_back(index);
}

void stager::state::handle_sent(uint32_t index, const seams::fabric_completion &done) {
  TND_ASSERT(index < frames_.size());
  pe_index const pe = frames_[index]->pe;
  // The fabric releases memory that it still uses once the peer is removed.
  if (!done.settled)
    return fail_peer(pe, status::timed_out);
  TND_ASSERT(sends_in_flight_ != 0 && peers_[size_t(pe)].frames_in_flight != 0);
  sends_in_flight_--;
  peers_[size_t(pe)].frames_in_flight--;
  frame_free(frames_[index].get());
  list_unsent(pe);
  if (done.code != status::ok)
    fail_peer(pe, status::peer_lost);
}

void stager::state::handle_read(pe_index pe,
                                const seams::fabric_completion &done,
                                void (state::*handle_end)(uint32_t, status)) {
  // The fabric releases memory that it still uses once the peer is removed.
  if (!done.settled)
    return fail_peer(pe, status::timed_out);
  TND_ASSERT(reads_in_flight_ != 0);
  reads_in_flight_--;
  status const code = done.code == status::canceled ? status::peer_lost : done.code;
  (this->*handle_end)(uint32_t(done.op_id), code);
  if (code == status::peer_lost || code == status::timed_out)
    fail_peer(pe, code);
}

void stager::state::post_receives() {
  while (!receives_due_.empty()) {
    seams::fabric_op op{.kind = fabric_op_kind::receive,
                        .op_id = op_id(op_use::receive, receives_due_.back())};
    op.addr = receives_[receives_due_.back()].data();
    op.size = frame_size_;
    if (endpoint_->post(op) != status::ok)
      return;
    receives_due_.pop_back();
  }
}

// Content and sender are untrusted.
void stager::state::handle_frame(std::span<const std::byte> bytes, seams::fabric_peer source) {
  staging::frame_header head;
  if (source == seams::no_fabric_peer ||
      staging::frame_check(bytes, uint32_t(peers_.size())) != status::ok)
    return;
  std::memcpy(&head, bytes.data(), sizeof head);
  auto const pe = pe_index(head.pe);
  auto const &sender = peers_[size_t(pe)];
  if (sender.fabric_id != source)
    return;
  staging::frame_reader reader{bytes};
  record entry;
  for (std::span<const std::byte> data; !sender.has_failed && reader.next(entry, data);) {
    if (staging::is_request(entry.kind))
      handle_request(entry, data, pe);
    else if (entry.kind == record_kind::reply)
      handle_reply(entry, data, pe);
    else if (entry.kind == record_kind::ready)
      handle_ready(entry, pe);
    else
      handle_done(entry, pe);
  }
}

stager::state::frame *stager::state::frame_take() {
  if (!frames_free_.empty()) {
    frame *const reused = frames_free_.back();
    frames_free_.pop_back();
    TND_ASSERT(reused->count == 0 && reused->size == sizeof(staging::frame_header));
    return reused;
  }
  auto added = std::make_unique<frame>();
  added->bytes.resize(frame_size_);
  added->index = uint32_t(frames_.size());
  frames_.push_back(std::move(added));
  return frames_.back().get();
}

void stager::state::frame_free(frame *released) {
  TND_ASSERT(released != nullptr && frames_free_.size() < frames_.size());
  released->size = sizeof(staging::frame_header);
  released->count = 0;
  frames_free_.push_back(released);
}

void stager::state::list_unsent(pe_index pe) {
  auto &destination = peers_[size_t(pe)];
  if (destination.is_in_unsent || destination.outgoing.empty())
    return;
  destination.is_in_unsent = true;
  unsent_.push_back(pe);
}

// Appends a record to the peer's stream. Returns where its data go, valid until the next call.
std::byte *stager::state::append_record(pe_index pe, record record) {
  auto &destination = peers_[size_t(pe)];
  size_t const size = staging::record_size(record.data_size);
  TND_ASSERT(!destination.has_failed && size <= frame_size_ - sizeof(staging::frame_header));
  if (destination.outgoing.empty() || frame_size_ - destination.outgoing.back()->size < size) {
    destination.outgoing.push_back(frame_take());
    destination.outgoing.back()->pe = pe;
  }
  auto &last = *destination.outgoing.back();
  std::byte *const position = last.bytes.data() + last.size;
  std::memcpy(position, &record, sizeof record);
  last.size += size;
  last.count++;
  list_unsent(pe);
  return position + sizeof record;
}

void stager::state::send_frames(bool is_idle) {
  for (pe_index const pe : std::exchange(unsent_, {})) {
    peers_[size_t(pe)].is_in_unsent = false;
    send_frames_to(pe, is_idle);
    list_unsent(pe);
  }
}

// A frame that is not full waits while others are in flight and more records may follow, and while
// many are in flight.
void stager::state::send_frames_to(pe_index pe, bool is_idle) {
  auto &destination = peers_[size_t(pe)];
  while (!destination.outgoing.empty() && sends_in_flight_ < send_count_max_ &&
         destination.frames_in_flight < frames_sent_max_) {
    auto &next = *destination.outgoing.front();
    TND_ASSERT(next.count != 0 && next.pe == pe);
    if (destination.outgoing.size() == 1 && !is_full(next) &&
        destination.frames_in_flight > (is_idle ? frames_sent_max_ / 2 : 0))
      return;
    staging::frame_header const head{
        .pe = uint32_t(me_), .size = uint32_t(next.size), .count = next.count};
    std::memcpy(next.bytes.data(), &head, sizeof head);
    seams::fabric_op op{.kind = fabric_op_kind::send,
                        .op_id = op_id(op_use::send, next.index),
                        .deadline_ns = deadline_ns(),
                        .peer = destination.fabric_id};
    op.addr = next.bytes.data();
    op.size = next.size;
    status const code = endpoint_->post(op);
    if (code == status::again)
      return;
    if (code != status::ok)
      return fail_peer(pe, status::peer_lost);
    destination.outgoing.pop_front();
    destination.frames_in_flight++;
    sends_in_flight_++;
  }
}

void stager::state::post_reads() {
  while (!reads_due_.empty() && reads_in_flight_ < read_count_max_ && post_read(reads_due_.front()))
    reads_due_.pop_front();
}

seams::fabric_op stager::state::read_op(op_use use,
                                        uint32_t index,
                                        pe_index pe,
                                        bool is_direct) const {
  auto const &source = peers_[size_t(pe)];
  return {.kind = fabric_op_kind::read,
          .op_id = op_id(use, index),
          .deadline_ns = deadline_ns(),
          .peer = source.fabric_id,
          .remote = is_direct ? source.heap : source.staging_buffer};
}

// Reads the data of an own request.
seams::fabric_op stager::state::request_read_op(uint32_t index) const {
  TND_ASSERT(index < request_count_max && requests_[index].is_used);
  auto const &entry = requests_[index];
  auto op = read_op(op_use::request_read, index, entry.pe, entry.is_direct);
  op.size = entry.size;
  op.offset = entry.remote_offset;
  if (entry.reply_to.is_to_heap) {
    op.addr = options_.heap_view.addr + size_t(entry.reply_to.target - options_.heap.data());
    op.region = heap_region_;
  } else if (entry.reply_to.slot == no_index) {
    op.addr = entry.reply_to.target;
  } else {
    op.addr = slot_at(entry.reply_to.slot);
    op.region = staging_region_;
  }
  return op;
}

// Reads the data that a peer's request brings.
seams::fabric_op stager::state::service_read_op(uint32_t index) const {
  TND_ASSERT(index < slot_count_ && services_[index].current_stage == service::stage::reading);
  auto const &entry = services_[index];
  auto op = read_op(op_use::service_read, index, entry.pe, entry.is_direct);
  op.size = entry.size;
  op.offset = entry.remote_offset;
  op.addr =
      entry.is_to_heap ? options_.heap_view.addr + entry.offset : slot_at(slot_count_ + index);
  op.region = entry.is_to_heap ? heap_region_ : staging_region_;
  return op;
}

// False: the fabric does not accept the read now.
bool stager::state::post_read(uint64_t id) {
  auto const index = uint32_t(id);
  bool const is_own_read = op_use(id >> 56) == op_use::request_read;
  auto const op = is_own_read ? request_read_op(index) : service_read_op(index);
  status const code = endpoint_->post(op);
  if (code == status::again)
    return false;
  if (code != status::ok) {
    if (is_own_read)
      handle_read_done(index, code);
    else
      handle_put_data(index, code);
    return true;
  }
  reads_in_flight_++;
  if (is_own_read) {
    requests_[index].is_fabric_reading = true;
    if (requests_[index].is_direct)
      requests_[index].deadline_ns = op.deadline_ns;
  } else {
    services_[index].is_posted = true;
  }
  read_posted_ns_ = options_.time->now_ns();
  return true;
}

// For the rules see `request`.
bool stager::state::is_overdue(request &entry, uint64_t now_ns) const {
  bool const is_due = entry.is_direct && !entry.is_fabric_reading;
  bool const is_announced =
      entry.kind == record_kind::get_staged || entry.kind == record_kind::fetch_staged;
  if (!is_announced && entry.sequence > peers_[size_t(entry.pe)].direct_ended_since_sweep)
    entry.deadline_ns = seams::deadline_after(now_ns, options_.timeout_ns);
  // Earlier reads may be those of another peer, which fails at its own deadline.
  return now_ns >= entry.deadline_ns &&
         !(is_due && now_ns < seams::deadline_after(read_posted_ns_, 2 * options_.timeout_ns));
}

// Ends requests and services whose time has passed.
void stager::state::sweep(uint64_t now_ns) {
  sweep_ns_ = now_ns + std::min(sweep_ns_max, options_.timeout_ns / 16);
  if (queue_status_ == status::timed_out)
    try_resume_queue(seams::monotonic_clock().now_ns());
  if (pe_index const dead = options_.failed_pe ? options_.failed_pe() : -1; dead >= 0)
    fail_peer(dead, status::peer_lost);
  end_overdue_requests(now_ns);
  for (auto &entry : peers_)
    entry.direct_ended_since_sweep = unset;
  end_unread_services(now_ns);
}

void stager::state::end_overdue_requests(uint64_t now_ns) {
  for (uint32_t i = 0; request_count_ != 0 && i < request_count_max; i++) {
    auto &entry = requests_[i];
    if (!entry.is_used || entry.is_device_copying || !is_overdue(entry, now_ns))
      continue;
    if (entry.is_fabric_reading && entry.owner != nullptr &&
        now_ns >= seams::deadline_after(entry.deadline_ns, grace_ns)) {
      log(log_level::error,
          "pgas: the fabric has not released the memory of an operation past its deadline");
      report_to_owner(entry, status::timed_out);
    }
    fail_peer(entry.pe, status::timed_out);
  }
}

// Their peers do not wait for them any longer, since the peers' time began earlier.
void stager::state::end_unread_services(uint64_t now_ns) {
  for (uint32_t i = 0; services_free_.size() != slot_count_ && i < slot_count_; i++) {
    auto &entry = services_[i];
    if (entry.current_stage != service::stage::announced || now_ns < entry.deadline_ns)
      continue;
    TND_ASSERT(peers_[size_t(entry.pe)].pending_count != 0);
    peers_[size_t(entry.pe)].pending_count--;
    service_free(i);
  }
}

void stager::state::fail_peer(pe_index pe, status code) {
  TND_ASSERT(size_t(pe) < peers_.size());
  auto &failed = peers_[size_t(pe)];
  if (failed.has_failed || pe == me_)
    return;
  failed.has_failed = true;
  if (failed.outstanding_count != 0) {
    log(log_level::warning, "pgas: PE {} did not complete its requests; treating it as failed", pe);
  }
  peers_to_remove_.push_back(pe);
  for (auto *const unsent : std::exchange(failed.outgoing, {}))
    frame_free(unsent);
  std::erase_if(reads_due_, [&](uint64_t id) {
    auto const index = uint32_t(id);
    return (op_use(id >> 56) == op_use::request_read ? requests_[index].pe : services_[index].pe) ==
           pe;
  });
  fail_requests(pe, code);
  release_services(pe);
}

}  // namespace tanada::onesided
