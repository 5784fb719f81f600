// Atomic operations on the memory of peers (fi_atomic).

#include <algorithm>

#include "core/base/assert.hpp"
#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

using ioc_parts = std::span<const fi_ioc>;

// The engine's numbers are those of libfabric.
static_assert(size_t(atomic_type::u64) == FI_UINT64 &&
              size_t(atomic_type::f_long_complex) == FI_LONG_DOUBLE_COMPLEX);
static_assert(size_t(atomic_operation::sum) == FI_SUM &&
              size_t(atomic_operation::read) == FI_ATOMIC_READ &&
              size_t(atomic_operation::masked_swap) == FI_MSWAP);

struct atomic_call {
  ioc_parts operands, compared, fetched;  // empty: not used by the operation
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t address = 0, key = 0;
  fi_datatype type = FI_UINT64;
  fi_op operation = FI_SUM;
  uint64_t flags = 0;
  void *context = nullptr;
  bool is_ack_batched = false;
};

// A caller that requests only transmit completion does not wait for the operation, so its ACK may
// be batched.
bool can_batch_ack(uint64_t flags) {
  return (flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) == FI_TRANSMIT_COMPLETE;
}

// Iterates over the elements of several parts.
class part_cursor {
 public:
  part_cursor(ioc_parts parts, size_t element) : parts_{parts}, element_{element} {}
  bool is_empty() const {
    return parts_.empty();
  }
  size_t total() const {
    size_t sum = 0;
    for (fi_ioc const &part : parts_)
      sum += part.count;
    return sum;
  }
  // Elements left in the current part.
  size_t remaining_count() {
    while (part_index_ < parts_.size() && taken_count_ == parts_[part_index_].count) {
      part_index_++;
      taken_count_ = 0;
    }
    return part_index_ < parts_.size() ? parts_[part_index_].count - taken_count_ : 0;
  }
  std::span<std::byte> take(size_t count) {
    if (is_empty())
      return {};
    TND_ASSERT(part_index_ < parts_.size());
    TND_ASSERT(count <= parts_[part_index_].count - taken_count_);
    auto *const begin =
        static_cast<std::byte *>(parts_[part_index_].addr) + taken_count_ * element_;
    taken_count_ += count;
    return {begin, count * element_};
  }

 private:
  ioc_parts const parts_;
  size_t const element_;
  size_t part_index_ = 0, taken_count_ = 0;
};

// Walks over the elements of a call's operands, compared values and results together.
class operand_walk {
 public:
  operand_walk(const atomic_call &call, size_t element)
      : operands_{call.operation == FI_ATOMIC_READ ? ioc_parts{} : call.operands, element},
        compared_{call.compared, element},
        fetched_{call.fetched, element},
        count_{call.operation == FI_ATOMIC_READ ? fetched_.total() : operands_.total()} {}
  size_t count() const {
    return count_;
  }
  // Whether all vectors that the operation uses have count() elements.
  bool has_equal_counts() const {
    return is_unused_or_full(operands_) && is_unused_or_full(compared_) &&
           is_unused_or_full(fetched_);
  }
  bool is_done() const {
    return done_count_ == count_;
  }
  size_t done_count() const {
    return done_count_;
  }
  // Sets the memory of the next request: the elements up to the next end of a part.
  size_t take_step(atomic_request &request) {
    size_t step_count = count_ - done_count_;
    for (part_cursor *const cursor : {&operands_, &compared_, &fetched_})
      if (!cursor->is_empty())
        step_count = std::min(step_count, cursor->remaining_count());
    TND_ASSERT(step_count != 0);
    request.operands = operands_.take(step_count);
    request.compared = compared_.take(step_count);
    request.fetched = fetched_.take(step_count);
    done_count_ += step_count;
    return step_count;
  }

 private:
  bool is_unused_or_full(const part_cursor &cursor) const {
    return cursor.is_empty() || cursor.total() == count_;
  }

  part_cursor operands_, compared_, fetched_;
  size_t const count_;
  size_t done_count_ = 0;
};

// Each element is a separate atomic, so a vector may be split into several requests at part
// boundaries. The last request reports the completion: requests to one peer are handled in order,
// and a failure of an earlier one also affects the last. `common`: what all requests share.
status post_steps(endpoint &origin,
                  const atomic_call &call,
                  operand_walk &walk,
                  const atomic_request &common,
                  bool wants_entry) {
  bool const is_counted = (call.fetched.empty() ? origin.writes : origin.reads) != nullptr;
  uintptr_t const last_owner = wants_entry ? owner_wants_entry : 0;
  size_t const element = size_of(common.type);
  while (!walk.is_done()) {
    atomic_request request = common;
    size_t const first = walk.done_count();
    size_t const step_count = walk.take_step(request);
    bool const is_last = walk.is_done();
    request.remote = {call.address + first * element, step_count * element, call.key};
    request.is_continuation = first != 0;
    request.errors_only = !is_last || (!wants_entry && !is_counted);
    request.owner = reinterpret_cast<void *>(is_last ? last_owner : owner_is_part);
    TND_TRY(origin.o2g_engine->post_atomic(request));
  }
  return status::ok;
}

ssize_t apply(fid_ep *id, const atomic_call &call, bool is_injected = false) {
  endpoint &origin = endpoint::from_fid(id);
  if (origin.o2g_engine == nullptr)
    return -FI_EOPBADSTATE;
  if (call.type >= FI_DATATYPE_LAST || size_t(call.operation) >= atomic_operation_count)
    return -FI_EOPNOTSUPP;
  peer_index const target = origin.peer_of(call.peer);
  if (target == any_peer)
    return -FI_EINVAL;
  size_t const element = size_of(atomic_type(call.type));
  operand_walk walk{call, element};
  if (!walk.has_equal_counts() || walk.count() == 0 || walk.count() > atomic_size_max / element)
    return -FI_EINVAL;
  atomic_request common;
  common.target = target;
  common.type = atomic_type(call.type);
  common.operation = atomic_operation(call.operation);
  common.inject = is_injected || (call.flags & FI_INJECT) != 0;
  common.can_delay_ack = call.is_ack_batched;
  common.context = call.context;
  bool const wants_entry = !is_injected && origin.tx_wants_entry(call.flags);
  return error_of(post_steps(origin, call, walk, common, wants_entry));
}

ssize_t apply_message(fid_ep *id,
                      const fi_msg_atomic *message,
                      ioc_parts compared,
                      ioc_parts fetched,
                      uint64_t flags) {
  if (message->rma_iov_count != 1)
    return -FI_EINVAL;
  return apply(id,
               {{message->msg_iov, message->iov_count},
                compared,
                fetched,
                message->addr,
                message->rma_iov[0].addr,
                message->rma_iov[0].key,
                message->datatype,
                message->op,
                flags,
                message->context,
                can_batch_ack(flags)});
}

fi_ioc make_ioc(const void *buffer, size_t count) {
  return {const_cast<void *>(buffer), count};
}

ssize_t atomic_write(fid_ep *id,
                     const void *buffer,
                     size_t count,
                     void *,
                     fi_addr_t target,
                     uint64_t address,
                     uint64_t key,
                     fi_datatype type,
                     fi_op operation,
                     void *context) {
  fi_ioc const operands = make_ioc(buffer, count);
  return apply(
      id, {{&operands, 1}, {}, {}, target, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_writev(fid_ep *id,
                      const fi_ioc *parts,
                      void **,
                      size_t count,
                      fi_addr_t target,
                      uint64_t address,
                      uint64_t key,
                      fi_datatype type,
                      fi_op operation,
                      void *context) {
  return apply(
      id, {{parts, count}, {}, {}, target, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_writemsg(fid_ep *id, const fi_msg_atomic *message, uint64_t flags) {
  return apply_message(id, message, {}, {}, flags);
}
ssize_t atomic_inject(fid_ep *id,
                      const void *buffer,
                      size_t count,
                      fi_addr_t target,
                      uint64_t address,
                      uint64_t key,
                      fi_datatype type,
                      fi_op operation) {
  fi_ioc const operands = make_ioc(buffer, count);
  return apply(
      id, {{&operands, 1}, {}, {}, target, address, key, type, operation, 0, nullptr}, true);
}
ssize_t atomic_readwrite(fid_ep *id,
                         const void *buffer,
                         size_t count,
                         void *,
                         void *result,
                         void *,
                         fi_addr_t target,
                         uint64_t address,
                         uint64_t key,
                         fi_datatype type,
                         fi_op operation,
                         void *context) {
  fi_ioc const operands = make_ioc(buffer, count), fetched = make_ioc(result, count);
  return apply(id,
               {{&operands, 1},
                {},
                {&fetched, 1},
                target,
                address,
                key,
                type,
                operation,
                tx_flags(id),
                context});
}
ssize_t atomic_readwritev(fid_ep *id,
                          const fi_ioc *parts,
                          void **,
                          size_t count,
                          fi_ioc *result,
                          void **,
                          size_t result_count,
                          fi_addr_t target,
                          uint64_t address,
                          uint64_t key,
                          fi_datatype type,
                          fi_op operation,
                          void *context) {
  return apply(id,
               {{parts, count},
                {},
                {result, result_count},
                target,
                address,
                key,
                type,
                operation,
                tx_flags(id),
                context});
}
ssize_t atomic_readwritemsg(fid_ep *id,
                            const fi_msg_atomic *message,
                            fi_ioc *result,
                            void **,
                            size_t result_count,
                            uint64_t flags) {
  return apply_message(id, message, {}, {result, result_count}, flags);
}
ssize_t atomic_compwrite(fid_ep *id,
                         const void *buffer,
                         size_t count,
                         void *,
                         const void *compare,
                         void *,
                         void *result,
                         void *,
                         fi_addr_t target,
                         uint64_t address,
                         uint64_t key,
                         fi_datatype type,
                         fi_op operation,
                         void *context) {
  fi_ioc const operands = make_ioc(buffer, count), compared = make_ioc(compare, count),
               fetched = make_ioc(result, count);
  return apply(id,
               {{&operands, 1},
                {&compared, 1},
                {&fetched, 1},
                target,
                address,
                key,
                type,
                operation,
                tx_flags(id),
                context});
}
ssize_t atomic_compwritev(fid_ep *id,
                          const fi_ioc *parts,
                          void **,
                          size_t count,
                          const fi_ioc *compare,
                          void **,
                          size_t compare_count,
                          fi_ioc *result,
                          void **,
                          size_t result_count,
                          fi_addr_t target,
                          uint64_t address,
                          uint64_t key,
                          fi_datatype type,
                          fi_op operation,
                          void *context) {
  return apply(id,
               {{parts, count},
                {compare, compare_count},
                {result, result_count},
                target,
                address,
                key,
                type,
                operation,
                tx_flags(id),
                context});
}
ssize_t atomic_compwritemsg(fid_ep *id,
                            const fi_msg_atomic *message,
                            const fi_ioc *compare,
                            void **,
                            size_t compare_count,
                            fi_ioc *result,
                            void **,
                            size_t result_count,
                            uint64_t flags) {
  return apply_message(id, message, {compare, compare_count}, {result, result_count}, flags);
}

int valid(fi_datatype type, fi_op operation, size_t *count, bool compares, bool fetches) {
  if (type >= FI_DATATYPE_LAST || size_t(operation) >= atomic_operation_count)
    return -FI_EOPNOTSUPP;
  auto const atomic_op = atomic_operation(operation);
  bool const fits = is_supported(atomic_type(type), atomic_op) &&
                    needs_compared(atomic_op) == compares &&
                    (atomic_op != atomic_operation::read || fetches);
  if (!fits)
    return -FI_EOPNOTSUPP;
  *count = atomic_size_max / size_of(atomic_type(type));
  return 0;
}
int write_valid(fid_ep *, fi_datatype type, fi_op operation, size_t *count) {
  return valid(type, operation, count, false, false);
}
int readwrite_valid(fid_ep *, fi_datatype type, fi_op operation, size_t *count) {
  return valid(type, operation, count, false, true);
}
int compwrite_valid(fid_ep *, fi_datatype type, fi_op operation, size_t *count) {
  return valid(type, operation, count, true, true);
}

}  // namespace

fi_ops_atomic atomic_ops = {sizeof(fi_ops_atomic),
                            no_throw<atomic_write>,
                            no_throw<atomic_writev>,
                            no_throw<atomic_writemsg>,
                            no_throw<atomic_inject>,
                            no_throw<atomic_readwrite>,
                            no_throw<atomic_readwritev>,
                            no_throw<atomic_readwritemsg>,
                            no_throw<atomic_compwrite>,
                            no_throw<atomic_compwritev>,
                            no_throw<atomic_compwritemsg>,
                            no_throw<write_valid>,
                            no_throw<readwrite_valid>,
                            no_throw<compwrite_valid>};

}  // namespace tanada::o2g::provider
