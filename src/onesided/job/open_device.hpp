// onesided/job/open_device.hpp: selects the device of a process of a job.
#pragma once

#include <memory>

#include "seams/bootstrap/bootstrap.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::onesided {

// Opens the device that is current in this thread. Otherwise it opens the device whose index is
// that of this process on its node, modulo the device count. It opens the host executor if there is
// no CUDA, or if `choice` selects it. no_device, no_plugin, or the device's error, with a message.
result<std::unique_ptr<seams::gpu>> open_device(const seams::bootstrap &launcher,
                                                seams::gpu_choice choice);

}  // namespace tanada::onesided
