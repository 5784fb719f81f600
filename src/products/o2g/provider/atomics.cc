// Atomics on memory of peers.

#include <algorithm>

#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

using ioc_parts = std::span<const fi_ioc>;

struct asked_atomic {
  ioc_parts operands, compared, fetched;  // empty: none
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t address = 0, key = 0;
  fi_datatype type = FI_UINT64;
  fi_op operation = FI_SUM;
  uint64_t flags = 0;
  void *context = nullptr;
  bool can_wait = false;
};

// Whoever asks, of one operation, for no more than that it is out of our hands does not wait for
// it.
bool can_wait(uint64_t flags) {
  return (flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) == FI_TRANSMIT_COMPLETE;
}

// Walks over the elements of several parts.
class part_walk {
 public:
  part_walk(ioc_parts parts, size_t element) : parts_{parts}, element_{element} {}
  bool is_none() const {
    return parts_.empty();
  }
  size_t total() const {
    size_t sum = 0;
    for (fi_ioc const &each : parts_)
      sum += each.count;
    return sum;
  }
  // Elements up to the end of this part.
  size_t room() {
    while (at_ < parts_.size() && taken_ == parts_[at_].count) {
      at_++;
      taken_ = 0;
    }
    return at_ < parts_.size() ? parts_[at_].count - taken_ : 0;
  }
  std::span<std::byte> take(size_t count) {
    if (is_none())
      return {};
    auto *const begin = static_cast<std::byte *>(parts_[at_].addr) + taken_ * element_;
    taken_ += count;
    return {begin, count * element_};
  }

 private:
  ioc_parts const parts_;
  size_t const element_;
  size_t at_ = 0, taken_ = 0;
};

// Each element is an atomic of its own, so a vector is said in as many requests as its parts make
// necessary. The last one completes it: requests to one peer are done in order, and whatever a
// former one meets it meets too.
ssize_t apply(fid_ep *id, const asked_atomic &what, bool is_unheard = false) {
  endpoint &from = endpoint::of(id);
  if (from.speaker == nullptr)
    return -FI_EOPBADSTATE;
  if (what.type >= FI_DATATYPE_LAST || size_t(what.operation) >= atomic_operation_count)
    return -FI_EOPNOTSUPP;
  peer_index const to = from.peer_of(what.peer);
  if (to == any_peer)
    return -FI_EINVAL;
  size_t const element = size_of(atomic_type(what.type));
  bool const is_read = what.operation == FI_ATOMIC_READ, fetches = !what.fetched.empty();
  std::array<part_walk, 3> walks{part_walk{is_read ? ioc_parts{} : what.operands, element},
                                 part_walk{what.compared, element},
                                 part_walk{what.fetched, element}};
  size_t const count = walks[is_read ? 2 : 0].total();
  bool const is_even = std::ranges::all_of(
      walks, [&](const part_walk &each) { return each.is_none() || each.total() == count; });
  if (!is_even || count == 0 || count > atomic_size_max / element)
    return -FI_EINVAL;
  bool const wants_entry = !is_unheard && from.tx_wants_entry(what.flags);
  bool const is_counted = (fetches ? from.reads : from.writes) != nullptr;
  for (size_t done = 0; done < count;) {
    size_t some = count - done;
    for (part_walk &each : walks)
      if (!each.is_none())
        some = std::min(some, each.room());
    bool const is_last = done + some == count;
    atomic_request request;
    request.to = to;
    request.type = atomic_type(what.type);
    request.operation = atomic_operation(what.operation);
    request.operands = walks[0].take(some);
    request.compared = walks[1].take(some);
    request.fetched = walks[2].take(some);
    request.remote = {what.address + done * element, some * element, what.key};
    request.inject = is_unheard || (what.flags & FI_INJECT) != 0;
    request.can_wait = what.can_wait;
    request.goes_on = done != 0;
    request.quiet = !is_last || (!wants_entry && !is_counted);
    request.context = what.context;
    request.owner = reinterpret_cast<void *>(!is_last      ? owner_is_part
                                             : wants_entry ? owner_wants_entry
                                                           : 0);
    if (status const posted = from.speaker->post_atomic(request); posted != status::ok)
      return error_of(posted);
    done += some;
  }
  return 0;
}

ssize_t apply_message(fid_ep *id, const fi_msg_atomic *what, ioc_parts compared, ioc_parts fetched,
                      uint64_t flags) {
  if (what->rma_iov_count != 1)
    return -FI_EINVAL;
  return apply(id, {{what->msg_iov, what->iov_count},
                    compared,
                    fetched,
                    what->addr,
                    what->rma_iov[0].addr,
                    what->rma_iov[0].key,
                    what->datatype,
                    what->op,
                    flags,
                    what->context,
                    can_wait(flags)});
}

fi_ioc ioc_of(const void *buffer, size_t count) {
  return {const_cast<void *>(buffer), count};
}

ssize_t atomic_write(fid_ep *id, const void *buffer, size_t count, void *, fi_addr_t to,
                     uint64_t address, uint64_t key, fi_datatype type, fi_op operation,
                     void *context) {
  fi_ioc const operands = ioc_of(buffer, count);
  return apply(id,
               {{&operands, 1}, {}, {}, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_writev(fid_ep *id, const fi_ioc *parts, void **, size_t count, fi_addr_t to,
                      uint64_t address, uint64_t key, fi_datatype type, fi_op operation,
                      void *context) {
  return apply(id,
               {{parts, count}, {}, {}, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_writemsg(fid_ep *id, const fi_msg_atomic *what, uint64_t flags) {
  return apply_message(id, what, {}, {}, flags);
}
ssize_t atomic_inject(fid_ep *id, const void *buffer, size_t count, fi_addr_t to, uint64_t address,
                      uint64_t key, fi_datatype type, fi_op operation) {
  fi_ioc const operands = ioc_of(buffer, count);
  return apply(id, {{&operands, 1}, {}, {}, to, address, key, type, operation, 0, nullptr}, true);
}
ssize_t atomic_readwrite(fid_ep *id, const void *buffer, size_t count, void *, void *into, void *,
                         fi_addr_t to, uint64_t address, uint64_t key, fi_datatype type,
                         fi_op operation, void *context) {
  fi_ioc const operands = ioc_of(buffer, count), fetched = ioc_of(into, count);
  return apply(id, {{&operands, 1},
                    {},
                    {&fetched, 1},
                    to,
                    address,
                    key,
                    type,
                    operation,
                    tx_flags(id),
                    context});
}
ssize_t atomic_readwritev(fid_ep *id, const fi_ioc *parts, void **, size_t count, fi_ioc *into,
                          void **, size_t into_count, fi_addr_t to, uint64_t address, uint64_t key,
                          fi_datatype type, fi_op operation, void *context) {
  return apply(id, {{parts, count},
                    {},
                    {into, into_count},
                    to,
                    address,
                    key,
                    type,
                    operation,
                    tx_flags(id),
                    context});
}
ssize_t atomic_readwritemsg(fid_ep *id, const fi_msg_atomic *what, fi_ioc *into, void **,
                            size_t into_count, uint64_t flags) {
  return apply_message(id, what, {}, {into, into_count}, flags);
}
ssize_t atomic_compwrite(fid_ep *id, const void *buffer, size_t count, void *, const void *compare,
                         void *, void *into, void *, fi_addr_t to, uint64_t address, uint64_t key,
                         fi_datatype type, fi_op operation, void *context) {
  fi_ioc const operands = ioc_of(buffer, count), compared = ioc_of(compare, count),
               fetched = ioc_of(into, count);
  return apply(id, {{&operands, 1},
                    {&compared, 1},
                    {&fetched, 1},
                    to,
                    address,
                    key,
                    type,
                    operation,
                    tx_flags(id),
                    context});
}
ssize_t atomic_compwritev(fid_ep *id, const fi_ioc *parts, void **, size_t count,
                          const fi_ioc *compare, void **, size_t compare_count, fi_ioc *into,
                          void **, size_t into_count, fi_addr_t to, uint64_t address, uint64_t key,
                          fi_datatype type, fi_op operation, void *context) {
  return apply(id, {{parts, count},
                    {compare, compare_count},
                    {into, into_count},
                    to,
                    address,
                    key,
                    type,
                    operation,
                    tx_flags(id),
                    context});
}
ssize_t atomic_compwritemsg(fid_ep *id, const fi_msg_atomic *what, const fi_ioc *compare, void **,
                            size_t compare_count, fi_ioc *into, void **, size_t into_count,
                            uint64_t flags) {
  return apply_message(id, what, {compare, compare_count}, {into, into_count}, flags);
}

int valid(fi_datatype type, fi_op operation, size_t *count, bool compares, bool fetches) {
  if (type >= FI_DATATYPE_LAST || size_t(operation) >= atomic_operation_count)
    return -FI_EOPNOTSUPP;
  auto const what = atomic_operation(operation);
  bool const fits = is_supported(atomic_type(type), what) && needs_compared(what) == compares &&
                    (what != atomic_operation::read || fetches);
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

fi_ops_atomic atomic_ops = {
    sizeof(fi_ops_atomic),     fenced<atomic_write>,        fenced<atomic_writev>,
    fenced<atomic_writemsg>,   fenced<atomic_inject>,       fenced<atomic_readwrite>,
    fenced<atomic_readwritev>, fenced<atomic_readwritemsg>, fenced<atomic_compwrite>,
    fenced<atomic_compwritev>, fenced<atomic_compwritemsg>, fenced<write_valid>,
    fenced<readwrite_valid>,   fenced<compwrite_valid>};

}  // namespace tanada::o2g::provider
