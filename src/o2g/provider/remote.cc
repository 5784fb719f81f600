// One-sided transfers and atomics.

#include <sys/uio.h>

#include <vector>

#include "o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

struct asked {
  std::span<const iovec> parts;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t address = 0, key = 0, data = 0, flags = 0;
  void *context = nullptr;
};

iovec part_of(const void *buffer, size_t size) { return {const_cast<void *>(buffer), size}; }
uint64_t tx_flags(fid_ep *id) { return endpoint::of(id).tx_flags; }

ssize_t transfer(fid_ep *id, const asked &what, bool is_put, bool is_unheard = false) {
  endpoint &from = endpoint::of(id);
  if (from.speaker == nullptr) return -FI_EOPBADSTATE;
  peer_index const to = from.peer_of(what.peer);
  if (to == any_peer) return -FI_EINVAL;
  bool const wants_entry = !is_unheard && (!from.tx_selective || (what.flags & FI_COMPLETION) != 0);
  remote_request request;
  request.to = to;
  request.parts = what.parts;
  request.remote = {what.address, size_of(what.parts), what.key};
  request.data = what.data;
  request.has_data = (what.flags & FI_REMOTE_CQ_DATA) != 0;
  request.inject = is_unheard || (what.flags & FI_INJECT) != 0;
  request.quiet = !wants_entry && (is_put ? from.writes : from.reads) == nullptr;
  request.context = what.context;
  request.owner = reinterpret_cast<void *>(wants_entry ? owner_wants_entry : 0);
  return error_of(is_put ? from.speaker->post_put(request) : from.speaker->post_get(request));
}

ssize_t rma_read(fid_ep *id, void *buffer, size_t size, void *, fi_addr_t from, uint64_t address, uint64_t key, void *context) {
  iovec const part = part_of(buffer, size);
  return transfer(id, {{&part, 1}, from, address, key, 0, tx_flags(id), context}, false);
}
ssize_t rma_readv(fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t from, uint64_t address, uint64_t key,
                  void *context) {
  return transfer(id, {{parts, count}, from, address, key, 0, tx_flags(id), context}, false);
}
ssize_t rma_readmsg(fid_ep *id, const fi_msg_rma *what, uint64_t flags) {
  if (what->rma_iov_count != 1) return -FI_EINVAL;
  return transfer(id, {{what->msg_iov, what->iov_count}, what->addr, what->rma_iov[0].addr, what->rma_iov[0].key, 0, flags,
                       what->context}, false);
}
ssize_t rma_write(fid_ep *id, const void *buffer, size_t size, void *, fi_addr_t to, uint64_t address, uint64_t key,
                  void *context) {
  iovec const part = part_of(buffer, size);
  return transfer(id, {{&part, 1}, to, address, key, 0, tx_flags(id), context}, true);
}
ssize_t rma_writev(fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t to, uint64_t address, uint64_t key,
                   void *context) {
  return transfer(id, {{parts, count}, to, address, key, 0, tx_flags(id), context}, true);
}
ssize_t rma_writemsg(fid_ep *id, const fi_msg_rma *what, uint64_t flags) {
  if (what->rma_iov_count != 1) return -FI_EINVAL;
  return transfer(id, {{what->msg_iov, what->iov_count}, what->addr, what->rma_iov[0].addr, what->rma_iov[0].key, what->data,
                       flags, what->context}, true);
}
ssize_t rma_inject(fid_ep *id, const void *buffer, size_t size, fi_addr_t to, uint64_t address, uint64_t key) {
  iovec const part = part_of(buffer, size);
  return transfer(id, {{&part, 1}, to, address, key, 0, 0, nullptr}, true, true);
}
ssize_t rma_writedata(fid_ep *id, const void *buffer, size_t size, void *, uint64_t data, fi_addr_t to, uint64_t address,
                      uint64_t key, void *context) {
  iovec const part = part_of(buffer, size);
  return transfer(id, {{&part, 1}, to, address, key, data, tx_flags(id) | FI_REMOTE_CQ_DATA, context}, true);
}
ssize_t rma_injectdata(fid_ep *id, const void *buffer, size_t size, uint64_t data, fi_addr_t to, uint64_t address, uint64_t key) {
  iovec const part = part_of(buffer, size);
  return transfer(id, {{&part, 1}, to, address, key, data, FI_REMOTE_CQ_DATA, nullptr}, true, true);
}

// Atomics come in one part: what libfabric calls iov_limit of atomics is 1 here.
struct asked_atomic {
  const fi_ioc *operands = nullptr;  // null: none, as for a read
  const fi_ioc *compared = nullptr;
  const fi_ioc *fetched = nullptr;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t address = 0, key = 0;
  fi_datatype type = FI_UINT64;
  fi_op operation = FI_SUM;
  uint64_t flags = 0;
  void *context = nullptr;
};

ssize_t apply(fid_ep *id, const asked_atomic &what, bool is_unheard = false) {
  endpoint &from = endpoint::of(id);
  if (from.speaker == nullptr) return -FI_EOPBADSTATE;
  if (what.type >= FI_DATATYPE_LAST || size_t(what.operation) >= atomic_operation_count) return -FI_EOPNOTSUPP;
  peer_index const to = from.peer_of(what.peer);
  if (to == any_peer) return -FI_EINVAL;
  size_t const element = size_of(atomic_type(what.type));
  bool const is_read = what.operation == FI_ATOMIC_READ;
  size_t const size = (is_read ? what.fetched : what.operands)->count * element;
  bool const wants_entry = !is_unheard && (!from.tx_selective || (what.flags & FI_COMPLETION) != 0);
  bool const fetches = what.fetched != nullptr;
  atomic_request request;
  request.to = to;
  request.type = atomic_type(what.type);
  request.operation = atomic_operation(what.operation);
  if (!is_read) request.operands = {static_cast<const std::byte *>(what.operands->addr), size};
  if (what.compared != nullptr) request.compared = {static_cast<const std::byte *>(what.compared->addr), what.compared->count * element};
  if (fetches) request.fetched = {static_cast<std::byte *>(what.fetched->addr), what.fetched->count * element};
  request.remote = {what.address, size, what.key};
  request.inject = is_unheard || (what.flags & FI_INJECT) != 0;
  request.quiet = !wants_entry && (fetches ? from.reads : from.writes) == nullptr;
  request.context = what.context;
  request.owner = reinterpret_cast<void *>(wants_entry ? owner_wants_entry : 0);
  return error_of(from.speaker->post_atomic(request));
}

fi_ioc ioc_of(const void *buffer, size_t count) { return {const_cast<void *>(buffer), count}; }

ssize_t atomic_write(fid_ep *id, const void *buffer, size_t count, void *, fi_addr_t to, uint64_t address, uint64_t key,
                     fi_datatype type, fi_op operation, void *context) {
  fi_ioc const operands = ioc_of(buffer, count);
  return apply(id, {&operands, nullptr, nullptr, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_writev(fid_ep *id, const fi_ioc *parts, void **, size_t count, fi_addr_t to, uint64_t address, uint64_t key,
                      fi_datatype type, fi_op operation, void *context) {
  if (count != 1) return -FI_EINVAL;
  return apply(id, {parts, nullptr, nullptr, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_writemsg(fid_ep *id, const fi_msg_atomic *what, uint64_t flags) {
  if (what->iov_count != 1 || what->rma_iov_count != 1) return -FI_EINVAL;
  return apply(id, {what->msg_iov, nullptr, nullptr, what->addr, what->rma_iov[0].addr, what->rma_iov[0].key, what->datatype,
                    what->op, flags, what->context});
}
ssize_t atomic_inject(fid_ep *id, const void *buffer, size_t count, fi_addr_t to, uint64_t address, uint64_t key,
                      fi_datatype type, fi_op operation) {
  fi_ioc const operands = ioc_of(buffer, count);
  return apply(id, {&operands, nullptr, nullptr, to, address, key, type, operation, 0, nullptr}, true);
}
ssize_t atomic_readwrite(fid_ep *id, const void *buffer, size_t count, void *, void *into, void *, fi_addr_t to,
                         uint64_t address, uint64_t key, fi_datatype type, fi_op operation, void *context) {
  fi_ioc const operands = ioc_of(buffer, count), fetched = ioc_of(into, count);
  return apply(id, {&operands, nullptr, &fetched, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_readwritev(fid_ep *id, const fi_ioc *parts, void **, size_t count, fi_ioc *into, void **, size_t into_count,
                          fi_addr_t to, uint64_t address, uint64_t key, fi_datatype type, fi_op operation, void *context) {
  if (count > 1 || into_count != 1) return -FI_EINVAL;
  return apply(id, {parts, nullptr, into, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_readwritemsg(fid_ep *id, const fi_msg_atomic *what, fi_ioc *into, void **, size_t into_count, uint64_t flags) {
  if (what->iov_count > 1 || what->rma_iov_count != 1 || into_count != 1) return -FI_EINVAL;
  return apply(id, {what->msg_iov, nullptr, into, what->addr, what->rma_iov[0].addr, what->rma_iov[0].key, what->datatype,
                    what->op, flags, what->context});
}
ssize_t atomic_compwrite(fid_ep *id, const void *buffer, size_t count, void *, const void *compare, void *, void *into, void *,
                         fi_addr_t to, uint64_t address, uint64_t key, fi_datatype type, fi_op operation, void *context) {
  fi_ioc const operands = ioc_of(buffer, count), compared = ioc_of(compare, count), fetched = ioc_of(into, count);
  return apply(id, {&operands, &compared, &fetched, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_compwritev(fid_ep *id, const fi_ioc *parts, void **, size_t count, const fi_ioc *compare, void **,
                          size_t compare_count, fi_ioc *into, void **, size_t into_count, fi_addr_t to, uint64_t address,
                          uint64_t key, fi_datatype type, fi_op operation, void *context) {
  if (count != 1 || compare_count != 1 || into_count != 1) return -FI_EINVAL;
  return apply(id, {parts, compare, into, to, address, key, type, operation, tx_flags(id), context});
}
ssize_t atomic_compwritemsg(fid_ep *id, const fi_msg_atomic *what, const fi_ioc *compare, void **, size_t compare_count,
                            fi_ioc *into, void **, size_t into_count, uint64_t flags) {
  if (what->iov_count != 1 || what->rma_iov_count != 1 || compare_count != 1 || into_count != 1) return -FI_EINVAL;
  return apply(id, {what->msg_iov, compare, into, what->addr, what->rma_iov[0].addr, what->rma_iov[0].key, what->datatype,
                    what->op, flags, what->context});
}

int valid(fi_datatype type, fi_op operation, size_t *count, bool compares, bool fetches) {
  if (type >= FI_DATATYPE_LAST || size_t(operation) >= atomic_operation_count) return -FI_EOPNOTSUPP;
  auto const what = atomic_operation(operation);
  bool const fits = is_supported(atomic_type(type), what) && needs_compared(what) == compares &&
                    (what != atomic_operation::read || fetches);
  if (!fits) return -FI_EOPNOTSUPP;
  *count = atomic_size_max / size_of(atomic_type(type));
  return 0;
}
int write_valid(fid_ep *, fi_datatype type, fi_op operation, size_t *count) { return valid(type, operation, count, false, false); }
int readwrite_valid(fid_ep *, fi_datatype type, fi_op operation, size_t *count) { return valid(type, operation, count, false, true); }
int compwrite_valid(fid_ep *, fi_datatype type, fi_op operation, size_t *count) { return valid(type, operation, count, true, true); }

}  // namespace

fi_ops_rma remote_ops = {sizeof(fi_ops_rma), rma_read, rma_readv, rma_readmsg, rma_write, rma_writev,
                         rma_writemsg, rma_inject, rma_writedata, rma_injectdata};
fi_ops_atomic atomic_ops = {sizeof(fi_ops_atomic), atomic_write, atomic_writev, atomic_writemsg, atomic_inject,
                            atomic_readwrite, atomic_readwritev, atomic_readwritemsg, atomic_compwrite, atomic_compwritev,
                            atomic_compwritemsg, write_valid, readwrite_valid, compwrite_valid};

}  // namespace tanada::o2g::provider
