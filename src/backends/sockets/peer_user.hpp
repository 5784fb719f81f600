// backends/sockets/peer_user.hpp: who owns the other end of a connection within this node.
#pragma once

#include <cstdint>
#include <optional>

namespace tanada::port {

// The user whose process made the other end of this connected socket, as the kernel has it. None:
// the other end is on another node or in another network namespace, was closed meanwhile, or the
// kernel gives no answer.
std::optional<uint32_t> tcp_peer_user(int socket);

// A user that the kernel has reported. None: in the user namespace of this process the number
// stands for every user that the namespace does not map, so it names nobody.
std::optional<uint32_t> known_user(uint32_t user);

}  // namespace tanada::port
