// The environment's settings of a job.
#include <cstdlib>

#include "core/base/config.hpp"
#include "onesided/job/job.hpp"

namespace tanada::onesided {

status job_options::read_environment() {
  auto const text = [](const char *name, std::string &setting) {
    if (const char *const value = std::getenv(name); value != nullptr)
      setting = value;
  };
  text("TND_PGAS_NODE", node);
  text("TND_PGAS_FABRIC", fabric);
  text("TND_PGAS_INTERFACE", interface);
  TND_TRY(environment_duration_ns("TND_PGAS_TIMEOUT", timeout_ns));
  TND_TRY(environment_size("TND_PGAS_STAGING", staging_size));
  auto path = uint32_t(device_transfer_path);
  TND_TRY(environment_choice("TND_PGAS_DEVICE", device_path_names, path));
  device_transfer_path = device_path(path);
  return environment_count("TND_PGAS_LANES", 1, lane_count_cap, lane_count_max);
}

}  // namespace tanada::onesided
