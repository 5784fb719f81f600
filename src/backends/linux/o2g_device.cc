// backends/linux/o2g_device.cc: opens, calls and maps the driver o2g.ko.
#include "seams/os/o2g_device.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tanada/o2g_driver.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::seams {

namespace {

status open_failure(const char *path, int error) {
  switch (error) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return fail(
          status::no_device, "{}: {}: the module o2g is not loaded", path, std::strerror(error));
    case EMFILE:
    case ENFILE:
      return fail(status::too_many_files, "{}: {}", path, std::strerror(error));
    case ENOMEM:
      return fail(status::no_memory, "{}: {}", path, std::strerror(error));
    default:
      return fail(status::no_device, "{}: {}", path, std::strerror(error));
  }
}

status init_failure(const char *path, int error, uint32_t driver_abi) {
  switch (error) {
    case EPROTONOSUPPORT:
      return fail(status::no_device,
                  "{}: the module o2g has ABI {}, and this library has ABI {}: install both from "
                  "one version",
                  path,
                  driver_abi,
                  unsigned(O2G_DRIVER_ABI));
    case ENOMEM:
      return fail(status::no_memory, "{}: {}", path, std::strerror(error));
    default:
      return fail(status::no_device,
                  "{} is not the device of the module o2g: {}",
                  path,
                  std::strerror(error));
  }
}

}  // namespace

result<o2g_device> o2g_device::open(const char *path,
                                    uint32_t socket_count_max,
                                    uint32_t flags,
                                    uint32_t &driver_abi) {
  // O_NONBLOCK: a FIFO of this name does not block.
  int const descriptor = ::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0)
    return open_failure(path, errno);
  o2g_device device{descriptor};
  struct stat file{};
  if (fstat(descriptor, &file) != 0 || !S_ISCHR(file.st_mode))
    return fail(status::no_device, "{} is not a character device", path);
  o2g_binding init{};
  init.abi = O2G_DRIVER_ABI;
  init.flags = flags;
  init.socket_count = socket_count_max;
  int const error = device.call(O2G_IOC_INIT, &init);
  if (error == 0 || error == EPROTONOSUPPORT)
    driver_abi = init.abi;
  if (error != 0)
    return init_failure(path, error, init.abi);
  return device;
}

o2g_device::~o2g_device() {
  for (mapping const &range : mappings_)
    munmap(range.address, range.size);
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

int o2g_device::call(unsigned long request, unsigned long argument) const noexcept {
  return ioctl(descriptor_, request, argument) < 0 ? errno : 0;
}

result<std::byte *> o2g_device::map(uint64_t offset, size_t size) {
  mappings_.reserve(mappings_.size() + 1);
  void *const address =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, off_t(offset));
  if (address == MAP_FAILED) {
    int const error = errno;
    return fail(error == ENOMEM ? status::no_memory : status{-error},
                "cannot map {} bytes at {} of the module o2g: {}",
                size,
                static_cast<unsigned long long>(offset),
                std::strerror(error));
  }
  mappings_.push_back({static_cast<std::byte *>(address), size});
  return static_cast<std::byte *>(address);
}

}  // namespace tanada::seams
