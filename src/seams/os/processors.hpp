// seams/os/processors.hpp: the processors that processes may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tanada::seams {

// A set of processors, bit i of word i / 64. Plain bytes, which may be sent to processes of the
// same node.
struct processor_set {
  std::array<uint64_t, 16> words{};

  size_t count() const noexcept;
  processor_set &operator|=(const processor_set &added) noexcept;
};
static_assert(sizeof(processor_set) == 128);

// The processors that the calling thread may run on. Empty when the system does not report them.
processor_set processors_allowed() noexcept;

// The running kernel: processes with equal texts share processors.
std::string kernel_identity();

// Two processes with equal texts can share memory by descriptors that they pass through sockets
// without names. It identifies the running kernel and the network namespace.
std::string machine_identity();

}  // namespace tanada::seams
