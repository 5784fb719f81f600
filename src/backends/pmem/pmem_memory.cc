// backends/pmem/pmem_memory.cc: see pmem_memory.hpp.
#include "backends/pmem/pmem_memory.hpp"

#include <libpmem.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t default_alignment = uint64_t{2} << 20;  // of a device

// The alignment that a device requires of its mappings.
uint64_t device_alignment(const struct stat &device) {
  std::string const folder = "/sys/dev/char/" + std::to_string(major(device.st_rdev)) + ":" +
                             std::to_string(minor(device.st_rdev));
  for (const char *const name : {"/align", "/device/align"}) {
    uint64_t alignment = 0;
    std::ifstream{folder + name} >> alignment;
    if (alignment != 0)
      return alignment;
  }
  return default_alignment;
}

class pmem_mapping final : public seams::persistent_mapping {
 public:
  pmem_mapping(void *addr, uint64_t size, uint64_t granule)
      : addr_{addr}, size_{size}, granule_{granule} {
    TND_ASSERT(addr != nullptr && granule != 0);
  }
  ~pmem_mapping() override {
    (void)pmem_unmap(addr_, size_);
  }
  std::byte *addr() const noexcept override {
    return static_cast<std::byte *>(addr_);
  }
  uint64_t size() const noexcept override {
    return size_;
  }
  uint64_t granule() const noexcept override {
    return granule_;
  }
  void flush(const std::byte *begin, uint64_t size) override {
    TND_ASSERT(begin >= addr() && begin + size <= addr() + size_);
    pmem_flush(begin, size);
  }
  void drain() override {
    pmem_drain();
  }

 private:
  void *const addr_;
  uint64_t const size_, granule_;
};

class pmem_library final : public seams::persistent_memory {
 public:
  bool is_device(int descriptor) const override {
    struct stat file_status{};
    return fstat(descriptor, &file_status) == 0 && S_ISCHR(file_status.st_mode);
  }
  result<std::unique_ptr<seams::persistent_mapping>> map(int descriptor) override {
    struct stat file_status{};
    if (fstat(descriptor, &file_status) != 0)
      return fail(status(-errno), "persistent memory: {}", std::strerror(errno));
    // The descriptor's own file, whatever has its name meanwhile. The libpmem call maps all of it.
    std::string const path = "/proc/self/fd/" + std::to_string(descriptor);
    size_t size = 0;
    int is_persistent = 0;
    void *const addr = pmem_map_file(path.c_str(), 0, 0, 0, &size, &is_persistent);
    if (addr == nullptr)
      return fail(status(-errno), "persistent memory: {}", pmem_errormsg());
    bool const is_device = S_ISCHR(file_status.st_mode);
    uint64_t const granule =
        is_device ? device_alignment(file_status) : uint64_t(sysconf(_SC_PAGESIZE));
    auto mapping = std::make_unique<pmem_mapping>(addr, size, granule);
    if (is_persistent == 0) {
      set_last_message("it is not in persistent memory, which is mapped by MAP_SYNC");
      return status::not_supported;
    }
    return std::unique_ptr<seams::persistent_mapping>{std::move(mapping)};
  }
};

}  // namespace

seams::persistent_memory &pmem_memory() {
  static pmem_library instance;
  return instance;
}

}  // namespace tanada::backends
