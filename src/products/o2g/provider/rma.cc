// One-sided transfers (fi_rma) of the provider.

#include <sys/uio.h>

#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

enum class transfer_kind { read, write, inject };  // inject: a write without a completion

struct remote_operation {
  std::span<const iovec> parts{};
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t address = 0, key = 0, data = 0, flags = 0;
  void *context = nullptr;
};

ssize_t transfer(fid_ep *id, const remote_operation &operation, transfer_kind kind) {
  endpoint &origin = endpoint::from_fid(id);
  if (origin.o2g_engine == nullptr)
    return -FI_EOPBADSTATE;
  peer_index const target = origin.peer_of(operation.peer);
  if (target == any_peer)
    return -FI_EINVAL;
  bool const is_injected = kind == transfer_kind::inject;
  bool const wants_entry = !is_injected && origin.tx_wants_entry(operation.flags);
  remote_request request;
  request.target = target;
  request.parts = operation.parts;
  request.remote = {operation.address, size_of(operation.parts), operation.key};
  request.data = operation.data;
  request.has_data = (operation.flags & FI_REMOTE_CQ_DATA) != 0;
  request.more = (operation.flags & FI_MORE) != 0;
  request.inject = is_injected || (operation.flags & FI_INJECT) != 0;
  request.delivery_complete =
      is_injected ||
      (operation.flags & (FI_INJECT_COMPLETE | FI_DELIVERY_COMPLETE)) != FI_INJECT_COMPLETE;
  request.errors_only =
      !wants_entry && (kind == transfer_kind::read ? origin.reads : origin.writes) == nullptr;
  request.context = operation.context;
  request.owner = reinterpret_cast<void *>(wants_entry ? owner_wants_entry : 0);
  return error_of(kind == transfer_kind::read ? origin.o2g_engine->post_get(request)
                                              : origin.o2g_engine->post_put(request));
}

ssize_t transfer_single(
    fid_ep *id, const void *buffer, size_t size, remote_operation operation, transfer_kind kind) {
  iovec const part = make_iovec(buffer, size);
  operation.parts = {&part, 1};
  return transfer(id, operation, kind);
}

// Buffer is void for reads and const void for writes.
template <transfer_kind Kind, class Buffer>
ssize_t rma_single(fid_ep *id,
                   Buffer *buffer,
                   size_t size,
                   void *,
                   fi_addr_t peer,
                   uint64_t address,
                   uint64_t key,
                   void *context) {
  return transfer_single(
      id,
      buffer,
      size,
      {.peer = peer, .address = address, .key = key, .flags = tx_flags(id), .context = context},
      Kind);
}
template <transfer_kind Kind>
ssize_t rma_parts(fid_ep *id,
                  const iovec *parts,
                  void **,
                  size_t count,
                  fi_addr_t peer,
                  uint64_t address,
                  uint64_t key,
                  void *context) {
  return transfer(id,
                  {.parts = {parts, count},
                   .peer = peer,
                   .address = address,
                   .key = key,
                   .flags = tx_flags(id),
                   .context = context},
                  Kind);
}
template <transfer_kind Kind>
ssize_t rma_message(fid_ep *id, const fi_msg_rma *message, uint64_t flags) {
  if (message->rma_iov_count != 1)
    return -FI_EINVAL;
  return transfer(id,
                  {.parts = {message->msg_iov, message->iov_count},
                   .peer = message->addr,
                   .address = message->rma_iov[0].addr,
                   .key = message->rma_iov[0].key,
                   .data = message->data,
                   .flags = flags,
                   .context = message->context},
                  Kind);
}

ssize_t rma_inject(
    fid_ep *id, const void *buffer, size_t size, fi_addr_t target, uint64_t address, uint64_t key) {
  return transfer_single(
      id, buffer, size, {.peer = target, .address = address, .key = key}, transfer_kind::inject);
}
ssize_t rma_writedata(fid_ep *id,
                      const void *buffer,
                      size_t size,
                      void *,
                      uint64_t data,
                      fi_addr_t target,
                      uint64_t address,
                      uint64_t key,
                      void *context) {
  return transfer_single(id,
                         buffer,
                         size,
                         {.peer = target,
                          .address = address,
                          .key = key,
                          .data = data,
                          .flags = tx_flags(id) | FI_REMOTE_CQ_DATA,
                          .context = context},
                         transfer_kind::write);
}
ssize_t rma_injectdata(fid_ep *id,
                       const void *buffer,
                       size_t size,
                       uint64_t data,
                       fi_addr_t target,
                       uint64_t address,
                       uint64_t key) {
  return transfer_single(
      id,
      buffer,
      size,
      {.peer = target, .address = address, .key = key, .data = data, .flags = FI_REMOTE_CQ_DATA},
      transfer_kind::inject);
}

}  // namespace

fi_ops_rma remote_ops = {sizeof(fi_ops_rma),
                         no_throw<rma_single<transfer_kind::read, void>>,
                         no_throw<rma_parts<transfer_kind::read>>,
                         no_throw<rma_message<transfer_kind::read>>,
                         no_throw<rma_single<transfer_kind::write, const void>>,
                         no_throw<rma_parts<transfer_kind::write>>,
                         no_throw<rma_message<transfer_kind::write>>,
                         no_throw<rma_inject>,
                         no_throw<rma_writedata>,
                         no_throw<rma_injectdata>};

}  // namespace tanada::o2g::provider
