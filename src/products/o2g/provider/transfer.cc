// Sends and receives of messages, tagged and untagged.

#include <sys/uio.h>

#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

// The common form of all variants of a call.
struct message_operation {
  std::span<const iovec> parts;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t tag = 0, ignore = 0, data = 0, flags = 0;
  bool tagged = false;
  void *context = nullptr;
};

void *owner_of(bool wants_entry, bool is_multi_receive = false) {
  return reinterpret_cast<void *>((wants_entry ? owner_wants_entry : 0) |
                                  (is_multi_receive ? owner_is_multi_receive : 0));
}

ssize_t send(fid_ep *id, const message_operation &operation, bool is_injected = false) {
  endpoint &origin = endpoint::from_fid(id);
  if (origin.o2g_engine == nullptr)
    return -FI_EOPBADSTATE;
  peer_index const target = origin.peer_of(operation.peer);
  if (target == any_peer)
    return -FI_EINVAL;
  bool const wants_entry = !is_injected && origin.tx_wants_entry(operation.flags);
  send_request request;
  request.target = target;
  request.parts = operation.parts;
  request.tag = operation.tag;
  request.data = operation.data;
  request.tagged = operation.tagged;
  request.has_data = (operation.flags & FI_REMOTE_CQ_DATA) != 0;
  request.inject = is_injected || (operation.flags & FI_INJECT) != 0;
  request.errors_only = !wants_entry && origin.sends == nullptr;
  request.delivery_complete = (operation.flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)) != 0;
  request.context = operation.context;
  request.owner = owner_of(wants_entry);
  return error_of(origin.o2g_engine->post_send(request));
}

ssize_t peek(endpoint &receiver, const message_operation &operation, peer_index source) {
  return error_of(receiver.o2g_engine->post_peek(
      {.pattern = {operation.tag, operation.ignore, source},
       .tagged = operation.tagged,
       .claim = (operation.flags & FI_CLAIM) != 0,
       .discard = (operation.flags & FI_DISCARD) != 0,
       .context = operation.context,
       .owner = reinterpret_cast<void *>(owner_wants_entry | owner_is_peek)}));
}

status post(engine &target, const receive_request &request, uint64_t flags) {
  if ((flags & FI_CLAIM) == 0)
    return target.post_receive(request);
  if ((flags & FI_DISCARD) != 0)
    return target.discard_claimed(request.context, request.errors_only, request.owner);
  return target.post_receive_claimed(request);
}

ssize_t receive(fid_ep *id, const message_operation &operation) {
  endpoint &receiver = endpoint::from_fid(id);
  if (receiver.o2g_engine == nullptr)
    return -FI_EOPBADSTATE;
  uint64_t const directs = FI_DIRECTED_RECV | (operation.tagged ? tagged_directed_recv : 0);
  bool const is_directed = operation.peer != FI_ADDR_UNSPEC && (receiver.caps & directs) != 0;
  peer_index const source = is_directed ? receiver.peer_of(operation.peer) : any_peer;
  if (is_directed && source == any_peer)
    return -FI_EINVAL;
  if ((operation.flags & FI_PEEK) != 0)
    return peek(receiver, operation, source);
  bool const wants_entry = receiver.rx_wants_entry(operation.flags);
  bool const is_multi_receive = (operation.flags & FI_MULTI_RECV) != 0;
  receive_request request;
  request.parts = operation.parts;
  request.pattern = {operation.tag, operation.ignore, source};
  request.tagged = operation.tagged;
  request.errors_only = !wants_entry && receiver.receives == nullptr;
  request.multi_receive_min =
      is_multi_receive ? std::max<size_t>(1, receiver.multi_receive_size_min) : 0;
  request.context = operation.context;
  request.owner = owner_of(wants_entry, is_multi_receive);
  return error_of(post(*receiver.o2g_engine, request, operation.flags));
}

ssize_t message_recv(
    fid_ep *id, void *buffer, size_t size, void *, fi_addr_t source, void *context) {
  iovec const part = make_iovec(buffer, size);
  return receive(id,
                 {.parts = {&part, 1}, .peer = source, .flags = rx_flags(id), .context = context});
}
ssize_t message_recvv(
    fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t source, void *context) {
  return receive(
      id, {.parts = {parts, count}, .peer = source, .flags = rx_flags(id), .context = context});
}
ssize_t message_recvmsg(fid_ep *id, const fi_msg *message, uint64_t flags) {
  return receive(id,
                 {.parts = {message->msg_iov, message->iov_count},
                  .peer = message->addr,
                  .flags = flags,
                  .context = message->context});
}
ssize_t message_send(
    fid_ep *id, const void *buffer, size_t size, void *, fi_addr_t target, void *context) {
  iovec const part = make_iovec(buffer, size);
  return send(id, {.parts = {&part, 1}, .peer = target, .flags = tx_flags(id), .context = context});
}
ssize_t message_sendv(
    fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t target, void *context) {
  return send(id,
              {.parts = {parts, count}, .peer = target, .flags = tx_flags(id), .context = context});
}
ssize_t message_sendmsg(fid_ep *id, const fi_msg *message, uint64_t flags) {
  return send(id,
              {.parts = {message->msg_iov, message->iov_count},
               .peer = message->addr,
               .data = message->data,
               .flags = flags,
               .context = message->context});
}
ssize_t message_inject(fid_ep *id, const void *buffer, size_t size, fi_addr_t target) {
  iovec const part = make_iovec(buffer, size);
  return send(id, {.parts = {&part, 1}, .peer = target}, true);
}
ssize_t message_senddata(fid_ep *id,
                         const void *buffer,
                         size_t size,
                         void *,
                         uint64_t data,
                         fi_addr_t target,
                         void *context) {
  iovec const part = make_iovec(buffer, size);
  return send(id,
              {.parts = {&part, 1},
               .peer = target,
               .data = data,
               .flags = tx_flags(id) | FI_REMOTE_CQ_DATA,
               .context = context});
}
ssize_t message_injectdata(
    fid_ep *id, const void *buffer, size_t size, uint64_t data, fi_addr_t target) {
  iovec const part = make_iovec(buffer, size);
  return send(
      id, {.parts = {&part, 1}, .peer = target, .data = data, .flags = FI_REMOTE_CQ_DATA}, true);
}

ssize_t tagged_recv(fid_ep *id,
                    void *buffer,
                    size_t size,
                    void *,
                    fi_addr_t source,
                    uint64_t tag,
                    uint64_t ignore,
                    void *context) {
  iovec const part = make_iovec(buffer, size);
  return receive(id,
                 {.parts = {&part, 1},
                  .peer = source,
                  .tag = tag,
                  .ignore = ignore,
                  .flags = rx_flags(id),
                  .tagged = true,
                  .context = context});
}
ssize_t tagged_recvv(fid_ep *id,
                     const iovec *parts,
                     void **,
                     size_t count,
                     fi_addr_t source,
                     uint64_t tag,
                     uint64_t ignore,
                     void *context) {
  return receive(id,
                 {.parts = {parts, count},
                  .peer = source,
                  .tag = tag,
                  .ignore = ignore,
                  .flags = rx_flags(id),
                  .tagged = true,
                  .context = context});
}
ssize_t tagged_recvmsg(fid_ep *id, const fi_msg_tagged *message, uint64_t flags) {
  return receive(id,
                 {.parts = {message->msg_iov, message->iov_count},
                  .peer = message->addr,
                  .tag = message->tag,
                  .ignore = message->ignore,
                  .flags = flags,
                  .tagged = true,
                  .context = message->context});
}
ssize_t tagged_send(fid_ep *id,
                    const void *buffer,
                    size_t size,
                    void *,
                    fi_addr_t target,
                    uint64_t tag,
                    void *context) {
  iovec const part = make_iovec(buffer, size);
  return send(id,
              {.parts = {&part, 1},
               .peer = target,
               .tag = tag,
               .flags = tx_flags(id),
               .tagged = true,
               .context = context});
}
ssize_t tagged_sendv(fid_ep *id,
                     const iovec *parts,
                     void **,
                     size_t count,
                     fi_addr_t target,
                     uint64_t tag,
                     void *context) {
  return send(id,
              {.parts = {parts, count},
               .peer = target,
               .tag = tag,
               .flags = tx_flags(id),
               .tagged = true,
               .context = context});
}
ssize_t tagged_sendmsg(fid_ep *id, const fi_msg_tagged *message, uint64_t flags) {
  return send(id,
              {.parts = {message->msg_iov, message->iov_count},
               .peer = message->addr,
               .tag = message->tag,
               .data = message->data,
               .flags = flags,
               .tagged = true,
               .context = message->context});
}
ssize_t tagged_inject(fid_ep *id, const void *buffer, size_t size, fi_addr_t target, uint64_t tag) {
  iovec const part = make_iovec(buffer, size);
  return send(id, {.parts = {&part, 1}, .peer = target, .tag = tag, .tagged = true}, true);
}
ssize_t tagged_senddata(fid_ep *id,
                        const void *buffer,
                        size_t size,
                        void *,
                        uint64_t data,
                        fi_addr_t target,
                        uint64_t tag,
                        void *context) {
  iovec const part = make_iovec(buffer, size);
  return send(id,
              {.parts = {&part, 1},
               .peer = target,
               .tag = tag,
               .data = data,
               .flags = tx_flags(id) | FI_REMOTE_CQ_DATA,
               .tagged = true,
               .context = context});
}
ssize_t tagged_injectdata(
    fid_ep *id, const void *buffer, size_t size, uint64_t data, fi_addr_t target, uint64_t tag) {
  iovec const part = make_iovec(buffer, size);
  return send(id,
              {.parts = {&part, 1},
               .peer = target,
               .tag = tag,
               .data = data,
               .flags = FI_REMOTE_CQ_DATA,
               .tagged = true},
              true);
}

}  // namespace

fi_ops_msg message_ops = {sizeof(fi_ops_msg),
                          no_throw<message_recv>,
                          no_throw<message_recvv>,
                          no_throw<message_recvmsg>,
                          no_throw<message_send>,
                          no_throw<message_sendv>,
                          no_throw<message_sendmsg>,
                          no_throw<message_inject>,
                          no_throw<message_senddata>,
                          no_throw<message_injectdata>};
fi_ops_tagged tagged_ops = {sizeof(fi_ops_tagged),
                            no_throw<tagged_recv>,
                            no_throw<tagged_recvv>,
                            no_throw<tagged_recvmsg>,
                            no_throw<tagged_send>,
                            no_throw<tagged_sendv>,
                            no_throw<tagged_sendmsg>,
                            no_throw<tagged_inject>,
                            no_throw<tagged_senddata>,
                            no_throw<tagged_injectdata>};

}  // namespace tanada::o2g::provider
