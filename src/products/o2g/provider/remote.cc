// One-sided transfers.

#include <sys/uio.h>

#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

enum class way { read, write, inject };  // inject: a write that is not heard of again

struct remote_operation {
  std::span<const iovec> parts{};
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t address = 0, key = 0, data = 0, flags = 0;
  void *context = nullptr;
};

ssize_t transfer(fid_ep *id, const remote_operation &what, way how) {
  endpoint &from = endpoint::of(id);
  if (from.speaker == nullptr)
    return -FI_EOPBADSTATE;
  peer_index const to = from.peer_of(what.peer);
  if (to == any_peer)
    return -FI_EINVAL;
  bool const is_unheard = how == way::inject,
             wants_entry = !is_unheard && from.tx_wants_entry(what.flags);
  remote_request request;
  request.to = to;
  request.parts = what.parts;
  request.remote = {what.address, size_of(what.parts), what.key};
  request.data = what.data;
  request.has_data = (what.flags & FI_REMOTE_CQ_DATA) != 0;
  request.more = (what.flags & FI_MORE) != 0;
  request.inject = is_unheard || (what.flags & FI_INJECT) != 0;
  request.delivered = is_unheard || (what.flags & (FI_INJECT_COMPLETE | FI_DELIVERY_COMPLETE)) !=
                                        FI_INJECT_COMPLETE;
  request.quiet = !wants_entry && (how == way::read ? from.reads : from.writes) == nullptr;
  request.context = what.context;
  request.owner = reinterpret_cast<void *>(wants_entry ? owner_wants_entry : 0);
  return error_of(how == way::read ? from.speaker->post_get(request)
                                   : from.speaker->post_put(request));
}

ssize_t transfer_one(fid_ep *id, const void *buffer, size_t size, remote_operation what, way how) {
  iovec const part = part_of(buffer, size);
  what.parts = {&part, 1};
  return transfer(id, what, how);
}

// Buffer: void, const void.
template <way How, class Buffer>
ssize_t rma_one(fid_ep *id, Buffer *buffer, size_t size, void *, fi_addr_t peer, uint64_t address,
                uint64_t key, void *context) {
  return transfer_one(
      id, buffer, size,
      {.peer = peer, .address = address, .key = key, .flags = tx_flags(id), .context = context},
      How);
}
template <way How>
ssize_t rma_parts(fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t peer,
                  uint64_t address, uint64_t key, void *context) {
  return transfer(id,
                  {.parts = {parts, count},
                   .peer = peer,
                   .address = address,
                   .key = key,
                   .flags = tx_flags(id),
                   .context = context},
                  How);
}
template <way How>
ssize_t rma_message(fid_ep *id, const fi_msg_rma *what, uint64_t flags) {
  if (what->rma_iov_count != 1)
    return -FI_EINVAL;
  return transfer(id,
                  {.parts = {what->msg_iov, what->iov_count},
                   .peer = what->addr,
                   .address = what->rma_iov[0].addr,
                   .key = what->rma_iov[0].key,
                   .data = what->data,
                   .flags = flags,
                   .context = what->context},
                  How);
}

ssize_t rma_inject(fid_ep *id, const void *buffer, size_t size, fi_addr_t to, uint64_t address,
                   uint64_t key) {
  return transfer_one(id, buffer, size, {.peer = to, .address = address, .key = key}, way::inject);
}
ssize_t rma_writedata(fid_ep *id, const void *buffer, size_t size, void *, uint64_t data,
                      fi_addr_t to, uint64_t address, uint64_t key, void *context) {
  return transfer_one(id, buffer, size,
                      {.peer = to,
                       .address = address,
                       .key = key,
                       .data = data,
                       .flags = tx_flags(id) | FI_REMOTE_CQ_DATA,
                       .context = context},
                      way::write);
}
ssize_t rma_injectdata(fid_ep *id, const void *buffer, size_t size, uint64_t data, fi_addr_t to,
                       uint64_t address, uint64_t key) {
  return transfer_one(
      id, buffer, size,
      {.peer = to, .address = address, .key = key, .data = data, .flags = FI_REMOTE_CQ_DATA},
      way::inject);
}

}  // namespace

fi_ops_rma remote_ops = {sizeof(fi_ops_rma),
                         fenced<rma_one<way::read, void>>,
                         fenced<rma_parts<way::read>>,
                         fenced<rma_message<way::read>>,
                         fenced<rma_one<way::write, const void>>,
                         fenced<rma_parts<way::write>>,
                         fenced<rma_message<way::write>>,
                         fenced<rma_inject>,
                         fenced<rma_writedata>,
                         fenced<rma_injectdata>};

}  // namespace tanada::o2g::provider
