// backends/sockets/shared_socket.hpp: sockets that a stream_set or a driver reads while the program
// keeps them.
#pragma once

#include "seams/stream/stream_set.hpp"

namespace tanada::backends {

// Gives the set a duplicate of a connected socket. The program's descriptor stays open and keeps
// its blocking mode. The options for low latency and for detecting a dead peer are set as for every
// connection of a set. bad_file: not open. invalid: not a connected stream socket. too_many_files:
// out of descriptors.
result<seams::stream_id> adopt_shared(seams::stream_set &set, int socket, uint64_t word);

// The checks and options of adopt_shared(), for a socket that a driver of the kernel reads.
status prepare_shared(int socket);

}  // namespace tanada::backends
