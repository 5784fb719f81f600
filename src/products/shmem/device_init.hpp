// products/shmem/device_init.hpp: the device of a PE, chosen when it starts.
#pragma once

#include "products/shmem/runtime.hpp"

namespace tanada::shmem {

inline constexpr int device_support_all = SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT;

// As pgas::open_device(): the host executor, too, where the program's kernels are made for it.
// invalid, with a message: it has kernels for both.
result<std::unique_ptr<port::gpu>> choose_device(const port::bootstrap &launcher);

// After the teams have started: all PEs want the same of their devices, and kernels get what they
// need. Sets device_support. invalid, with a message, in all PEs that do not want the same.
status start_device(runtime &made);

}  // namespace tanada::shmem
