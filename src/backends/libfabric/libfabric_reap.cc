// backends/libfabric/libfabric_reap.cc: completions of libfabric, and operations that never get
// one.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>

#include "backends/libfabric/libfabric_queue.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

// The time from the first error of a connection until it is closed, for its other operations to
// complete.
constexpr uint64_t flush_ns = 200'000'000;
constexpr uint64_t process_check_ns =
    5'000'000;  // between checks of the processes that share memory with this one

bool is_in_flight(const seams::fabric_slot &slot) {
  return slot.state == seams::fabric_slot_state::posted ||
         slot.state == seams::fabric_slot_state::abandoned;
}

}  // namespace

void libfabric_endpoint::progress() {
  reap_queue();
  if (!broken_.empty())
    reconnect_peers();
  if (!backlog_.empty() || !receives_waiting_.empty())
    submit_waiting();
  expire();
  if (domain_->is_shm())
    check_processes();
  if (!removed_.empty())
    erase_removed();
}

void libfabric_endpoint::reap_queue() {
  std::array<fi_cq_msg_entry, 32> entries;
  std::array<fi_addr_t, 32> sources;
  // The loop is bounded: under a flood of completions, the rest waits for the next poll.
  for (uint32_t rounds = ops_.depth() + 1; rounds > 0; rounds--) {
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
        entries.size();  // another read would cost a system call and rarely return more
    for (size_t i = 0; i < size_t(count); i++) {
      if (auto *const part = parts_.find(entries[i].op_context); part != nullptr) {
        part_settle(*part, status::ok);
        continue;
      }
      uint32_t const index = index_of(entries[i].op_context);
      if (index == seams::fabric_op_table::no_slot)
        continue;
      auto const &op = ops_[index].op;
      settle(index,
             status::ok,
             op.kind == seams::fabric_op_kind::receive ? entries[i].len
                                                       : seams::fabric_remote_size(op),
             sources[i]);
    }
    if (is_all)
      return;
  }
}

// The status of an operation that libfabric completed with an error.
status libfabric_endpoint::status_of_error(const fi_cq_err_entry &error,
                                           const seams::fabric_op &op) {
  auto const code = libfabric_completion_status(error.err, error.prov_errno, domain_->is_verbs());
  bool const is_receive = op.kind == seams::fabric_op_kind::receive;
  // Only receives are canceled, at their deadline. Other canceled operations were flushed from a
  // connection that has ended.
  if (code == status::canceled && is_receive)
    return status::timed_out;
  if (code == status::canceled)
    return peers_.find(op.peer) == nullptr ? status::canceled : status::peer_lost;
  // A receive that fails here was too short; shm reports EIO.
  return domain_->is_shm() && code == status::io && is_receive ? status::overflow : code;
}

void libfabric_endpoint::reap_error() {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(domain_->queue(), &error, 0) <= 0)
    return;
  // The error belongs to no operation of this endpoint: an operation of a peer was refused or
  // truncated here.
  auto *const part = parts_.find(error.op_context);
  uint32_t const index = part != nullptr ? part->index : index_of(error.op_context);
  if (index == seams::fabric_op_table::no_slot) {
    if (part != nullptr)
      (void)parts_.settle(*part);
    return;
  }
  auto const &slot = ops_[index];
  auto const code = status_of_error(error, slot.op);
  bool const is_refused = code == status::access || code == status::io;
  bool const ends_connection =
      code == status::peer_lost || (is_refused && domain_->ends_on_refusal());
  if (ends_connection && slot.op.kind != seams::fabric_op_kind::receive)
    mark_broken(*peers_.find_any(slot.op.peer));
  if (part != nullptr)
    part_settle(*part, code);
  else
    settle(index, code);
}

// The connection is replaced when none of its operations is in flight.
void libfabric_endpoint::mark_broken(libfabric_peer &peer) {
  if (!domain_->is_connected() || peer.broken || !broken_.insert(peer.id).second)
    return;
  peer.broken = true;
  peer.broken_ns = time_.now_ns();
}

// Returns no_slot if the context does not belong to an operation in flight.
uint32_t libfabric_endpoint::index_of(const void *context) {
  auto const *const begin = contexts_.data();
  auto const *const entry = static_cast<const libfabric_context *>(context);
  if (entry < begin || entry >= begin + contexts_.size())
    return seams::fabric_op_table::no_slot;
  auto const index = uint32_t(entry - begin) / 2;
  return &context_of(index) == entry && is_in_flight(ops_[index]) ? index
                                                                  : seams::fabric_op_table::no_slot;
}

void libfabric_endpoint::settle(uint32_t index, status code, uint64_t size, fi_addr_t source) {
  TND_ASSERT(index < ops_.depth());
  auto &slot = ops_[index];
  if (slot.state == seams::fabric_slot_state::free)
    return;
  auto &state = flights_[index];
  if (is_in_flight(slot) && slot.op.kind != seams::fabric_op_kind::receive) {
    auto *const peer = peers_.find_any(slot.op.peer);
    TND_ASSERT(peer != nullptr && peer->in_flight != 0);
    peer->in_flight--;
  }
  if (state.lane && is_in_flight(slot))
    state.lane->answered = true;
  regions_->release(state.held);
  if (seams::fabric_is_vector(slot.op))
    orphan_parts(index);
  state = {};
  auto const sender = slot.op.kind == seams::fabric_op_kind::receive && code == status::ok
                          ? peers_.find_by_address(source)
                          : seams::no_fabric_peer;
  ops_.settle(index, code, size, sender, code == status::ok ? value_of(index) : 0);
}

// A receive can be canceled; a transfer or a message in flight cannot.
void libfabric_endpoint::expire() {
  uint64_t const next_ns = ops_.next_deadline_ns();
  if (next_ns == TND_NO_DEADLINE)
    return;
  uint64_t const now_ns = time_.now_ns();
  if (next_ns > now_ns)
    return;
  auto const expired = take_expired(now_ns);
  if (expired.empty())
    return;
  std::vector<uint32_t> generations;
  generations.reserve(expired.size());
  for (auto const index : expired)
    generations.push_back(ops_[index].generation);
  reap_queue();
  for (size_t i = 0; i < expired.size(); i++) {
    auto const &slot = ops_[expired[i]];
    if (slot.generation == generations[i] && slot.state == seams::fabric_slot_state::posted)
      abandon(expired[i]);
  }
}

// Settles the expired operations that the network has not accepted, and returns the others.
std::vector<uint32_t> libfabric_endpoint::take_expired(uint64_t now_ns) {
  std::vector<uint32_t> expired;
  for (uint32_t index = ops_.take_expired(now_ns); index != seams::fabric_op_table::no_slot;
       index = ops_.take_expired(now_ns)) {
    auto &slot = ops_[index];
    if (slot.state == seams::fabric_slot_state::queued) {
      std::erase(waiting_queue(slot.op), index);
      settle(index, status::timed_out);
      continue;
    }
    if (slot.op.kind == seams::fabric_op_kind::receive)
      (void)fi_cancel(&endpoint_->fid, &context_of(index));
    if (flights_[index].is_partial && vector_stop(index, status::timed_out)) {
      settle(index, status::timed_out);
      continue;
    }
    expired.push_back(index);
  }
  return expired;
}

// Reports an operation that remains in flight as timed out. Later transfers would wait for its
// lane, so they get another one.
void libfabric_endpoint::abandon(uint32_t index) {
  ops_.abandon(index);
  auto const &lane = flights_[index].lane;
  if (!lane)
    return;
  auto *const peer = peers_.find_any(ops_[index].op.peer);
  TND_ASSERT(peer != nullptr);
  if (peer->lane == lane)
    peers_.lane_drop(std::move(peer->lane));
}

void libfabric_endpoint::check_processes() {
  uint64_t const now_ns = time_.now_ns();
  if (now_ns - processes_checked_ns_ < process_check_ns)
    return;
  processes_checked_ns_ = now_ns;
  for (auto &[id, peer] : peers_.peers()) {
    if (peer.is_dead || peer.process.empty() || (peer.in_flight == 0 && peer.waiting.empty()))
      continue;
    if (shm_name_process(peer.process) == process_state::dead)
      fail_dead_peer(peer);
  }
}

// The dead peer neither accesses memory of this process nor answers. Close the endpoints that wait
// for its answers.
void libfabric_endpoint::fail_dead_peer(libfabric_peer &peer) {
  log(log_level::info,
      "fabric: peer {} has died with {} operations in flight",
      peer.id,
      peer.in_flight);
  TND_ASSERT(!peer.is_dead);
  peer.is_dead = true;
  reap_queue();
  drop_waiting(peer, status::peer_lost);
  peer.lane.reset();
  settle_in_flight(peer.id, status::peer_lost);
}

// rxm detects the end of a connection late (10 ms with tcp) or never (a queue pair in error, with
// verbs), and posts operations to it until then.
void libfabric_endpoint::reconnect_peers() {
  uint64_t const now_ns = time_.now_ns();
  std::erase_if(broken_, [&](seams::fabric_peer id) {
    auto *const peer = peers_.find(id);
    if (peer == nullptr)
      return true;
    bool const may_cut = domain_->ends_on_remove() && now_ns - peer->broken_ns >= flush_ns;
    if (peer->in_flight != 0 && !may_cut)
      return false;
    peer->is_dead = !peers_.reconnect(*peer);
    reap_queue();
    if (may_cut)
      settle_in_flight(id, status::peer_lost);
    return true;
  });
}

// Settles operations that the network will not complete and whose memory it no longer uses.
void libfabric_endpoint::settle_in_flight(seams::fabric_peer peer, status code) {
  for (uint32_t index = 0; index < ops_.depth(); index++) {
    auto const &slot = ops_[index];
    if (is_in_flight(slot) && slot.op.kind != seams::fabric_op_kind::receive &&
        slot.op.peer == peer)
      settle(index, code);
  }
}

void libfabric_endpoint::drop_waiting(libfabric_peer &peer, status code) {
  for (auto const index : std::exchange(peer.waiting, {})) {
    // The unposted rest of a started vector is dropped; its parts in flight complete.
    bool const is_begun = flights_[index].is_partial;
    if (!is_begun || vector_stop(index, code))
      settle(index, code);
  }
  backlog_.erase(peer.id);
}

void libfabric_endpoint::erase_removed() {
  std::erase_if(removed_, [this](seams::fabric_peer id) {
    auto const *const peer = peers_.find_any(id);
    TND_ASSERT(peer != nullptr && peer->removed);
    if (peer->in_flight != 0)
      return false;
    peers_.erase(id);
    return true;
  });
}

}  // namespace tanada::backends
