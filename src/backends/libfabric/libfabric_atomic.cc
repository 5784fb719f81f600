// backends/libfabric/libfabric_atomic.cc: posts atomics to libfabric and completes vectors of them.
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "backends/libfabric/libfabric_queue.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "core/base/assert.hpp"

namespace tanada::backends {
namespace {

// A complex element is added as two real elements. Some providers add a complex element neither
// atomically as a whole nor part by part, so their complex types are not used.
fi_datatype type_of(seams::fabric_element element) {
  switch (element) {
    case seams::fabric_element::u32:
      return FI_UINT32;
    case seams::fabric_element::u64:
      return FI_UINT64;
    case seams::fabric_element::f32:
    case seams::fabric_element::c64:
      return FI_FLOAT;
    default:
      return FI_DOUBLE;
  }
}

fi_op operation_of(seams::fabric_atomic atomic) {
  switch (atomic) {
    case seams::fabric_atomic::add:
      return FI_SUM;
    case seams::fabric_atomic::bit_and:
      return FI_BAND;
    case seams::fabric_atomic::bit_or:
      return FI_BOR;
    case seams::fabric_atomic::bit_xor:
      return FI_BXOR;
    case seams::fabric_atomic::swap:
      return FI_ATOMIC_WRITE;
    case seams::fabric_atomic::compare_swap:
      return FI_CSWAP;
    default:
      return FI_ATOMIC_READ;
  }
}

// Stores a number in memory as an element of its type.
void element_store(std::byte *target, seams::fabric_element element, uint64_t value) {
  auto const narrow = uint32_t(value);
  if (element == seams::fabric_element::u32)
    std::memcpy(target, &narrow, sizeof narrow);
  else
    std::memcpy(target, &value, sizeof value);
}

// The message of an atomic; `operands`, `descriptor` and `remote` must outlive it.
struct atomic_message {
  fi_ioc operands;
  void *descriptor;
  fi_rma_ioc remote;
  fi_msg_atomic message{};

  atomic_message(const fi_ioc &operands_, void *descriptor_, const fi_rma_ioc &remote_)
      : operands{operands_}, descriptor{descriptor_}, remote{remote_} {
    TND_ASSERT(operands.count == remote.count);
    message.msg_iov = &operands;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
  }
  atomic_message(const atomic_message &) = delete;
  atomic_message &operator=(const atomic_message &) = delete;
};

void operands_store(libfabric_context &context, const seams::fabric_op &op) {
  element_store(context.operand, op.element, op.operand);
  element_store(context.compare, op.element, op.compare);
}

// Only o2g makes use of FI_TRANSMIT_COMPLETE.
uint64_t element_flags(const libfabric_domain &domain, const seams::fabric_op &op) {
  bool const can_wait = op.may_delay && domain.queue_wait() != nullptr;
  return can_wait ? uint64_t(FI_TRANSMIT_COMPLETE) : domain.write_flags();
}

// libfabric has three calls, each with its own limits.
bool supports_atomic(
    fid_ep *endpoint, fi_datatype type, fi_op operation, bool fetches, size_t &count) {
  if (operation == FI_CSWAP)
    return fi_compare_atomicvalid(endpoint, type, operation, &count) == 0 && count != 0;
  if (fetches)
    return fi_fetch_atomicvalid(endpoint, type, operation, &count) == 0 && count != 0;
  return fi_atomicvalid(endpoint, type, operation, &count) == 0 && count != 0;
}

}  // namespace

size_t libfabric_vector_size_max(fid_ep *endpoint) {
  size_t size = ~size_t{0}, count = 0;
  for (auto const type : {FI_UINT32, FI_UINT64}) {
    for (auto const operation : {FI_SUM, FI_BAND, FI_BOR, FI_BXOR, FI_ATOMIC_WRITE}) {
      if (!supports_atomic(endpoint, type, operation, false, count) ||
          !supports_atomic(endpoint, type, operation, true, count))
        return 0;
    }
    if (!supports_atomic(endpoint, type, FI_ATOMIC_READ, true, count) ||
        !supports_atomic(endpoint, type, FI_CSWAP, true, count))
      return 0;
  }
  for (auto const element : {seams::fabric_element::u32,
                             seams::fabric_element::u64,
                             seams::fabric_element::f32,
                             seams::fabric_element::f64}) {
    size_t fetched = 0;
    if (!supports_atomic(endpoint, type_of(element), FI_SUM, false, count) ||
        !supports_atomic(endpoint, type_of(element), FI_SUM, true, fetched))
      return 0;
    count = std::min(count, fetched);
    size = std::min(size, count * seams::fabric_element_size(element));
  }
  return size / 8 * 8;
}

ssize_t libfabric_endpoint::post_atomic(fid_ep *endpoint, uint32_t index, libfabric_peer &peer) {
  return seams::fabric_is_vector(ops_[index].op) ? post_vector(endpoint, index, peer)
                                                 : post_element(endpoint, index, peer);
}

ssize_t libfabric_endpoint::post_element(fid_ep *endpoint, uint32_t index, libfabric_peer &peer) {
  auto const &op = ops_[index].op;
  TND_ASSERT(seams::fabric_is_element(op));
  auto &context = context_of(index);
  operands_store(context, op);
  void *descriptor = contexts_region_ ? fi_mr_desc(contexts_region_.get()) : nullptr;
  fi_ioc compare{context.compare, 1};
  fi_ioc result{context.result, 1};
  atomic_message request{
      {context.operand, 1}, descriptor, {op.remote.base + op.offset, 1, op.remote.key}};
  auto &message = request.message;
  // rxm 1.17 copies the operand of a fetch, too, from any address.
  if (op.atomic == seams::fabric_atomic::fetch)
    message.iov_count = 0;
  message.addr = peer.address;
  message.datatype = type_of(op.element);
  message.op = operation_of(op.atomic);
  message.context = &context;
  if (op.atomic == seams::fabric_atomic::compare_swap) {
    return fi_compare_atomicmsg(
        endpoint, &message, &compare, &descriptor, 1, &result, &descriptor, 1, FI_COMPLETION);
  }
  if (seams::fabric_fetches(op) || domain_->atomics_must_fetch())
    return fi_fetch_atomicmsg(endpoint, &message, &result, &descriptor, 1, FI_COMPLETION);
  return fi_atomicmsg(endpoint, &message, FI_COMPLETION | element_flags(*domain_, op));
}

// The value before the operation, after the operation has succeeded.
uint64_t libfabric_endpoint::value_of(uint32_t index) {
  auto const &op = ops_[index].op;
  if (!seams::fabric_fetches(op))
    return 0;
  auto const &result = context_of(index).result;
  if (op.element == seams::fabric_element::u32) {
    uint32_t narrow = 0;
    std::memcpy(&narrow, result, sizeof narrow);
    return narrow;
  }
  uint64_t value = 0;
  std::memcpy(&value, result, sizeof value);
  return value;
}

// Returns 0 if all of the vector is in flight, -FI_EAGAIN if only a part or nothing is, and
// otherwise the error that stops the rest.
ssize_t libfabric_endpoint::post_vector(fid_ep *endpoint, uint32_t index, libfabric_peer &peer) {
  auto const &op = ops_[index].op;
  auto &state = flights_[index];
  size_t const unit = seams::fabric_element_alignment(op.element);
  while (state.posted_size < op.size) {
    auto *const part = parts_.next();
    if (part == nullptr)
      return -FI_EAGAIN;
    size_t const size = std::min(op.size - state.posted_size, vector_size_max_);
    TND_ASSERT(size != 0 && size % unit == 0);
    uint64_t const remote_addr = op.remote.base + op.offset + state.posted_size;
    atomic_message request{{op.addr + state.posted_size, size / unit},
                           state.held.descriptor,
                           {remote_addr, size / unit, op.remote.key}};
    auto &message = request.message;
    message.addr = peer.address;
    message.datatype = type_of(op.element);
    message.op = FI_SUM;
    message.context = part;
    fi_ioc result{discarded_.get(), size / unit};
    ssize_t const code =
        discarded_ ? fi_fetch_atomicmsg(endpoint, &message, &result, nullptr, 1, FI_COMPLETION)
                   : fi_atomicmsg(endpoint, &message, FI_COMPLETION | domain_->write_flags());
    if (code != 0)
      return code;
    parts_.take(index);
    state.parts_in_flight++;
    state.posted_size += size;
  }
  return 0;
}

// Returns false if part of the vector must wait. The vector is then at the head of its peer's
// queue, or the caller queues it.
bool libfabric_endpoint::submit_vector(uint32_t index, libfabric_peer &peer) {
  auto &slot = ops_[index];
  auto &state = flights_[index];
  TND_ASSERT(seams::fabric_is_vector(slot.op));
  ssize_t const code = post_transfer(index, peer);
  if (state.posted_size != 0 && slot.state == seams::fabric_slot_state::queued) {
    slot.state = seams::fabric_slot_state::posted;
    peer.in_flight++;
  }
  state.is_partial = code == -FI_EAGAIN && state.posted_size != 0;
  if (code == -FI_EAGAIN)
    return false;
  if (code != 0)
    state.error = libfabric_status(int(-code));
  if (state.error == status::peer_lost)
    mark_broken(peer);
  if (state.parts_in_flight == 0)
    settle(index, state.error, slot.op.size);
  return true;
}

void libfabric_endpoint::part_settle(libfabric_part &part, status code) {
  uint32_t const index = parts_.settle(part);
  if (index == seams::fabric_op_table::no_slot)
    return;
  auto &state = flights_[index];
  TND_ASSERT(state.parts_in_flight != 0);
  state.parts_in_flight--;
  if (code != status::ok)
    (void)vector_stop(index, code);
  if (state.parts_in_flight == 0 && !state.is_partial)
    settle(index, state.error, ops_[index].op.size);
}

// Posts no more parts of the vector. Returns true if none of its parts is in flight.
bool libfabric_endpoint::vector_stop(uint32_t index, status code) {
  auto &state = flights_[index];
  if (state.error == status::ok)
    state.error = code;
  if (std::exchange(state.is_partial, false))
    std::erase(waiting_queue(ops_[index].op), index);
  return state.parts_in_flight == 0;
}

// Called when an operation settles while parts are in flight, because its connection has ended.
void libfabric_endpoint::orphan_parts(uint32_t index) {
  if (!vector_stop(index, status::peer_lost))
    parts_.orphan(index);
}

}  // namespace tanada::backends
