// One-sided transfers.

#include <sys/uio.h>

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

}  // namespace

fi_ops_rma remote_ops = {sizeof(fi_ops_rma), fenced<rma_read>, fenced<rma_readv>, fenced<rma_readmsg>, fenced<rma_write>,
    fenced<rma_writev>, fenced<rma_writemsg>, fenced<rma_inject>, fenced<rma_writedata>, fenced<rma_injectdata>};

}  // namespace tanada::o2g::provider
