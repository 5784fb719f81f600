// seams/os/o2g_device.hpp: an open of /dev/o2g, the device of the driver o2g.ko. Its calls are
// those of tanada/o2g_driver.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::seams {

class o2g_device {
 public:
  // Opens the device and binds it to this process. `flags`: 0 or O2G_BIND_ENVELOPES. `driver_abi`
  // is set to the driver's ABI, if there is a driver, even if it is another ABI than this
  // library's. no_device: there is no such device, or it cannot be used. too_many_files, no_memory.
  static result<o2g_device> open(const char *path,
                                 uint32_t socket_count_max,
                                 uint32_t flags,
                                 uint32_t &driver_abi);

  o2g_device(o2g_device &&source) noexcept
      : descriptor_{std::exchange(source.descriptor_, -1)},
        mappings_{std::exchange(source.mappings_, {})} {}
  o2g_device &operator=(o2g_device &&) = delete;
  ~o2g_device();  // unmaps and closes

  // Makes a call (O2G_IOC_...). Returns 0 or the system's errno value.
  int call(unsigned long request, void *argument) const noexcept {
    return call(request, reinterpret_cast<unsigned long>(argument));
  }
  int call(unsigned long request, unsigned long argument) const noexcept;

  // The descriptor, for poll(). The device keeps it.
  int descriptor() const noexcept {
    return descriptor_;
  }

  // Maps memory of the driver for as long as this object lives. Not thread-safe.
  result<std::byte *> map(uint64_t offset, size_t size);

 private:
  explicit o2g_device(int descriptor) noexcept : descriptor_{descriptor} {}

  struct mapping {
    std::byte *address;
    size_t size;
  };
  int descriptor_;
  std::vector<mapping> mappings_;
};

}  // namespace tanada::seams
