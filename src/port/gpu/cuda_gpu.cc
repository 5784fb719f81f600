#include "port/gpu/cuda_gpu.hpp"

#include <tanada/status.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/log.hpp"
#include "simt/host/refused.hpp"

namespace tanada::port {
namespace {

// The driver waits without a limit; a thread of ours does it, so that whoever asked can stop waiting. The thread
// outlives its gpu when the device never finishes: hence the shared state.
class bounded_synchronizer {
 public:
  bounded_synchronizer(const tnd_gpu_plugin &table, uint32_t device_index)
      : state_{std::make_shared<state>(table, device_index)} {}

  ~bounded_synchronizer() {
    std::lock_guard const lock{state_->mutex};
    state_->stop = true;
    state_->wanted.notify_all();
  }

  status wait(uint64_t deadline_ns, std::string &message) {
    state &s = *state_;
    std::unique_lock lock{s.mutex};
    if (!s.started) std::thread{[shared = state_] { serve(*shared); }}.detach();
    s.started = true;
    uint64_t const request = ++s.requested_count;
    s.wanted.notify_all();
    auto const deadline = std::chrono::steady_clock::time_point{
        std::chrono::nanoseconds(deadline_ns < uint64_t(INT64_MAX) ? int64_t(deadline_ns) : INT64_MAX)};
    if (!s.done.wait_until(lock, deadline, [&] { return s.finished_count >= request; })) return status::timed_out;
    message = s.message;
    return s.outcome;
  }

 private:
  struct state {
    state(const tnd_gpu_plugin &plugin_table, uint32_t index) : table{plugin_table}, device_index{index} {}
    const tnd_gpu_plugin &table;
    uint32_t const device_index;
    std::mutex mutex;  // guards what follows
    std::condition_variable wanted, done;
    uint64_t requested_count = 0, finished_count = 0;
    status outcome = status::ok;
    std::string message;
    bool started = false, stop = false;
  };

  static void serve(state &s) {
    std::unique_lock lock{s.mutex};
    for (;;) {
      s.wanted.wait(lock, [&] { return s.stop || s.requested_count != s.finished_count; });
      if (s.stop) return;
      uint64_t const covered = s.requested_count;  // later ones may have launched after this wait began
      lock.unlock();
      auto const outcome = status(s.table.synchronize(s.device_index));
      std::string message = outcome == status::ok ? "" : s.table.last_message();
      lock.lock();
      s.outcome = outcome;
      s.message = std::move(message);
      s.finished_count = covered;
      s.done.notify_all();
    }
  }

  std::shared_ptr<state> state_;
};

class cuda_gpu final : public gpu {
 public:
  cuda_gpu(const tnd_gpu_plugin &table, uint32_t device_index, gpu_info info)
      : table_{table}, device_index_{device_index}, info_{std::move(info)}, synchronizer_{table, device_index} {}

  const gpu_info &info() const noexcept override { return info_; }

  result<void *> allocate_device(size_t size) override {
    void *addr = nullptr;
    TND_TRY(checked(table_.allocate_device(device_index_, size, &addr)));
    return addr;
  }
  void free_device(void *addr) noexcept override { table_.free_device(device_index_, addr); }

  result<void *> allocate_host(size_t size) override {
    void *addr = nullptr;
    TND_TRY(checked(table_.allocate_host(device_index_, size, &addr)));
    return addr;
  }
  void free_host(void *addr) noexcept override { table_.free_host(device_index_, addr); }

  status copy_to_device(void *target, const void *source, size_t size) override {
    return checked(table_.copy(device_index_, target, source, size));
  }
  status copy_to_host(void *target, const void *source, size_t size) override {
    return checked(table_.copy(device_index_, target, source, size));
  }
  status fill_device(void *target, uint8_t value, size_t size) override {
    return checked(table_.fill(device_index_, target, value, size));
  }

  status synchronize(uint64_t deadline_ns) override {
    TND_TRY(wait_for_kernels(deadline_ns));
    std::string const refused = simt::host::take_refused_launch();
    return refused.empty() ? status::ok : fail(status::invalid, "a launch was refused: %s", refused.c_str());
  }

 private:
  status checked(tnd_status code) const {
    return code == TND_OK ? status::ok : fail(status(code), "%s", table_.last_message());
  }

  status wait_for_kernels(uint64_t deadline_ns) {
    if (deadline_ns == TND_NO_DEADLINE) return checked(table_.synchronize(device_index_));
    std::string message;
    status const code = synchronizer_.wait(deadline_ns, message);
    if (code == status::timed_out)
      set_last_message("kernels on " + info_.name + " still run at the deadline");
    else if (code != status::ok)
      return fail(code, "%s", message.c_str());
    return code;
  }

  const tnd_gpu_plugin &table_;
  uint32_t const device_index_;
  gpu_info const info_;
  bounded_synchronizer synchronizer_;
};

}  // namespace

result<std::unique_ptr<gpu>> cuda_gpu_open(const tnd_gpu_plugin &table, uint32_t device_index) {
  char name[256] = {};
  gpu_info info{.name = {}, .is_cuda = true, .multiprocessor_count = 0, .memory_size = 0};
  tnd_status const opened =
      table.open(device_index, name, sizeof name, &info.multiprocessor_count, &info.memory_size);
  if (opened != TND_OK) return fail(status(opened), "%s", table.last_message());
  info.name = name;
  return std::unique_ptr<gpu>{std::make_unique<cuda_gpu>(table, device_index, std::move(info))};
}

}  // namespace tanada::port
