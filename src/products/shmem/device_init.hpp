// products/shmem/device_init.hpp: choosing a PE's device at startup.
#pragma once

#include "products/shmem/runtime.hpp"

namespace tanada::shmem {

inline constexpr int device_support_all = SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT;

// As onesided::open_device(), but it also opens the host executor if the program's kernels were
// compiled for it. invalid, with a message: the program has kernels for both executors.
result<std::unique_ptr<seams::gpu>> choose_device(const seams::bootstrap &launcher);

// Called after the teams have started. Verifies that all PEs request the same device support, and
// starts what kernels need. Sets device_support. invalid, with a message, in all PEs: the requests
// differ.
status start_device(runtime &current);

}  // namespace tanada::shmem
