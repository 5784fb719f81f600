// backends/sockets/peer_user.hpp: the user at the other end of a connection within this node.
#pragma once

#include <cstdint>
#include <optional>

namespace tanada::backends {

// The user whose process created the other end of this connected socket, as reported by the kernel.
// Empty: the other end is on another node or in another network namespace, was closed meanwhile, or
// the kernel gave no answer.
std::optional<uint32_t> tcp_peer_user(int socket);

// A user that the kernel reported. Empty: in this process's user namespace the number stands for
// all unmapped users, so it identifies nobody.
std::optional<uint32_t> known_user(uint32_t user);

}  // namespace tanada::backends
