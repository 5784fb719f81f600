// backends/sockets/shared_socket.hpp: sockets that stay the program's while a stream_set reads
// them.
#pragma once

#include "seams/stream/stream_set.hpp"

namespace tanada::port {

// Gives the set a duplicate of a connected socket. The program's own descriptor stays open and as
// it is, blocking or not. Options for prompt sending and for finding a dead peer are set, as for
// every connection of a set. bad_file: it is not open; invalid: not a connected stream socket;
// too_many_files.
result<stream_id> adopt_shared(stream_set &set, int socket, uint64_t word);

}  // namespace tanada::port
