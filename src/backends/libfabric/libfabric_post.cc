// backends/libfabric/libfabric_post.cc: posts operations to libfabric.
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "backends/libfabric/libfabric_queue.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/assert.hpp"

namespace tanada::backends {
namespace {

// A full network accepts operations again within microseconds. A network that cannot connect tries
// to connect with each post.
constexpr uint32_t refusals_quick = 64;
constexpr uint64_t retry_ns_step = 100'000, retry_ns_max = 10'000'000;
static_assert(retry_ns_step <= retry_ns_max);

}  // namespace

status libfabric_endpoint::post(const seams::fabric_op &op) {
  TND_TRY(seams::fabric_op_check(op, properties()));
  auto *const peer = op.kind == seams::fabric_op_kind::receive ? nullptr : peers_.find(op.peer);
  if (op.kind != seams::fabric_op_kind::receive && peer == nullptr)
    return status::no_entry;
  bool const holds = !seams::fabric_is_element(op) &&
                     !(seams::fabric_is_copied(op) && op.region == seams::no_fabric_region);
  auto held =
      holds ? regions_->acquire(op) : result<libfabric_regions::hold>{libfabric_regions::hold{}};
  if (!held.ok())
    return held.error();
  uint32_t const index = ops_.insert(op);
  if (index == seams::fabric_op_table::no_slot) {
    regions_->release(held.value());
    return status::again;
  }
  flights_[index].held = held.value();
  if (seams::fabric_is_copied(op))
    copy_source(index);
  auto &waiting = peer == nullptr ? receives_waiting_ : peer->waiting;
  if (!waiting.empty() || !submit(index)) {
    waiting.push_back(index);
    if (peer != nullptr)
      backlog_.insert(op.peer);
  }
  return status::ok;
}

// Copies the source, so that the caller may reuse it. The copy is as fast as the provider's
// (FI_INJECT), and also serves operations that must wait.
void libfabric_endpoint::copy_source(uint32_t index) {
  auto &op = ops_[index].op;
  auto &state = flights_[index];
  TND_ASSERT(op.size <= properties().copied_size_max && copies_ != nullptr);
  std::byte *const copy = copies_.get() + size_t(index) * properties().copied_size_max;
  std::memcpy(copy, op.addr, op.size);
  op.addr = copy;
  regions_->release(state.held);
  state.held = {.region = seams::no_fabric_region,
                .cached = nullptr,
                .descriptor = copies_region_ ? fi_mr_desc(copies_region_.get()) : nullptr};
}

std::deque<uint32_t> &libfabric_endpoint::waiting_queue(const seams::fabric_op &op) {
  if (op.kind == seams::fabric_op_kind::receive)
    return receives_waiting_;
  auto *const peer = peers_.find_any(op.peer);
  TND_ASSERT(peer != nullptr);
  return peer->waiting;
}

// Returns false if the network does not accept the operation now.
bool libfabric_endpoint::submit(uint32_t index) {
  auto &slot = ops_[index];
  TND_ASSERT(slot.state == seams::fabric_slot_state::queued || flights_[index].is_partial);
  auto *const peer =
      slot.op.kind == seams::fabric_op_kind::receive ? nullptr : peers_.find_any(slot.op.peer);
  if (peer != nullptr && peer->is_dead) {
    flights_[index].is_partial = false;  // the caller removes it from the queue
    settle(index, status::peer_lost);
    return true;
  }
  if (peer != nullptr && peer->broken)
    return false;
  if (seams::fabric_is_vector(slot.op))
    return submit_vector(index, *peer);
  ssize_t const code = post_operation(index, peer);
  if (code == -FI_EAGAIN)
    return false;
  if (code == 0) {
    slot.state = seams::fabric_slot_state::posted;
    if (peer != nullptr)
      peer->in_flight++;
  } else {
    auto const status_code = libfabric_status(int(-code));
    if (peer != nullptr && status_code == status::peer_lost)
      mark_broken(*peer);
    flights_[index].lane.reset();
    settle(index, status_code);
  }
  return true;
}

ssize_t libfabric_endpoint::post_operation(uint32_t index, libfabric_peer *peer) {
  auto const &op = ops_[index].op;
  void *const descriptor = flights_[index].held.descriptor;
  switch (op.kind) {
    case seams::fabric_op_kind::send:
      return fi_send(
          endpoint_.get(), op.addr, op.size, descriptor, peer->address, &context_of(index));
    case seams::fabric_op_kind::receive:
      return fi_recv(
          endpoint_.get(), op.addr, op.size, descriptor, FI_ADDR_UNSPEC, &context_of(index));
    default:
      return post_transfer(index, *peer);
  }
}

// shm: assigns the peer's lane to a transfer, and returns its endpoint.
ssize_t libfabric_endpoint::choose_lane(uint32_t index, libfabric_peer &peer, fid_ep *&endpoint) {
  if (!peer.lane) {
    if (peer.lanes_made == shm_lanes_max)
      return -FI_ECONNABORTED;
    if (lane_open(peer) != status::ok)
      return -FI_ENOMEM;
  }
  auto &lane = flights_[index].lane;
  if (!flights_[index].is_partial)
    lane = peer.lane;
  TND_ASSERT(lane != nullptr);
  endpoint = lane->endpoint.get();
  return 0;
}

ssize_t libfabric_endpoint::post_transfer(uint32_t index, libfabric_peer &peer) {
  auto const &op = ops_[index].op;
  auto *endpoint = endpoint_.get();
  if (domain_->is_shm()) {
    if (ssize_t const code = choose_lane(index, peer, endpoint); code != 0)
      return code;
  }
  if (op.kind == seams::fabric_op_kind::atomic)
    return post_atomic(endpoint, index, peer);
  void *descriptor = flights_[index].held.descriptor;
  iovec local{op.addr, op.size};
  fi_rma_iov remote{op.remote.base + op.offset, op.size, op.remote.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = peer.address;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &context_of(index);
  if (op.kind == seams::fabric_op_kind::read)
    return fi_readmsg(endpoint, &message, FI_COMPLETION);
  // Only o2g is known to send batched operations even if no further one follows.
  uint64_t const more = op.more && domain_->queue_wait() != nullptr ? uint64_t(FI_MORE) : 0;
  uint64_t const completion_flags = op.is_reported_by_next && domain_->queue_wait() != nullptr
                                        ? uint64_t(FI_INJECT_COMPLETE)
                                        : domain_->write_flags();
  return fi_writemsg(endpoint, &message, FI_COMPLETION | completion_flags | more);
}

status libfabric_endpoint::lane_open(libfabric_peer &peer) {
  auto opened = domain_->endpoint_open(shm_name_create());
  if (!opened.ok())
    return opened.error();
  peer.lane = std::make_shared<shm_lane>(shm_lane{std::move(opened).value()});
  TND_ASSERT(peer.lanes_made < shm_lanes_max);
  peer.lanes_made++;
  return status::ok;
}

void libfabric_endpoint::submit_waiting() {
  while (!receives_waiting_.empty() && submit(receives_waiting_.front()))
    receives_waiting_.pop_front();
  if (backlog_.empty())
    return;
  uint64_t const now_ns = time_.now_ns();
  for (auto it = backlog_.begin(); it != backlog_.end();) {
    auto *const entry = peers_.find_any(*it);
    TND_ASSERT(entry != nullptr);
    auto &peer = *entry;
    bool const idle = peer.in_flight == 0 && now_ns < peer.retry_ns;
    while (!idle && !peer.waiting.empty() && submit(peer.waiting.front())) {
      peer.waiting.pop_front();
      peer.refusals = 0;
    }
    if (!idle && !peer.waiting.empty() && ++peer.refusals > refusals_quick) {
      peer.retry_ns =
          now_ns + std::min(retry_ns_max, (peer.refusals - refusals_quick) * retry_ns_step);
    }
    it = peer.waiting.empty() ? backlog_.erase(it) : std::next(it);
  }
}

}  // namespace tanada::backends
