// Messages, with tags and without.

#include <sys/uio.h>

#include "products/o2g/provider/objects.hpp"

namespace tanada::o2g::provider {

namespace {

// What all forms of a call come down to.
struct message_operation {
  std::span<const iovec> parts;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t tag = 0, ignore = 0, data = 0, flags = 0;
  bool tagged = false;
  void *context = nullptr;
};

void *owner_of(bool wants_entry, bool takes_many = false) {
  return reinterpret_cast<void *>((wants_entry ? owner_wants_entry : 0) |
                                  (takes_many ? owner_takes_many : 0));
}

ssize_t send(fid_ep *id, const message_operation &what, bool is_unheard = false) {
  endpoint &from = endpoint::of(id);
  if (from.speaker == nullptr)
    return -FI_EOPBADSTATE;
  peer_index const to = from.peer_of(what.peer);
  if (to == any_peer)
    return -FI_EINVAL;
  bool const wants_entry = !is_unheard && from.tx_wants_entry(what.flags);
  send_request request;
  request.to = to;
  request.parts = what.parts;
  request.tag = what.tag;
  request.data = what.data;
  request.tagged = what.tagged;
  request.has_data = (what.flags & FI_REMOTE_CQ_DATA) != 0;
  request.inject = is_unheard || (what.flags & FI_INJECT) != 0;
  request.quiet = !wants_entry && from.sends == nullptr;
  request.delivered = (what.flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)) != 0;
  request.context = what.context;
  request.owner = owner_of(wants_entry);
  return error_of(from.speaker->post_send(request));
}

ssize_t receive(fid_ep *id, const message_operation &what) {
  endpoint &at = endpoint::of(id);
  if (at.speaker == nullptr)
    return -FI_EOPBADSTATE;
  uint64_t const directs = FI_DIRECTED_RECV | (what.tagged ? tagged_directed_recv : 0);
  bool const is_directed = what.peer != FI_ADDR_UNSPEC && (at.caps & directs) != 0;
  peer_index const source = is_directed ? at.peer_of(what.peer) : any_peer;
  if (is_directed && source == any_peer)
    return -FI_EINVAL;
  bool const wants_entry = at.rx_wants_entry(what.flags);
  if ((what.flags & FI_PEEK) != 0) {
    return error_of(at.speaker->post_peek(
        {.pattern = {what.tag, what.ignore, source},
         .tagged = what.tagged,
         .claim = (what.flags & FI_CLAIM) != 0,
         .discard = (what.flags & FI_DISCARD) != 0,
         .context = what.context,
         .owner = reinterpret_cast<void *>(owner_wants_entry | owner_is_peek)}));
  }
  bool const takes_many = (what.flags & FI_MULTI_RECV) != 0;
  receive_request request;
  request.parts = what.parts;
  request.pattern = {what.tag, what.ignore, source};
  request.tagged = what.tagged;
  request.quiet = !wants_entry && at.receives == nullptr;
  request.many_size = takes_many ? std::max<size_t>(1, at.many_size_min) : 0;
  request.context = what.context;
  request.owner = owner_of(wants_entry, takes_many);
  if ((what.flags & FI_CLAIM) == 0)
    return error_of(at.speaker->post_receive(request));
  if ((what.flags & FI_DISCARD) != 0)
    return error_of(at.speaker->discard_claimed(what.context, request.quiet, request.owner));
  return error_of(at.speaker->post_receive_claimed(request));
}

ssize_t message_recv(fid_ep *id, void *buffer, size_t size, void *, fi_addr_t from, void *context) {
  iovec const part = part_of(buffer, size);
  return receive(id,
                 {.parts = {&part, 1}, .peer = from, .flags = rx_flags(id), .context = context});
}
ssize_t message_recvv(fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t from,
                      void *context) {
  return receive(
      id, {.parts = {parts, count}, .peer = from, .flags = rx_flags(id), .context = context});
}
ssize_t message_recvmsg(fid_ep *id, const fi_msg *what, uint64_t flags) {
  return receive(id, {.parts = {what->msg_iov, what->iov_count},
                      .peer = what->addr,
                      .flags = flags,
                      .context = what->context});
}
ssize_t message_send(fid_ep *id, const void *buffer, size_t size, void *, fi_addr_t to,
                     void *context) {
  iovec const part = part_of(buffer, size);
  return send(id, {.parts = {&part, 1}, .peer = to, .flags = tx_flags(id), .context = context});
}
ssize_t message_sendv(fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t to,
                      void *context) {
  return send(id, {.parts = {parts, count}, .peer = to, .flags = tx_flags(id), .context = context});
}
ssize_t message_sendmsg(fid_ep *id, const fi_msg *what, uint64_t flags) {
  return send(id, {.parts = {what->msg_iov, what->iov_count},
                   .peer = what->addr,
                   .data = what->data,
                   .flags = flags,
                   .context = what->context});
}
ssize_t message_inject(fid_ep *id, const void *buffer, size_t size, fi_addr_t to) {
  iovec const part = part_of(buffer, size);
  return send(id, {.parts = {&part, 1}, .peer = to}, true);
}
ssize_t message_senddata(fid_ep *id, const void *buffer, size_t size, void *, uint64_t data,
                         fi_addr_t to, void *context) {
  iovec const part = part_of(buffer, size);
  return send(id, {.parts = {&part, 1},
                   .peer = to,
                   .data = data,
                   .flags = tx_flags(id) | FI_REMOTE_CQ_DATA,
                   .context = context});
}
ssize_t message_injectdata(fid_ep *id, const void *buffer, size_t size, uint64_t data,
                           fi_addr_t to) {
  iovec const part = part_of(buffer, size);
  return send(id, {.parts = {&part, 1}, .peer = to, .data = data, .flags = FI_REMOTE_CQ_DATA},
              true);
}

ssize_t tagged_recv(fid_ep *id, void *buffer, size_t size, void *, fi_addr_t from, uint64_t tag,
                    uint64_t ignore, void *context) {
  iovec const part = part_of(buffer, size);
  return receive(id, {.parts = {&part, 1},
                      .peer = from,
                      .tag = tag,
                      .ignore = ignore,
                      .flags = rx_flags(id),
                      .tagged = true,
                      .context = context});
}
ssize_t tagged_recvv(fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t from,
                     uint64_t tag, uint64_t ignore, void *context) {
  return receive(id, {.parts = {parts, count},
                      .peer = from,
                      .tag = tag,
                      .ignore = ignore,
                      .flags = rx_flags(id),
                      .tagged = true,
                      .context = context});
}
ssize_t tagged_recvmsg(fid_ep *id, const fi_msg_tagged *what, uint64_t flags) {
  return receive(id, {.parts = {what->msg_iov, what->iov_count},
                      .peer = what->addr,
                      .tag = what->tag,
                      .ignore = what->ignore,
                      .flags = flags,
                      .tagged = true,
                      .context = what->context});
}
ssize_t tagged_send(fid_ep *id, const void *buffer, size_t size, void *, fi_addr_t to, uint64_t tag,
                    void *context) {
  iovec const part = part_of(buffer, size);
  return send(id, {.parts = {&part, 1},
                   .peer = to,
                   .tag = tag,
                   .flags = tx_flags(id),
                   .tagged = true,
                   .context = context});
}
ssize_t tagged_sendv(fid_ep *id, const iovec *parts, void **, size_t count, fi_addr_t to,
                     uint64_t tag, void *context) {
  return send(id, {.parts = {parts, count},
                   .peer = to,
                   .tag = tag,
                   .flags = tx_flags(id),
                   .tagged = true,
                   .context = context});
}
ssize_t tagged_sendmsg(fid_ep *id, const fi_msg_tagged *what, uint64_t flags) {
  return send(id, {.parts = {what->msg_iov, what->iov_count},
                   .peer = what->addr,
                   .tag = what->tag,
                   .data = what->data,
                   .flags = flags,
                   .tagged = true,
                   .context = what->context});
}
ssize_t tagged_inject(fid_ep *id, const void *buffer, size_t size, fi_addr_t to, uint64_t tag) {
  iovec const part = part_of(buffer, size);
  return send(id, {.parts = {&part, 1}, .peer = to, .tag = tag, .tagged = true}, true);
}
ssize_t tagged_senddata(fid_ep *id, const void *buffer, size_t size, void *, uint64_t data,
                        fi_addr_t to, uint64_t tag, void *context) {
  iovec const part = part_of(buffer, size);
  return send(id, {.parts = {&part, 1},
                   .peer = to,
                   .tag = tag,
                   .data = data,
                   .flags = tx_flags(id) | FI_REMOTE_CQ_DATA,
                   .tagged = true,
                   .context = context});
}
ssize_t tagged_injectdata(fid_ep *id, const void *buffer, size_t size, uint64_t data, fi_addr_t to,
                          uint64_t tag) {
  iovec const part = part_of(buffer, size);
  return send(id,
              {.parts = {&part, 1},
               .peer = to,
               .tag = tag,
               .data = data,
               .flags = FI_REMOTE_CQ_DATA,
               .tagged = true},
              true);
}

}  // namespace

fi_ops_msg message_ops = {sizeof(fi_ops_msg),       fenced<message_recv>,
                          fenced<message_recvv>,    fenced<message_recvmsg>,
                          fenced<message_send>,     fenced<message_sendv>,
                          fenced<message_sendmsg>,  fenced<message_inject>,
                          fenced<message_senddata>, fenced<message_injectdata>};
fi_ops_tagged tagged_ops = {sizeof(fi_ops_tagged),   fenced<tagged_recv>,
                            fenced<tagged_recvv>,    fenced<tagged_recvmsg>,
                            fenced<tagged_send>,     fenced<tagged_sendv>,
                            fenced<tagged_sendmsg>,  fenced<tagged_inject>,
                            fenced<tagged_senddata>, fenced<tagged_injectdata>};

}  // namespace tanada::o2g::provider
