#include "port/store/file_store.hpp"

#include "base/config.hpp"
#include "base/log.hpp"
#include "port/store/file_engine.hpp"
#include "port/store/file_ring.hpp"
#include "port/store/op_check.hpp"

#include <tanada/status.h>

namespace tanada::port {
namespace {

class file_store final : public store {
 public:
  file_store(file_direct direct, bool ring) : engine_{std::make_shared<file_engine>(direct)}, ring_{ring} {}

  std::string_view scheme() const noexcept override { return "file"; }

  result<std::unique_ptr<store_queue>> queue_create(uint32_t depth) override {
    auto workers = blocking_->queue_create(depth);
    if (!workers.ok() || !ring_) return workers;
    auto queue = file_ring_queue_create(engine_, std::move(workers).value(), depth);
    if (queue.ok()) return queue;
    log(log_level::info, "file: no ring for a queue (%s): worker threads serve it",
        tnd_status_name(tnd_status(queue.error())));
    return blocking_->queue_create(depth);
  }

  void attach(const device_window &window, bool compatible_too) override { (void)engine_->attach(window, compatible_too); }
  file_access access(store_file file) const override { return engine_->access(file); }

 private:
  // Reads into device memory block, so that many of one file must be able to run at a time.
  static constexpr blocking_limits limits{.worker_count = 16, .workers_per_file = 16};

  std::shared_ptr<file_engine> engine_;
  std::unique_ptr<store> blocking_ = blocking_store_create(engine_, limits);
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

result<std::unique_ptr<store>> file_store_open() {
  static constexpr std::string_view direct_names[] = {"auto", "on", "off"};
  static constexpr std::string_view ring_names[] = {"on", "off"};
  uint32_t direct = uint32_t(file_direct::automatic), ring = 0;
  if (auto const code = environment_choice("TND_FILE_DIRECT", direct_names, direct); code != status::ok) return code;
  if (auto const code = environment_choice("TND_IO_URING", ring_names, ring); code != status::ok) return code;
  return std::unique_ptr<store>{std::make_unique<file_store>(file_direct(direct), ring == 0 && ring_usable())};
}

}  // namespace tanada::port
