// backends/file/ring_engine.hpp: an engine some of whose files have descriptors of this machine.
#pragma once

#include <memory>

#include "backends/file/local_file.hpp"
#include "seams/store/blocking_store.hpp"

namespace tanada::port {

// Reads, and writes and syncs of files that are open to write, of a file that find() knows may be
// done by its descriptor instead of by the engine's calls.
class ring_engine : public blocking_engine {
 public:
  explicit ring_engine(file_direct direct) : reader_{direct} {}

  // The handle of an open file, or null: there is none with a descriptor. Does not wait.
  virtual std::shared_ptr<local_file> find(store_file file) const = 0;

  // See store_queue::try_perform(): opens and closes that wait for nothing. Thread-safe.
  virtual bool try_perform(const store_op &, store_completion &) {
    return false;
  }

  const local_reader &reader() const noexcept {
    return reader_;
  }

  // See store::attach() and store::access().
  void attach(const device_window &window, bool compatible_too) {
    reader_.attach(window, compatible_too);
  }
  virtual file_access access(store_file file) const {
    auto const handle = find(file);
    return handle ? reader_.access(*handle) : file_access{};
  }

 protected:
  local_reader reader_;
};

// What the environment says of files with descriptors: TND_FILE_DIRECT and TND_IO_URING.
struct ring_settings {
  file_direct direct = file_direct::automatic;
  bool ring = true;  // off also where the kernel refuses

  static result<ring_settings> of_environment();
};

// Rings over the engine where `ring` is set, worker threads otherwise and for what rings do not do.
std::unique_ptr<store> ring_store_create(std::shared_ptr<ring_engine> engine, bool ring,
                                         blocking_limits limits = {});

}  // namespace tanada::port
