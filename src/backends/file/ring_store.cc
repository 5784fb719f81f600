// backends/file/ring_store.cc: a store over an engine with descriptors, and its settings from the
// environment.
#include "backends/file/file_ring.hpp"
#include "backends/file/ring_engine.hpp"
#include "core/base/config.hpp"
#include "core/base/log.hpp"

#include <tanada/status.h>

namespace tanada::backends {
namespace {

class ring_store final : public seams::store {
 public:
  ring_store(std::shared_ptr<ring_engine> engine, bool ring, seams::blocking_limits limits)
      : engine_{std::move(engine)},
        blocking_{seams::blocking_store_create(engine_, limits)},
        ring_{ring} {}

  std::string_view scheme() const noexcept override {
    return engine_->scheme();
  }

  result<std::unique_ptr<seams::store_queue>> queue_create(uint32_t depth) override {
    auto workers = blocking_->queue_create(depth);
    if (!workers.ok() || !ring_)
      return workers;
    auto queue = file_ring_queue_create(engine_, std::move(workers).value(), depth);
    if (queue.ok())
      return queue;
    log(log_level::info,
        "{}: cannot create an io_uring for a queue ({}); using worker threads",
        engine_->scheme(),
        tnd_status_name(tnd_status(queue.error())));
    return blocking_->queue_create(depth);
  }

  void attach(const seams::device_window &window, bool compatible_too) override {
    seams::store::attach(window, compatible_too);
    engine_->attach(window, compatible_too);
  }

  seams::file_access access(seams::store_file file) const override {
    seams::file_access result = engine_->access(file);
    if (engine_->find(file) == nullptr)
      result.direct = engine_->direct(file).value_or(seams::store::access(file).direct);
    return result;
  }

 private:
  std::shared_ptr<ring_engine> engine_;
  std::unique_ptr<seams::store> blocking_;
  bool ring_;
};

bool is_ring_usable() {
  static const status refusal = [] {
    auto const code = file_ring_probe();
    if (code != status::ok) {
      log(log_level::info,
          "file: io_uring is not available ({}); using worker threads",
          tnd_status_name(tnd_status(code)));
    }
    return code;
  }();
  return refusal == status::ok;
}

}  // namespace

result<ring_settings> ring_settings::from_environment() {
  static constexpr std::string_view direct_names[] = {"auto", "on", "off"};
  static constexpr std::string_view ring_names[] = {"on", "off"};
  uint32_t direct = uint32_t(file_direct::automatic), ring = 0;
  if (auto const code = environment_choice("TND_FILE_DIRECT", direct_names, direct);
      code != status::ok)
    return code;
  if (auto const code = environment_choice("TND_IO_URING", ring_names, ring); code != status::ok)
    return code;
  return ring_settings{file_direct(direct), ring == 0 && is_ring_usable()};
}

std::unique_ptr<seams::store> ring_store_create(std::shared_ptr<ring_engine> engine,
                                                bool ring,
                                                seams::blocking_limits limits) {
  return std::make_unique<ring_store>(std::move(engine), ring, limits);
}

}  // namespace tanada::backends
