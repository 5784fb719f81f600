// port/stream/peer_user.hpp: who owns the other end of a TCP connection within this node.
#pragma once

#include <cstdint>
#include <optional>

namespace tanada::port {

// The user whose process made the other end of this connected socket, as the kernel has it. None: the other end is on another
// node or in another network namespace, was closed meanwhile, or the kernel gives no answer.
std::optional<uint32_t> tcp_peer_user(int socket);

}  // namespace tanada::port
