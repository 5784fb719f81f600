// What moves between stagers: frames, reads, and what the queue has been asked to do.
#include "onesided/job/staging.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/staging_state.hpp"

namespace tanada::pgas {
namespace {

using port::fabric_op_kind;
using staging::record;
using staging::record_kind;

constexpr uint32_t receive_count_max = 64;
constexpr size_t completions_max = 4,
                 rounds_max =
                     16;  // copies between two looks at who waits for an answer; looks of one call
constexpr uint64_t sweep_ns_max = 1'000'000;
constexpr uint64_t grace_ns =
    1'000'000'000;  // past the deadline of a request, until the fabric lets go of its memory

}  // namespace

stager::stager(std::unique_ptr<state> made) : state_{std::move(made)} {}
stager::~stager() = default;

result<std::unique_ptr<stager>> stager::create(std::unique_ptr<port::fabric_endpoint> endpoint,
                                               std::unique_ptr<port::device_queue> queue,
                                               pe_index me, const options &chosen) {
  auto made = std::make_unique<state>(std::move(endpoint), std::move(queue), me, chosen);
  TND_TRY(made->open());
  return std::unique_ptr<stager>{new stager{std::move(made)}};
}

const stager::contact &stager::own() const noexcept {
  return state_->own_;
}
status stager::join(std::span<const contact> everybodys) {
  return state_->join(everybodys);
}
void stager::start() {
  state_->start();
}
bool stager::is_direct() const noexcept {
  return state_->is_direct();
}
void stager::attend() noexcept {
  state_->attend();
}
size_t stager::withheld() const noexcept {
  return state_->withheld();
}
bool stager::stop() noexcept {
  return state_->stop();
}
pe_index stager::failed() const noexcept {
  return state_->failed_.load(std::memory_order_relaxed);
}

stager::state::state(std::unique_ptr<port::fabric_endpoint> endpoint,
                     std::unique_ptr<port::device_queue> queue, pe_index me, const options &chosen)
    : options_{chosen},
      me_{me},
      endpoint_{std::move(endpoint)},
      queue_{std::move(queue)},
      frame_size_{std::min(frame_size_cap, endpoint_->properties().message_size_max)},
      data_size_max_{frame_size_ - sizeof(staging::frame_head) - sizeof(record) -
                     staging::record_alignment},
      receive_count_{std::clamp(endpoint_->properties().depth / 4, 1u, receive_count_max)},
      send_count_max_{std::max(endpoint_->properties().depth / 4, 1u)},
      frames_sent_max_{std::max(send_count_max_ / 4, 1u)},
      read_count_max_{std::max(endpoint_->properties().depth / 2, 1u)},
      turns_{*endpoint_, *options_.time, options_.is_crowded},
      scratch_(frame_size_cap),
      requests_(request_count_max) {}

stager::state::~state() {
  (void)stop();
}

status stager::state::open() {
  slot_count_ = uint32_t(options_.area.size() / options_.slot_size / 2);
  if (slot_count_ == 0) {
    return fail(status::invalid, "%zu bytes are no room to stage pieces of %zu",
                options_.area.size(), options_.slot_size);
  }
  uint32_t const depth = endpoint_->properties().depth;
  if (depth < 4)
    return fail(status::invalid, "the fabric takes %u operations: too few", depth);
  auto shared = endpoint_->region_register(
      {.addr = options_.area.data(), .size = options_.area.size()}, {.remote_read = true});
  if (!shared.ok())
    return shared.error();
  auto local =
      endpoint_->region_register({.addr = options_.area.data(), .size = options_.area.size()}, {});
  if (!local.ok())
    return local.error();
  area_region_ = local.value().id;
  own_ = {endpoint_->address(), shared.value().remote, {}};
  if (options_.heap_view.addr != nullptr && !options_.heap.empty()) {
    // One region for both: what cards reach of a GPU's memory is scarce.
    auto heap = endpoint_->region_register(options_.heap_view, {.remote_read = true});
    if (heap.ok()) {
      heap_region_ = heap.value().id;
      own_.heap = heap.value().remote;
    }
  }
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
  return status::ok;
}

status stager::state::join(std::span<const contact> everybodys) {
  peers_.resize(everybodys.size());
  for (pe_index pe = 0; pe < pe_index(everybodys.size()); pe++) {
    auto const &there = everybodys[size_t(pe)];
    if (pe == me_)
      continue;
    auto added = endpoint_->peer_add(there.address.span());
    if (!added.ok())
      return added.error();
    peers_[size_t(pe)].number = added.value();
    peers_[size_t(pe)].area = there.area;
    peers_[size_t(pe)].heap = there.heap;
  }
  post_receives();
  return status::ok;
}

staging::limits stager::state::limits_of(pe_index pe) const noexcept {
  auto const &there = peers_[size_t(pe)];
  return {.heap_size = options_.heap.size(),
          .area_size = there.area.size,
          .slot_size = options_.slot_size,
          .data_size_max = data_size_max_,
          .shared_size = there.heap.size,
          .direct_size = is_direct() ? direct_size_max : options_.slot_size};
}

// Looks at what has happened, and does what follows from it. How much that was, and will be in a
// moment. `is_idle`: nothing more will be said soon.
size_t stager::state::progress(bool is_idle) noexcept {
  std::array<port::fabric_completion, completions_max> done;
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
  return total + deeds_.size();
}

// True: it may be that more can be done now.
bool stager::state::advance() noexcept {
  for (pe_index const pe : std::exchange(leaving_, {}))
    (void)endpoint_->peer_remove(peers_[size_t(pe)].number);
  post_receives();
  bool const has_served = serve_waiting();
  // The fabric does not wait for the queue: before it writes to the heap, what was asked for
  // earlier is done.
  bool const has_settled_deeds = settle_deeds();
  bool const has_settled_deferred = settle_deferred();
  if (deeds_.empty() || !is_direct())
    post_reads();
  send_frames(false);
  return has_served || has_settled_deeds || has_settled_deferred || !leaving_.empty();
}

void stager::state::dispatch(const port::fabric_completion &done) {
  auto const use = op_use(done.op_id >> 56);
  auto const index = uint32_t(done.op_id);
  if (use == op_use::receive) {
    status const before = queue_code_;
    if (done.code == status::ok)
      arrive(std::span{receives_[index]}.first(done.size), done.peer);
    if (queue_code_ != before && done.settled)
      withhold(receives_[index]);
    if (done.settled)
      receives_due_.push_back(index);
    return;
  }
  pe_index const pe = use == op_use::send   ? frames_[index]->pe
                      : use == op_use::land ? requests_[index].pe
                                            : services_[index].pe;
  // Without the peer the fabric lets go of memory that it still has.
  if (!done.settled)
    return lose(pe, status::timed_out);
  if (use == op_use::send) {
    sends_--;
    peers_[size_t(pe)].sent--;
    frame_free(frames_[index].get());
    list_unsent(pe);
    if (done.code != status::ok)
      lose(pe, status::peer_lost);
    return;
  }
  reads_--;
  status const code = done.code == status::canceled ? status::peer_lost : done.code;
  if (use == op_use::land)
    landed(index, code);
  else
    served_data_here(index, code);
  if (code == status::peer_lost || code == status::timed_out)
    lose(pe, code);
}

void stager::state::post_receives() {
  while (!receives_due_.empty()) {
    port::fabric_op op{.kind = fabric_op_kind::receive,
                       .op_id = op_id(op_use::receive, receives_due_.back())};
    op.addr = receives_[receives_due_.back()].data();
    op.size = frame_size_;
    if (endpoint_->post(op) != status::ok)
      return;
    receives_due_.pop_back();
  }
}

// Whatever it is, and whoever says it.
void stager::state::arrive(std::span<const std::byte> bytes, port::fabric_peer from) {
  staging::frame_head head;
  if (from == port::no_fabric_peer ||
      staging::frame_check(bytes, uint32_t(peers_.size())) != status::ok)
    return;
  std::memcpy(&head, bytes.data(), sizeof head);
  auto const pe = pe_index(head.pe);
  auto const &sender = peers_[size_t(pe)];
  if (sender.number != from)
    return;
  staging::frame_reader reader{bytes};
  record each;
  for (std::span<const std::byte> data; !sender.is_lost && reader.next(each, data);) {
    if (staging::is_request(each.kind))
      requested(each, data, pe);
    else if (each.kind == record_kind::reply)
      answered(each, data, pe);
    else if (each.kind == record_kind::ready)
      offered(each, pe);
    else
      done_with(each, pe);
  }
}

stager::state::frame *stager::state::frame_take() {
  if (!frames_free_.empty()) {
    frame *const taken = frames_free_.back();
    frames_free_.pop_back();
    return taken;
  }
  auto made = std::make_unique<frame>();
  made->bytes.resize(frame_size_);
  made->index = uint32_t(frames_.size());
  frames_.push_back(std::move(made));
  return frames_.back().get();
}

void stager::state::frame_free(frame *which) {
  which->size = sizeof(staging::frame_head);
  which->count = 0;
  frames_free_.push_back(which);
}

void stager::state::list_unsent(pe_index pe) {
  auto &to = peers_[size_t(pe)];
  if (to.is_listed || to.outgoing.empty())
    return;
  to.is_listed = true;
  unsent_.push_back(pe);
}

// Where its data go, until the next call. The peer is not lost.
std::byte *stager::state::say(pe_index pe, record what) {
  auto &to = peers_[size_t(pe)];
  size_t const size = staging::room_for(what.data_size);
  if (to.outgoing.empty() || frame_size_ - to.outgoing.back()->size < size) {
    to.outgoing.push_back(frame_take());
    to.outgoing.back()->pe = pe;
  }
  auto &last = *to.outgoing.back();
  std::byte *const at = last.bytes.data() + last.size;
  std::memcpy(at, &what, sizeof what);
  last.size += size;
  last.count++;
  list_unsent(pe);
  return at + sizeof what;
}

void stager::state::send_frames(bool is_idle) {
  for (pe_index const pe : std::exchange(unsent_, {})) {
    peers_[size_t(pe)].is_listed = false;
    send_frames_of(pe, is_idle);
    list_unsent(pe);
  }
}

// A frame that is not full waits while others are under way and more may be said; and while many
// are.
void stager::state::send_frames_of(pe_index pe, bool is_idle) {
  auto &to = peers_[size_t(pe)];
  while (!to.outgoing.empty() && sends_ < send_count_max_ && to.sent < frames_sent_max_) {
    auto &next = *to.outgoing.front();
    if (to.outgoing.size() == 1 && !is_full(next) && to.sent > (is_idle ? frames_sent_max_ / 2 : 0))
      return;
    staging::frame_head const head{
        .pe = uint32_t(me_), .size = uint32_t(next.size), .count = next.count};
    std::memcpy(next.bytes.data(), &head, sizeof head);
    port::fabric_op op{.kind = fabric_op_kind::send,
                       .op_id = op_id(op_use::send, next.index),
                       .deadline_ns = deadline_ns(),
                       .peer = to.number};
    op.addr = next.bytes.data();
    op.size = next.size;
    status const code = endpoint_->post(op);
    if (code == status::again)
      return;
    if (code != status::ok)
      return lose(pe, status::peer_lost);
    to.outgoing.pop_front();
    to.sent++;
    sends_++;
  }
}

void stager::state::post_reads() {
  while (!reads_due_.empty() && reads_ < read_count_max_ && post_read(reads_due_.front()))
    reads_due_.pop_front();
}

// False: the fabric does not take it now.
bool stager::state::post_read(uint64_t id) {
  auto const index = uint32_t(id);
  bool const lands = op_use(id >> 56) == op_use::land;
  auto &asked = requests_[lands ? index : 0];
  auto &served = services_[lands ? 0 : index];
  pe_index const pe = lands ? asked.pe : served.pe;
  port::fabric_op op{.kind = fabric_op_kind::read,
                     .op_id = id,
                     .deadline_ns = deadline_ns(),
                     .peer = peers_[size_t(pe)].number};
  op.remote = (lands ? asked.is_direct : served.is_direct) ? peers_[size_t(pe)].heap
                                                           : peers_[size_t(pe)].area;
  op.size = lands ? asked.size : served.size;
  op.offset = lands ? asked.remote_offset : served.remote_offset;
  bool const is_ours = lands && asked.to.slot == none;  // straight to where the program wants it
  if (lands ? asked.to.is_to_heap : served.is_to_heap) {
    op.addr = options_.heap_view.addr +
              (lands ? size_t(asked.to.target - options_.heap.data()) : served.offset);
    op.region = heap_region_;
  } else {
    op.addr = is_ours ? asked.to.target : slot_at(lands ? asked.to.slot : slot_count_ + index);
    if (!is_ours)
      op.region = area_region_;
  }
  status const code = endpoint_->post(op);
  if (code == status::again)
    return false;
  if (code == status::ok) {
    reads_++;
    (lands ? asked.is_reading : served.is_posted) = true;
    if (lands && asked.is_direct)
      asked.deadline_ns = op.deadline_ns;
    read_posted_ns_ = options_.time->now_ns();
    return true;
  }
  if (lands)
    landed(index, code);
  else
    served_data_here(index, code);
  return true;
}

// See request.
bool stager::state::is_late(request &of, uint64_t now_ns) const {
  bool const is_due = of.is_direct && !of.is_reading;
  bool const is_offered =
      of.kind == record_kind::get_staged || of.kind == record_kind::fetch_staged;
  if (!is_offered && of.number > peers_[size_t(of.pe)].passed)
    of.deadline_ns = port::deadline_after(now_ns, options_.timeout_ns);
  // Reads before it may be another peer's, which is lost at its own deadline.
  return now_ns >= of.deadline_ns &&
         !(is_due && now_ns < port::deadline_after(read_posted_ns_, 2 * options_.timeout_ns));
}

// What has taken too long.
void stager::state::sweep(uint64_t now_ns) {
  sweep_ns_ = now_ns + std::min(sweep_ns_max, options_.timeout_ns / 16);
  if (queue_code_ == status::timed_out)
    catch_up(port::monotonic_clock().now_ns());
  if (pe_index const dead = options_.lost ? options_.lost() : -1; dead >= 0)
    lose(dead, status::peer_lost);
  for (uint32_t i = 0; request_count_ != 0 && i < request_count_max; i++) {
    auto &of = requests_[i];
    if (!of.is_used || of.is_landing || !is_late(of, now_ns))
      continue;
    if (of.is_reading && of.owner != nullptr &&
        now_ns >= port::deadline_after(of.deadline_ns, grace_ns)) {
      log(log_level::error, "pgas: the fabric keeps memory of an operation whose time is over");
      tell_owner(of, status::timed_out);
    }
    lose(of.pe, status::timed_out);
  }
  for (auto &each : peers_)
    each.passed = none_yet;
  for (uint32_t i = 0; services_free_.size() != slot_count_ && i < slot_count_; i++) {
    // Its peer does not wait for it any longer: it began before.
    auto &of = services_[i];
    if (of.at != service::stage::offered || now_ns < of.deadline_ns)
      continue;
    peers_[size_t(of.pe)].asked--;
    service_free(i);
  }
}

void stager::state::lose(pe_index pe, status code) {
  auto &gone = peers_[size_t(pe)];
  if (gone.is_lost || pe == me_)
    return;
  gone.is_lost = true;
  if (gone.outstanding != 0) {
    log(log_level::warning, "pgas: PE %d does not do what it was asked for: it is taken for lost",
        pe);
  }
  leaving_.push_back(pe);
  for (auto *const each : std::exchange(gone.outgoing, {}))
    frame_free(each);
  std::erase_if(reads_due_, [&](uint64_t id) {
    auto const index = uint32_t(id);
    return (op_use(id >> 56) == op_use::land ? requests_[index].pe : services_[index].pe) == pe;
  });
  lose_requests(pe, code);
  lose_services(pe);
}

}  // namespace tanada::pgas
