// backends/registry/cuda_gpu.cc: a CUDA device, over the table of the plugin.
#include "backends/registry/cuda_gpu.hpp"

#include <tanada/status.h>

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "executor/launch_refusal.hpp"
#include "observe/trace/trace.hpp"

namespace tanada::backends {
namespace {

// The driver waits without a limit. A detached thread does that, so that the caller can stop
// waiting at its deadline. If the device never finishes, the thread outlives its gpu, hence the
// shared state.
class bounded_synchronizer {
 public:
  bounded_synchronizer(const tnd_gpu_plugin &table, uint32_t device_index)
      : state_{std::make_shared<state>(table, device_index)} {}

  ~bounded_synchronizer() {
    lock_guard const lock{state_->mutex};
    state_->stop = true;
    state_->wanted.notify_all();
  }

  status wait(uint64_t deadline_ns, std::string &message) {
    state &s = *state_;
    unique_lock lock{s.mutex};
    if (!s.started)
      std::thread{[shared = state_] {
        serve(*shared);
      }}.detach();
    s.started = true;
    uint64_t const request = ++s.requested_count;
    s.wanted.notify_all();
    auto const deadline = std::chrono::steady_clock::time_point{std::chrono::nanoseconds(
        deadline_ns < uint64_t(INT64_MAX) ? int64_t(deadline_ns) : INT64_MAX)};
    auto const is_finished = [&] {
      s.mutex.assert_held();
      return s.finished_count >= request;
    };
    if (!s.done.wait_until(lock, deadline, is_finished))
      return status::timed_out;
    message = s.message;
    return s.outcome;
  }

 private:
  struct state {
    state(const tnd_gpu_plugin &plugin_table, uint32_t index)
        : table{plugin_table}, device_index{index} {}
    const tnd_gpu_plugin &table;
    uint32_t const device_index;
    tanada::mutex mutex;
    condition_variable wanted, done;
    uint64_t requested_count TND_GUARDED_BY(mutex) = 0;
    uint64_t finished_count TND_GUARDED_BY(mutex) = 0;
    status outcome TND_GUARDED_BY(mutex) = status::ok;
    std::string message TND_GUARDED_BY(mutex);
    bool started TND_GUARDED_BY(mutex) = false;
    bool stop TND_GUARDED_BY(mutex) = false;
  };

  static void serve(state &s) {
    unique_lock lock{s.mutex};
    for (;;) {
      s.wanted.wait(lock, [&] {
        s.mutex.assert_held();
        return s.stop || s.requested_count != s.finished_count;
      });
      if (s.stop)
        return;
      uint64_t const covered_count =
          s.requested_count;  // later requests may have launched after this wait began
      lock.unlock();
      auto const outcome = status(s.table.synchronize(s.device_index));
      std::string message = outcome == status::ok ? "" : s.table.last_message();
      lock.lock();
      s.outcome = outcome;
      s.message = std::move(message);
      TND_ASSERT(s.finished_count < covered_count && covered_count <= s.requested_count);
      s.finished_count = covered_count;
      s.done.notify_all();
    }
  }

  std::shared_ptr<state> state_;
};

class cuda_direct_files final : public seams::direct_files {
 public:
  cuda_direct_files(const tnd_gpu_plugin &table, uint32_t device_index)
      : table_{table}, device_index_{device_index} {}

  seams::direct_offer prepare(bool compatible_too) override {
    int compatible = 0;
    if (table_.direct_prepare(device_index_, compatible_too ? 1 : 0, &compatible) != TND_OK)
      return {seams::direct_kind::unavailable, table_.last_message()};
    if (compatible == 0)
      return {seams::direct_kind::direct, {}};
    return {seams::direct_kind::compatible, table_.last_message()};
  }
  result<uint64_t> open(int descriptor) override {
    uint64_t file = 0;
    tnd_status const code = table_.direct_open(descriptor, &file);
    if (code != TND_OK)
      return fail(status(code), "{}", table_.last_message());
    return file;
  }
  void close(uint64_t file) noexcept override {
    table_.direct_close(file);
  }
  status read(uint64_t file, uint64_t offset, void *target, size_t size, size_t &moved) override {
    tnd_status const code = table_.direct_read(device_index_, file, offset, target, size, &moved);
    return code == TND_OK ? status::ok : fail(status(code), "{}", table_.last_message());
  }

 private:
  const tnd_gpu_plugin &table_;
  uint32_t const device_index_;
};

class cuda_queue final : public seams::device_queue {
 public:
  cuda_queue(const tnd_gpu_plugin &table, tnd_gpu_queue *queue) : table_{table}, queue_{queue} {}
  ~cuda_queue() override {
    table_.queue_close(queue_);
  }

  status put(void *target, const void *source, size_t size) override {
    return checked(table_.queue_put(queue_, target, source, size));
  }
  status get(void *target, const void *source, size_t size) override {
    return checked(table_.queue_get(queue_, target, source, size));
  }
  status copy(void *target, const void *source, size_t size) override {
    return checked(table_.queue_copy(queue_, target, source, size));
  }
  status copy_rows(void *target, const void *source, const seams::row_shape &shape) override {
    tnd_gpu_rows const rows{shape.row_size, shape.count, shape.target_stride, shape.source_stride};
    return checked(table_.queue_copy_rows(queue_, target, source, &rows));
  }
  status update(void *target, const seams::word_update &request, uint64_t *before) override {
    uint32_t const size = request.element == seams::fabric_element::u32 ? 4 : 8;
    tnd_gpu_update const words{uint32_t(request.kind), size, request.operand, request.compare};
    return checked(table_.queue_update(queue_, target, &words, before));
  }
  status order() override {
    return checked(table_.queue_order(queue_));
  }
  status wait(uint64_t deadline_ns) override {
    return checked(table_.queue_wait(queue_, deadline_ns));
  }

 private:
  // A deadline is not an error to log: the caller chose it.
  status checked(tnd_status code) const {
    if (code == TND_OK) [[likely]]
      return status::ok;
    if (status(code) != status::timed_out)
      return fail(status(code), "{}", table_.last_message());
    set_last_message(table_.last_message());
    return status::timed_out;
  }

  const tnd_gpu_plugin &table_;
  tnd_gpu_queue *const queue_;
};

class cuda_gpu final : public seams::gpu {
 public:
  cuda_gpu(const tnd_gpu_plugin &table, uint32_t device_index, seams::gpu_info info)
      : table_{table},
        device_index_{device_index},
        info_{std::move(info)},
        direct_files_{table, device_index},
        synchronizer_{table, device_index} {}

  const seams::gpu_info &info() const noexcept override {
    return info_;
  }

  result<void *> allocate_device(size_t size) override {
    void *addr = nullptr;
    TND_TRY(checked(table_.allocate_device(device_index_, size, &addr)));
    return addr;
  }
  void free_device(void *addr) noexcept override {
    table_.free_device(device_index_, addr);
  }

  result<seams::shared_block> allocate_shared(size_t size) override {
    seams::shared_block block{.size = size};
    TND_TRY(checked(
        table_.allocate_shared(device_index_, &block.size, &block.addr, &block.descriptor)));
    return block;
  }
  void free_shared(void *addr, size_t size) noexcept override {
    table_.unmap_shared(device_index_, addr, size);
  }
  result<void *> map_shared(int descriptor, size_t size) override {
    void *addr = nullptr;
    TND_TRY(checked(table_.map_shared(device_index_, descriptor, size, &addr)));
    return addr;
  }
  void unmap_shared(void *addr, size_t size) noexcept override {
    table_.unmap_shared(device_index_, addr, size);
  }
  bool is_device_memory(const void *addr) const noexcept override {
    return table_.is_device_memory(addr) != 0;
  }

  result<std::unique_ptr<seams::device_queue>> queue_open(uint64_t timeout_ns) override {
    tnd_gpu_queue *queue = nullptr;
    TND_TRY(checked(table_.queue_open(device_index_, timeout_ns, &queue)));
    return std::unique_ptr<seams::device_queue>{std::make_unique<cuda_queue>(table_, queue)};
  }

  result<void *> allocate_host(size_t size) override {
    void *addr = nullptr;
    TND_TRY(checked(table_.allocate_host(device_index_, size, &addr)));
    return addr;
  }
  void free_host(void *addr) noexcept override {
    table_.free_host(device_index_, addr);
  }

  status register_host(const void *addr, size_t size, seams::host_access access) override {
    return checked(
        table_.register_host(device_index_, addr, size, access == seams::host_access::write));
  }
  void unregister_host(const void *addr) noexcept override {
    table_.unregister_host(device_index_, addr);
  }

  result<seams::fabric_memory> fabric_view(const void *addr, size_t size) const override {
    TND_TRY(checked(table_.fabric_prepare(device_index_)));
    seams::fabric_memory view{
        .size = size, .kind = seams::fabric_memory_kind::cuda, .device = int(device_index_)};
    view.addr = static_cast<std::byte *>(const_cast<void *>(addr));
    return view;
  }
  status flush_fabric_writes() override {
    return checked(table_.fabric_settle(device_index_));
  }

  // A copy of an aligned word is a single transfer.
  status store_word(void *target, uint64_t value) override {
    return copy_to_device(target, &value, sizeof value);
  }

  seams::direct_files &direct_files() noexcept override {
    return direct_files_;
  }

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
    return refused.empty() ? status::ok
                           : fail(status::invalid, "a launch was refused: {}", refused);
  }

 private:
  status checked(tnd_status code) const {
    return code == TND_OK ? status::ok : fail(status(code), "{}", table_.last_message());
  }

  status wait_for_kernels(uint64_t deadline_ns) {
    if (deadline_ns == TND_NO_DEADLINE)
      return checked(table_.synchronize(device_index_));
    std::string message;
    status const code = synchronizer_.wait(deadline_ns, message);
    if (code == status::timed_out)
      set_last_message("kernels on " + info_.name + " still run at the deadline");
    else if (code != status::ok)
      return fail(code, "{}", message);
    return code;
  }

  const tnd_gpu_plugin &table_;
  uint32_t const device_index_;
  seams::gpu_info const info_;
  cuda_direct_files direct_files_;
  bounded_synchronizer synchronizer_;
};

// sysfs spells the bus id in lower case.
int numa_node_of(std::string pci_bus_id) {
  for (char &letter : pci_bus_id)
    letter = char(std::tolower(letter));
  std::ifstream file{"/sys/bus/pci/devices/" + pci_bus_id + "/numa_node"};
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace

result<std::unique_ptr<seams::gpu>> cuda_gpu_open(const tnd_gpu_plugin &table,
                                                  uint32_t device_index) {
  char name[256] = {}, pci_bus_id[16] = {};
  seams::gpu_info info{.name = {}, .is_cuda = true, .multiprocessor_count = 0, .memory_size = 0};
  tnd_status const opened = table.open(
      device_index, name, sizeof name, &info.multiprocessor_count, &info.memory_size, pci_bus_id);
  if (opened != TND_OK)
    return fail(status(opened), "{}", table.last_message());
  info.name = name;
  bool const is_mig = info.name.find(" MIG ") != std::string::npos;
  if (!is_mig)
    info.bus_id = pci_bus_id;
  // A profiler sets this variable when it attaches. Without one, ranges cost time and are not
  // recorded.
  if (std::getenv("NVTX_INJECTION64_PATH") != nullptr)
    observe::trace::draw_ranges({table.range_start, table.range_end});
  info.numa_node = numa_node_of(pci_bus_id);
  return std::unique_ptr<seams::gpu>{
      std::make_unique<cuda_gpu>(table, device_index, std::move(info))};
}

}  // namespace tanada::backends
