// Atomics on their way to libfabric and back.
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "backends/libfabric/libfabric_queue.hpp"
#include "backends/libfabric/libfabric_status.hpp"

namespace tanada::port {
namespace {

// A complex element is two that are added by themselves: so the providers' complex types, whose two
// parts some of them do not add in one go nor each at once, are not needed.
fi_datatype type_of(fabric_element element) {
  switch (element) {
    case fabric_element::u32: return FI_UINT32;
    case fabric_element::u64: return FI_UINT64;
    case fabric_element::f32:
    case fabric_element::c64: return FI_FLOAT;
    default: return FI_DOUBLE;
  }
}

fi_op operation_of(fabric_atomic atomic) {
  switch (atomic) {
    case fabric_atomic::add: return FI_SUM;
    case fabric_atomic::bit_and: return FI_BAND;
    case fabric_atomic::bit_or: return FI_BOR;
    case fabric_atomic::bit_xor: return FI_BXOR;
    case fabric_atomic::swap: return FI_ATOMIC_WRITE;
    case fabric_atomic::compare_swap: return FI_CSWAP;
    default: return FI_ATOMIC_READ;
  }
}

// A number as an element of its type lies in memory.
void element_store(std::byte *into, fabric_element element, uint64_t value) {
  auto const narrow = uint32_t(value);
  if (element == fabric_element::u32)
    std::memcpy(into, &narrow, sizeof narrow);
  else
    std::memcpy(into, &value, sizeof value);
}

// libfabric has three calls, each with its own limits.
bool takes(fid_ep *endpoint, fi_datatype type, fi_op operation, bool fetches, size_t &count) {
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
      if (!takes(endpoint, type, operation, false, count) ||
          !takes(endpoint, type, operation, true, count))
        return 0;
    }
    if (!takes(endpoint, type, FI_ATOMIC_READ, true, count) ||
        !takes(endpoint, type, FI_CSWAP, true, count))
      return 0;
  }
  for (auto const element :
       {fabric_element::u32, fabric_element::u64, fabric_element::f32, fabric_element::f64}) {
    size_t fetched = 0;
    if (!takes(endpoint, type_of(element), FI_SUM, false, count) ||
        !takes(endpoint, type_of(element), FI_SUM, true, fetched))
      return 0;
    count = std::min(count, fetched);
    size = std::min(size, count * fabric_element_size(element));
  }
  return size / 8 * 8;
}

ssize_t libfabric_endpoint::hand_over_atomic(fid_ep *endpoint, uint32_t index,
                                             libfabric_peer &peer) {
  return fabric_is_vector(ops_[index].op) ? hand_over_vector(endpoint, index, peer)
                                          : hand_over_element(endpoint, index, peer);
}

ssize_t libfabric_endpoint::hand_over_element(fid_ep *endpoint, uint32_t index,
                                              libfabric_peer &peer) {
  auto const &op = ops_[index].op;
  auto &context = context_of(index);
  element_store(context.operand, op.element, op.operand);
  element_store(context.compare, op.element, op.compare);
  void *descriptor = contexts_region_ ? fi_mr_desc(contexts_region_.get()) : nullptr;
  fi_ioc operand{context.operand, 1}, compare{context.compare, 1}, result{context.result, 1};
  fi_rma_ioc remote{op.remote.base + op.offset, 1, op.remote.key};
  fi_msg_atomic message{};
  message.msg_iov = &operand;
  message.desc = &descriptor;
  message.iov_count = op.atomic == fabric_atomic::fetch
                          ? 0
                          : 1;  // rxm 1.17 copies what it is shown, with a fetch from anywhere
  message.addr = peer.address;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.datatype = type_of(op.element);
  message.op = operation_of(op.atomic);
  message.context = &context;
  if (op.atomic == fabric_atomic::compare_swap) {
    return fi_compare_atomicmsg(endpoint, &message, &compare, &descriptor, 1, &result, &descriptor,
                                1, FI_COMPLETION);
  }
  if (fabric_fetches(op) || domain_->atomics_must_fetch())
    return fi_fetch_atomicmsg(endpoint, &message, &result, &descriptor, 1, FI_COMPLETION);
  // o2g alone makes use of it.
  bool const can_wait = op.can_wait && domain_->queue_wait() != nullptr;
  return fi_atomicmsg(
      endpoint, &message,
      FI_COMPLETION | (can_wait ? uint64_t(FI_TRANSMIT_COMPLETE) : domain_->write_flags()));
}

// What was there before, once the operation has succeeded.
uint64_t libfabric_endpoint::value_of(uint32_t index) {
  auto const &op = ops_[index].op;
  if (!fabric_fetches(op))
    return 0;
  auto const &result = context_of(index).result;
  if (op.element == fabric_element::u32) {
    uint32_t narrow = 0;
    std::memcpy(&narrow, result, sizeof narrow);
    return narrow;
  }
  uint64_t value = 0;
  std::memcpy(&value, result, sizeof value);
  return value;
}

// 0: all of it is under way. -FI_EAGAIN: a part, or nothing. Else why the rest will not be.
ssize_t libfabric_endpoint::hand_over_vector(fid_ep *endpoint, uint32_t index,
                                             libfabric_peer &peer) {
  auto const &op = ops_[index].op;
  auto &mine = flights_[index];
  size_t const unit = fabric_element_alignment(op.element);
  while (mine.handed < op.size) {
    auto *const part = parts_.next();
    if (part == nullptr)
      return -FI_EAGAIN;
    size_t const size = std::min(op.size - mine.handed, vector_size_max_);
    fi_ioc operands{op.addr + mine.handed, size / unit};
    fi_rma_ioc remote{op.remote.base + op.offset + mine.handed, size / unit, op.remote.key};
    fi_msg_atomic message{};
    message.msg_iov = &operands;
    message.desc = &mine.held.descriptor;
    message.iov_count = 1;
    message.addr = peer.address;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
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
    mine.parts_out++;
    mine.handed += size;
  }
  return 0;
}

// False: some of it must wait, or all; it is at the head of its peer's queue, or the caller puts it
// there.
bool libfabric_endpoint::submit_vector(uint32_t index, libfabric_peer &peer) {
  auto &slot = ops_[index];
  auto &mine = flights_[index];
  ssize_t const code = hand_over_transfer(index, peer);
  if (mine.handed != 0 && slot.state == fabric_slot_state::queued) {
    slot.state = fabric_slot_state::posted;
    peer.in_flight++;
  }
  mine.is_partial = code == -FI_EAGAIN && mine.handed != 0;
  if (code == -FI_EAGAIN)
    return false;
  if (code != 0)
    mine.failed = libfabric_status(int(-code));
  if (mine.failed == status::peer_lost)
    connection_lost(peer);
  if (mine.parts_out == 0)
    settle(index, mine.failed, slot.op.size);
  return true;
}

void libfabric_endpoint::part_settle(libfabric_part &part, status code) {
  uint32_t const index = parts_.settle(part);
  if (index == fabric_op_table::no_slot)
    return;
  auto &mine = flights_[index];
  mine.parts_out--;
  if (code != status::ok)
    (void)vector_stop(index, code);
  if (mine.parts_out == 0 && !mine.is_partial)
    settle(index, mine.failed, ops_[index].op.size);
}

// Nothing more of it is handed over. True: nothing of it is out.
bool libfabric_endpoint::vector_stop(uint32_t index, status code) {
  auto &mine = flights_[index];
  if (mine.failed == status::ok)
    mine.failed = code;
  if (std::exchange(mine.is_partial, false))
    std::erase(waiting_of(ops_[index].op), index);
  return mine.parts_out == 0;
}

// It settles while parts are out, of a connection that has ended.
void libfabric_endpoint::parts_forget(uint32_t index) {
  if (!vector_stop(index, status::peer_lost))
    parts_.forget(index);
}

}  // namespace tanada::port
