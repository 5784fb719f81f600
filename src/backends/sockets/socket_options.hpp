// backends/sockets/socket_options.hpp: creates and configures the sockets of any stream_set.
#pragma once

#include "seams/stream/stream_set.hpp"

namespace tanada::backends {

// Makes the socket non-blocking and without delay. Its connection fails when the peer acknowledges
// nothing for options.peer_timeout_ns.
void socket_prepare(int socket, const seams::stream_set_options &options);

// The same, but the socket stays blocking if it is.
void socket_tune(int socket, const seams::stream_set_options &options);

// Sets keep-alive and TCP_USER_TIMEOUT: a connection fails if the peer's system does not answer for
// `lost_after_ns`, at the latest a quarter of that later, idle or not. Sockets accepted by a
// listening socket inherit the options.
void socket_detect_loss(int socket, uint64_t lost_after_ns);

// Call it on a connected socket: within one node TCP needs no congestion control.
void socket_suit_node(int socket);
bool ends_on_this_node(int socket);

// The kernel also fails a peer that answers but has a full receive window for that long, because
// its process is stopped or out of memory. To avoid that, call this function every
// loss_check_interval_ns(). While the window is full, it turns the kernel's timeout off
// (`is_timeout_disabled`, initially false). It returns true when the peer has stopped answering.
bool socket_is_lost(int socket,
                    const seams::stream_set_options &options,
                    bool &is_timeout_disabled);
inline uint64_t loss_check_interval_ns(const seams::stream_set_options &options) {
  return options.peer_timeout_ns / 4 + 1;
}

// Returns a listening socket and sets the port in `address`. On failure returns -1 and sets `code`.
int socket_listen(seams::socket_address &address, status &code);

// Returns a socket that connects in the background. On failure returns -1 and sets `code`.
int socket_connect(const seams::socket_address &target,
                   const seams::socket_address &source,
                   const seams::stream_set_options &options,
                   status &code);

// The pending error of a socket, or the status of an errno value.
status socket_error(int socket);
status socket_status(int error);

seams::socket_address socket_peer(int socket);

// Bytes that the peer's system has not acknowledged yet.
uint64_t socket_unsent_size(int socket);

}  // namespace tanada::backends
