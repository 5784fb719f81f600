// backends/sockets/socket_options.hpp: how the sockets of a stream_set are made, whatever drives
// them.
#pragma once

#include "seams/stream/stream_set.hpp"

namespace tanada::port {

// Not blocking, without delay, and lost when the peer acknowledges nothing for
// options.lost_after_ns.
void socket_prepare(int socket, const stream_set_options &options);

// Keep-alive and TCP_USER_TIMEOUT: a peer whose system answers nothing for `lost_after_ns`, idle or
// not, is lost at the latest a quarter of that later. Sockets that a listening one accepts inherit
// it.
void socket_detect_loss(int socket, uint64_t lost_after_ns);

// Once it is connected: TCP within one node needs no model of a link.
void socket_suit_node(int socket);
bool ends_on_this_node(int socket);

// The kernel takes a peer for lost that answers and has no room for so long: its process is
// stopped, or its memory full. To be asked every patience_interval_ns(): while that is so, the
// kernel's limit is off (*is_patient, false at first), and true comes back when the peer has ceased
// to answer.
bool socket_is_lost(int socket, const stream_set_options &options, bool &is_patient);
inline uint64_t patience_interval_ns(const stream_set_options &options) {
  return options.lost_after_ns / 4 + 1;
}

// A socket that listens; *at gets the port. -1 with *why.
int socket_listen(socket_address &at, status &why);

// A socket that connects, and goes on doing so in the background. -1 with *why.
int socket_connect(const socket_address &to, const socket_address &from,
                   const stream_set_options &options, status &why);

// The error that a socket has, or that a call on it left in errno.
status socket_error(int socket);
status socket_status(int error);

socket_address socket_peer(int socket);

// Bytes that the peer's system has not acknowledged.
uint64_t socket_unsent_size(int socket);

}  // namespace tanada::port
