#include "backends/file/file_store.hpp"

#include "backends/file/file_engine.hpp"

namespace tanada::port {

result<std::unique_ptr<store>> file_store_open() {
  // Reads into device memory block, so that many of one file must be able to run at a time.
  static constexpr blocking_limits limits{.worker_count = 16, .workers_per_file = 16};
  auto settings = ring_settings::of_environment();
  if (!settings.ok())
    return settings.error();
  return ring_store_create(std::make_shared<file_engine>(settings.value().direct),
                           settings.value().ring, limits);
}

}  // namespace tanada::port
