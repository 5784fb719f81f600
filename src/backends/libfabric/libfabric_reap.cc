// What libfabric hands back, and what becomes of operations that it does not.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>

#include "backends/libfabric/libfabric_queue.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/log.hpp"

namespace tanada::port {
namespace {

// From the first error of a connection until it is closed: time for the others to come to an end.
constexpr uint64_t flush_ns = 200'000'000;
constexpr uint64_t process_check_ns =
    5'000'000;  // between two looks at the processes behind shared memory

bool is_out(const fabric_slot &slot) {
  return slot.state == fabric_slot_state::posted || slot.state == fabric_slot_state::abandoned;
}

}  // namespace

void libfabric_endpoint::progress() {
  reap_queue();
  if (!broken_.empty())
    mend_connections();
  if (!backlog_.empty() || !receives_waiting_.empty())
    submit_waiting();
  expire();
  if (domain_->is_shm())
    check_processes();
  if (!leaving_.empty())
    forget_removed();
}

void libfabric_endpoint::reap_queue() {
  std::array<fi_cq_msg_entry, 32> entries;
  std::array<fi_addr_t, 32> sources;
  // Bounded: while others are served, a flood of completions waits for the next poll.
  for (uint32_t left = ops_.depth() + 1; left > 0; left--) {
    ssize_t const count =
        fi_cq_readfrom(domain_->queue(), entries.data(), entries.size(), sources.data());
    if (count == -FI_EAVAIL) {
      reap_error();
      continue;
    }
    if (count <= 0)
      return;
    bool const is_all =
        size_t(count) <
        entries.size();  // another look would cost the system's time, and hardly find more
    for (size_t i = 0; i < size_t(count); i++) {
      if (auto *const part = parts_.find(entries[i].op_context); part != nullptr) {
        part_settle(*part, status::ok);
        continue;
      }
      uint32_t const index = index_of(entries[i].op_context);
      if (index == fabric_op_table::no_slot)
        continue;
      auto const &op = ops_[index].op;
      settle(index, status::ok,
             op.kind == fabric_op_kind::receive ? entries[i].len : fabric_remote_size(op),
             sources[i]);
    }
    if (is_all)
      return;
  }
}

void libfabric_endpoint::reap_error() {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(domain_->queue(), &error, 0) <= 0)
    return;
  // Without an operation of ours: a peer's that was refused here, or was cut short.
  auto *const part = parts_.find(error.op_context);
  uint32_t const index = part != nullptr ? part->index : index_of(error.op_context);
  if (index == fabric_op_table::no_slot) {
    if (part != nullptr)
      (void)parts_.settle(*part);
    return;
  }
  auto code = libfabric_completion_status(error.err, error.prov_errno, domain_->is_verbs());
  auto const &slot = ops_[index];
  if (code == status::canceled) {
    // We cancel receives at their deadline and nothing else: what remains was flushed from a
    // connection that has ended.
    bool const receives = slot.op.kind == fabric_op_kind::receive;
    bool const removed = !receives && peers_.find(slot.op.peer) == nullptr;
    code = receives ? status::timed_out : removed ? status::canceled : status::peer_lost;
  }
  // A receive that fails here has been too short; shm says EIO.
  if (domain_->is_shm() && code == status::io && slot.op.kind == fabric_op_kind::receive)
    code = status::overflow;
  bool const is_refused = code == status::access || code == status::io;
  bool const ends_connection =
      code == status::peer_lost || (is_refused && domain_->ends_on_refusal());
  if (ends_connection && slot.op.kind != fabric_op_kind::receive)
    connection_lost(*peers_.find_any(slot.op.peer));
  if (part != nullptr)
    part_settle(*part, code);
  else
    settle(index, code);
}

// It is made anew when nothing is under way by it any more.
void libfabric_endpoint::connection_lost(libfabric_peer &peer) {
  if (!domain_->is_connected() || peer.broken || !broken_.insert(peer.id).second)
    return;
  peer.broken = true;
  peer.broken_ns = time_.now_ns();
}

// no_slot for what is no context of an operation that is out.
uint32_t libfabric_endpoint::index_of(const void *context) {
  auto const *const begin = contexts_.data();
  auto const *const which = static_cast<const libfabric_context *>(context);
  if (which < begin || which >= begin + contexts_.size())
    return fabric_op_table::no_slot;
  auto const index = uint32_t(which - begin) / 2;
  return &context_of(index) == which && is_out(ops_[index]) ? index : fabric_op_table::no_slot;
}

void libfabric_endpoint::settle(uint32_t index, status code, uint64_t size, fi_addr_t source) {
  auto &slot = ops_[index];
  if (slot.state == fabric_slot_state::free)
    return;
  auto &mine = flights_[index];
  if (is_out(slot) && slot.op.kind != fabric_op_kind::receive)
    peers_.find_any(slot.op.peer)->in_flight--;
  if (mine.lane && is_out(slot))
    mine.lane->answered = true;
  regions_->release(mine.held);
  if (fabric_is_vector(slot.op))
    parts_forget(index);
  mine = {};
  auto const sender = slot.op.kind == fabric_op_kind::receive && code == status::ok
                          ? peers_.by_address(source)
                          : no_fabric_peer;
  ops_.settle(index, code, size, sender, code == status::ok ? value_of(index) : 0);
}

// A receive is taken back; a transfer or a message that is on its way cannot be.
void libfabric_endpoint::expire() {
  uint64_t const next_ns = ops_.next_deadline_ns();
  if (next_ns == TND_NO_DEADLINE)
    return;
  uint64_t const now_ns = time_.now_ns();
  if (next_ns > now_ns)
    return;
  std::vector<uint32_t> late;
  for (uint32_t index = ops_.expired(now_ns); index != fabric_op_table::no_slot;
       index = ops_.expired(now_ns)) {
    auto &slot = ops_[index];
    if (slot.state == fabric_slot_state::queued) {
      std::erase(waiting_of(slot.op), index);
      settle(index, status::timed_out);
      continue;
    }
    if (slot.op.kind == fabric_op_kind::receive)
      (void)fi_cancel(&endpoint_->fid, &context_of(index));
    if (flights_[index].is_partial && vector_stop(index, status::timed_out)) {
      settle(index, status::timed_out);
      continue;
    }
    late.push_back(index);
  }
  if (late.empty())
    return;
  std::vector<uint32_t> generations;
  generations.reserve(late.size());
  for (auto const index : late)
    generations.push_back(ops_[index].generation);
  reap_queue();
  for (size_t i = 0; i < late.size(); i++) {
    auto const &slot = ops_[late[i]];
    if (slot.generation != generations[i] || slot.state != fabric_slot_state::posted)
      continue;
    ops_.abandon(late[i]);
    auto const &lane = flights_[late[i]].lane;
    if (lane) {
      auto *const peer = peers_.find_any(slot.op.peer);
      if (peer->lane == lane)
        peers_.lane_drop(std::move(peer->lane));  // what follows would wait behind it
    }
  }
}

void libfabric_endpoint::check_processes() {
  uint64_t const now_ns = time_.now_ns();
  if (now_ns - processes_checked_ns_ < process_check_ns)
    return;
  processes_checked_ns_ = now_ns;
  for (auto &[id, peer] : peers_.all()) {
    if (peer.gone || peer.process.empty() || (peer.in_flight == 0 && peer.waiting.empty()))
      continue;
    if (shm_name_process(peer.process) == process_state::gone)
      peer_gone(peer);
  }
}

// Nobody will touch our memory any more, nor answer. The endpoints that wait for the answers are
// closed.
void libfabric_endpoint::peer_gone(libfabric_peer &peer) {
  log(log_level::info, "fabric: peer %u has died with %u operations under way", peer.id,
      peer.in_flight);
  peer.gone = true;
  reap_queue();
  drop_waiting(peer, status::peer_lost);
  peer.lane.reset();
  settle_out(peer.id, status::peer_lost);
}

// rxm would notice the end of a connection late (10 ms after, with tcp) or never (a queue pair in
// error, with verbs), and hands operations to it until then.
void libfabric_endpoint::mend_connections() {
  uint64_t const now_ns = time_.now_ns();
  std::erase_if(broken_, [&](fabric_peer id) {
    auto *const peer = peers_.find(id);
    if (peer == nullptr)
      return true;
    bool const may_cut = domain_->ends_on_remove() && now_ns - peer->broken_ns >= flush_ns;
    if (peer->in_flight != 0 && !may_cut)
      return false;
    peer->gone = !peers_.reconnect(*peer);
    reap_queue();
    if (may_cut)
      settle_out(id, status::peer_lost);
    return true;
  });
}

// What the network will not answer any more, nor touch the memory of.
void libfabric_endpoint::settle_out(fabric_peer peer, status code) {
  for (uint32_t index = 0; index < ops_.depth(); index++) {
    auto const &slot = ops_[index];
    if (is_out(slot) && slot.op.kind != fabric_op_kind::receive && slot.op.peer == peer)
      settle(index, code);
  }
}

void libfabric_endpoint::drop_waiting(libfabric_peer &peer, status code) {
  for (auto const index : std::exchange(peer.waiting, {})) {
    // Of a vector that was begun the rest is dropped; what is out comes to its end.
    bool const is_begun = flights_[index].is_partial;
    if (!is_begun || vector_stop(index, code))
      settle(index, code);
  }
  backlog_.erase(peer.id);
}

void libfabric_endpoint::forget_removed() {
  std::erase_if(leaving_, [this](fabric_peer id) {
    if (peers_.find_any(id)->in_flight != 0)
      return false;
    peers_.forget(id);
    return true;
  });
}

}  // namespace tanada::port
