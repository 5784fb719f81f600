// seams/os/processors.hpp: the processors that processes may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tanada::port {

// A set of processors, bit i of word i / 64. Plain bytes: may be sent to processes of the same
// machine.
struct processor_set {
  std::array<uint64_t, 16> words{};

  size_t count() const noexcept;
  processor_set &operator|=(const processor_set &other) noexcept;
};

// Those that the calling thread may run on. Empty when the system does not say.
processor_set processors_allowed() noexcept;

// The running kernel: processes with equal texts share processors.
std::string kernel_identity();

// What tells whether two processes can share memory by descriptors that they pass through sockets
// without names: the running kernel and the network namespace. Equal texts: they can.
std::string machine_identity();

}  // namespace tanada::port
