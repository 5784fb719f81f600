// backends/hostgpu/host_gpu.cc: the host executor as a gpu: kernels run on processors.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "backends/hostgpu/host_blocks.hpp"
#include "backends/hostgpu/host_queue.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "executor/launch_queue.hpp"
#include "executor/launch_refusal.hpp"
#include "seams/gpu/gpu.hpp"
#include "seams/os/racy_copy.hpp"
#include "seams/os/shared_memory.hpp"
#include <tanada/device/detail/simt/host/executor.hpp>

namespace tanada::seams {
namespace {

constexpr size_t device_alignment = 256, host_alignment = 4096;

// Larger blocks are mapped: the kernel provides zeroed pages on first touch.
constexpr size_t mapped_size_min = 1 << 20;
static_assert(mapped_size_min % host_alignment == 0);

size_t round_up(size_t size, size_t alignment) {
  TND_ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0);
  size_t const wanted = size == 0 ? 1 : size;
  return (wanted + alignment - 1) / alignment * alignment;
}

// Device memory is host memory, so pread() reads into it.
class host_direct_files final : public direct_files {
 public:
  explicit host_direct_files(const backends::host_blocks &blocks) : blocks_{blocks} {}

  direct_offer prepare(bool compatible_too) override {
    constexpr char reason[] = "the host executor copies with a processor";
    return {compatible_too ? direct_kind::compatible : direct_kind::unavailable, reason};
  }
  result<uint64_t> open(int descriptor) override {
    return uint64_t(descriptor);
  }
  void close(uint64_t) noexcept override {}
  status read(uint64_t file, uint64_t offset, void *target, size_t size, size_t &moved) override {
    target = blocks_.host_address(target);
    for (moved = 0; moved < size;) {
      ssize_t const got = pread(
          int(file), static_cast<std::byte *>(target) + moved, size - moved, off_t(offset + moved));
      if (got == 0)
        break;
      if (got < 0 && errno != EINTR)
        return status(-errno);
      if (got > 0)
        moved += size_t(got);
    }
    return status::ok;
  }

 private:
  const backends::host_blocks &blocks_;
};

class host_gpu final : public gpu {
 public:
  explicit host_gpu(bool is_guarded)
      : blocks_{is_guarded},
        direct_files_{blocks_},
        info_{"host executor",
              false,
              simt::host::environment_get().resident_blocks,
              uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)),
              -1,
              is_guarded} {}

  const gpu_info &info() const noexcept override {
    return info_;
  }

  result<void *> allocate_device(size_t size) override {
    void *const addr = size <= info_.memory_size
                           ? std::aligned_alloc(device_alignment, round_up(size, device_alignment))
                           : nullptr;
    if (addr == nullptr)
      return fail_allocation(size);
    return addr;
  }

  void free_device(void *addr) noexcept override {
    std::free(addr);
  }

  result<shared_block> allocate_shared(size_t size) override {
    size_t const rounded = round_up(size, shared_mapping::alignment);
    if (rounded < size || rounded > info_.memory_size)
      return fail_allocation(size);
    auto memory = shared_memory::create("tanada-device", rounded);
    if (!memory.ok())
      return memory.error();
    auto addr = map_shared(memory.value().descriptor(), rounded);
    if (!addr.ok())
      return addr.error();
    return shared_block{addr.value(), rounded, memory.value().release()};
  }
  void free_shared(void *addr, size_t size) noexcept override {
    unmap_shared(addr, size);
  }

  result<void *> map_shared(int descriptor, size_t size) override {
    return blocks_.map(descriptor, size);
  }
  void unmap_shared(void *addr, size_t) noexcept override {
    blocks_.unmap(addr);
  }

  bool is_device_memory(const void *addr) const noexcept override {
    return blocks_.has(addr);
  }

  result<std::unique_ptr<device_queue>> queue_open(uint64_t) override {
    return std::unique_ptr<device_queue>{std::make_unique<backends::host_queue>(blocks_)};
  }

  result<void *> allocate_host(size_t size) override {
    if (size > info_.memory_size)
      return fail_allocation(size);
    size_t const rounded = round_up(size, host_alignment);
    if (rounded < mapped_size_min) {
      void *const addr = std::aligned_alloc(host_alignment, rounded);
      if (addr == nullptr)
        return fail_allocation(size);
      return std::memset(addr, 0, rounded);
    }
    void *const addr =
        mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (addr == MAP_FAILED)
      return fail_allocation(size);
    lock_guard const lock{mutex_};
    mapped_sizes_[addr] = rounded;
    return addr;
  }

  void free_host(void *addr) noexcept override {
    lock_guard const lock{mutex_};
    auto const it = mapped_sizes_.find(addr);
    if (it == mapped_sizes_.end())
      return std::free(addr);
    munmap(addr, it->second);
    mapped_sizes_.erase(it);
  }

  // No-op. A load past the end of a truncated file ends the process; see the contract.
  status register_host(const void *, size_t, host_access) override {
    return status::ok;
  }
  void unregister_host(const void *) noexcept override {}

  // Any fabric can access host memory.
  result<fabric_memory> fabric_view(const void *addr, size_t size) const override {
    auto *const view = const_cast<void *>(blocks_.host_address(addr));
    return fabric_memory{.addr = static_cast<std::byte *>(view), .size = size};
  }
  status flush_fabric_writes() override {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return status::ok;
  }

  status store_word(void *target, uint64_t value) override {
    __atomic_store_n(
        static_cast<uint64_t *>(blocks_.host_address(target)), value, __ATOMIC_RELEASE);
    return status::ok;
  }

  seams::direct_files &direct_files() noexcept override {
    return direct_files_;
  }

  status copy_to_device(void *target, const void *source, size_t size) override {
    return copy(target, source, size);
  }
  status copy_to_host(void *target, const void *source, size_t size) override {
    return copy(target, source, size);
  }

  status fill_device(void *target, uint8_t value, size_t size) override {
    if (size != 0)
      std::memset(blocks_.host_address(target), value, size);
    return status::ok;
  }

  status synchronize(uint64_t deadline_ns) override {
    if (!simt::host::synchronize(deadline_ns)) {
      set_last_message("kernels on the host executor still run at the deadline");
      return status::timed_out;
    }
    // A program compiled by nvcc launches on CUDA, whatever device its instance uses.
    std::string const refused = simt::host::take_refused_launch();
    return refused.empty() ? status::ok
                           : fail(status::invalid, "a launch was refused: {}", refused);
  }

 private:
  // Kernels may access the bytes concurrently, as when counters are read.
  status copy(void *target, const void *source, size_t size) const {
    racy_copy(static_cast<std::byte *>(blocks_.host_address(target)),
              static_cast<const std::byte *>(blocks_.host_address(source)),
              size);
    return status::ok;
  }

  status fail_allocation(size_t size) const {
    return fail(status::no_memory,
                "no {} bytes of memory for kernels; this machine has {} bytes",
                size,
                info_.memory_size);
  }

  backends::host_blocks blocks_;
  host_direct_files direct_files_;
  gpu_info const info_;
  mutex mutex_;
  std::unordered_map<void *, size_t> mapped_sizes_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<gpu> host_gpu_open() {
  const char *const mode = std::getenv("TND_HOST_DEVICE");
  return std::make_unique<host_gpu>(mode != nullptr && std::string_view{mode} == "guarded");
}

}  // namespace tanada::seams
