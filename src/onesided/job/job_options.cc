#include <cstdlib>

#include "core/base/config.hpp"
#include "onesided/job/job.hpp"

namespace tanada::pgas {

status job_options::read_environment() {
  auto const text = [](const char *name, std::string &into) {
    if (const char *const value = std::getenv(name); value != nullptr)
      into = value;
  };
  text("TND_PGAS_NODE", node);
  text("TND_PGAS_FABRIC", fabric);
  text("TND_PGAS_INTERFACE", interface);
  TND_TRY(environment_duration_ns("TND_PGAS_TIMEOUT", timeout_ns));
  TND_TRY(environment_size("TND_PGAS_STAGING", staging_size));
  auto way = uint32_t(devices_by);
  TND_TRY(environment_choice("TND_PGAS_DEVICE", device_way_names, way));
  devices_by = device_way(way);
  return environment_count("TND_PGAS_LANES", 1, lane_count_cap, lane_count_max);
}

}  // namespace tanada::pgas
