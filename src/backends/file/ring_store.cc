// backends/file/ring_store.cc: a store out of an engine with descriptors, and what the environment
// says of such.
#include "backends/file/file_ring.hpp"
#include "backends/file/ring_engine.hpp"
#include "core/base/config.hpp"
#include "core/base/log.hpp"

#include <tanada/status.h>

namespace tanada::port {
namespace {

class ring_store final : public store {
 public:
  ring_store(std::shared_ptr<ring_engine> engine, bool ring, blocking_limits limits)
      : engine_{std::move(engine)},
        blocking_{blocking_store_create(engine_, limits)},
        ring_{ring} {}

  std::string_view scheme() const noexcept override {
    return engine_->scheme();
  }

  result<std::unique_ptr<store_queue>> queue_create(uint32_t depth) override {
    auto workers = blocking_->queue_create(depth);
    if (!workers.ok() || !ring_)
      return workers;
    auto queue = file_ring_queue_create(engine_, std::move(workers).value(), depth);
    if (queue.ok())
      return queue;
    log(log_level::info, "%s: no ring for a queue (%s): worker threads serve it", engine_->scheme(),
        tnd_status_name(tnd_status(queue.error())));
    return blocking_->queue_create(depth);
  }

  void attach(const device_window &window, bool compatible_too) override {
    store::attach(window, compatible_too);
    engine_->attach(window, compatible_too);
  }

  file_access access(store_file file) const override {
    file_access found = engine_->access(file);
    if (engine_->find(file) == nullptr)
      found.direct = store::access(file).direct;
    return found;
  }

 private:
  std::shared_ptr<ring_engine> engine_;
  std::unique_ptr<store> blocking_;
  bool ring_;
};

bool ring_usable() {
  static const status refusal = [] {
    auto const code = file_ring_probe();
    if (code != status::ok) {
      log(log_level::info, "file: io_uring is refused here (%s): worker threads serve files",
          tnd_status_name(tnd_status(code)));
    }
    return code;
  }();
  return refusal == status::ok;
}

}  // namespace

result<ring_settings> ring_settings::of_environment() {
  static constexpr std::string_view direct_names[] = {"auto", "on", "off"};
  static constexpr std::string_view ring_names[] = {"on", "off"};
  uint32_t direct = uint32_t(file_direct::automatic), ring = 0;
  if (auto const code = environment_choice("TND_FILE_DIRECT", direct_names, direct);
      code != status::ok)
    return code;
  if (auto const code = environment_choice("TND_IO_URING", ring_names, ring); code != status::ok)
    return code;
  return ring_settings{file_direct(direct), ring == 0 && ring_usable()};
}

std::unique_ptr<store> ring_store_create(std::shared_ptr<ring_engine> engine, bool ring,
                                         blocking_limits limits) {
  return std::make_unique<ring_store>(std::move(engine), ring, limits);
}

}  // namespace tanada::port
