// backends/file/ring_engine.hpp: an engine that has descriptors of this machine for some of its
// files.
#pragma once

#include <memory>

#include "backends/file/local_file.hpp"
#include "seams/store/blocking_store.hpp"

namespace tanada::backends {

// Reads of a file that find() returns may use its descriptor instead of the engine's calls. The
// same holds for writes and syncs if the file is open for writing.
class ring_engine : public seams::blocking_engine {
 public:
  explicit ring_engine(file_direct direct) : reader_{direct} {}

  // The handle of an open file, or null if the file has no descriptor. Does not block.
  virtual std::shared_ptr<local_file> find(seams::store_file file) const = 0;

  // See store_queue::try_perform(): opens and closes that do not block. Thread-safe.
  virtual bool try_perform(const seams::store_op &, seams::store_completion &) {
    return false;
  }

  // See store_queue::try_read_each(). Returns false if the file is not read like this. Thread-safe.
  virtual bool try_read_each(seams::store_file, std::span<seams::store_read>) {
    return false;
  }

  const local_reader &reader() const noexcept {
    return reader_;
  }

  // See store::access().
  void attach(const seams::device_window &window, bool compatible_too) override {
    reader_.attach(window, compatible_too);
  }
  virtual seams::file_access access(seams::store_file file) const {
    auto const handle = find(file);
    return handle ? reader_.access(*handle) : seams::file_access{};
  }

 protected:
  local_reader reader_;
};

// The settings for files with descriptors, from TND_FILE_DIRECT and TND_IO_URING.
struct ring_settings {
  file_direct direct = file_direct::automatic;
  bool ring = true;  // also off where the kernel refuses rings

  static result<ring_settings> from_environment();
};

// Uses rings over the engine if `ring` is set. Worker threads serve the other operations, or all of
// them.
std::unique_ptr<seams::store> ring_store_create(std::shared_ptr<ring_engine> engine,
                                                bool ring,
                                                seams::blocking_limits limits = {});

}  // namespace tanada::backends
