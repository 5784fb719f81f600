// onesided/job/open_device.hpp: which device a process of a job has.
#pragma once

#include <memory>

#include "seams/bootstrap/bootstrap.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::pgas {

// The device that is current in this thread, else the one with the number of this process on its
// node, around the end; the host executor where there is no CUDA, or `choice` says so. no_device,
// no_plugin, or what the device said, with a message.
result<std::unique_ptr<port::gpu>> open_device(const port::bootstrap &launcher,
                                               port::gpu_choice choice);

}  // namespace tanada::pgas
