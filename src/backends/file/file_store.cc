// backends/file/file_store.cc: opens the store of file:// and plain paths.
#include "backends/file/file_store.hpp"

#include "backends/file/file_engine.hpp"

namespace tanada::backends {

result<std::unique_ptr<seams::store>> file_store_open() {
  // Reads into device memory block, so many reads of one file must be able to run concurrently.
  static constexpr seams::blocking_limits limits{.worker_count = 16, .workers_per_file = 16};
  auto settings = ring_settings::from_environment();
  if (!settings.ok())
    return settings.error();
  return ring_store_create(
      std::make_shared<file_engine>(settings.value().direct), settings.value().ring, limits);
}

}  // namespace tanada::backends
