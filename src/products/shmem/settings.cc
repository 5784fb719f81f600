// Reading and printing the settings of the environment.
#include <tanada/version.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/settings.hpp"
#include "products/shmem/runtime.hpp"
#include "products/shmem/symmetric_size.hpp"

namespace tanada::shmem {
namespace {

// Reads SHMEM_x, or else the deprecated SMA_x.
struct variable {
  const char *name, *value;  // value: null or empty if neither is set
};
variable read_variable(const char *name, const char *old_name) {
  if (const char *const value = std::getenv(name); value != nullptr && *value != '\0')
    return {name, value};
  return {old_name, std::getenv(old_name)};
}

bool is_on(const char *name, const char *old_name) {
  const char *const value = read_variable(name, old_name).value;
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

}  // namespace

namespace {

status read_size(const variable &setting, size_t &size) {
  if (setting.value == nullptr || *setting.value == '\0')
    return status::ok;
  auto read = parse_symmetric_size(setting.value);
  if (!read.ok()) {
    return fail(read.error(),
                "{}={} is not a valid size: use bytes, or a number with K, M, G or T, such as 512M",
                setting.name,
                setting.value);
  }
  size = std::max(size_t{4096}, read.value());
  return status::ok;
}

}  // namespace

result<size_t> parse_symmetric_size(const char *text) {
  constexpr uint64_t addressed_size = uint64_t{1} << 48;  // the address range of a processor
  std::string_view const whole{text};
  size_t const unit = whole.find_first_not_of("0123456789.");
  bool const has_unit = unit != std::string_view::npos;
  auto parsed = parse_size(has_unit ? whole.substr(0, unit + 1) : whole);
  if (!parsed.ok())
    return parsed.error();
  if (parsed.value() >= addressed_size)
    return status::range;
  return size_t{parsed.value()};
}

status settings::read_environment() {
  TND_TRY(settings_check());
  TND_TRY(read_size(read_variable("SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE"), job.heap_size));
  if (device_support != 0) {
    constexpr const char *name = "SHMEM_DEVICE_SYMMETRIC_SIZE";
    job.device_heap_size = job.heap_size;
    TND_TRY(read_size({name, std::getenv(name)}, job.device_heap_size));
  }
  is_debug = is_on("SHMEM_DEBUG", "SMA_DEBUG");
  prints_info = is_on("SHMEM_INFO", "SMA_INFO");
  prints_version = is_on("SHMEM_VERSION", "SMA_VERSION");
  return job.read_environment();
}

void settings::print() const {
  if (prints_version || prints_info) {
    std::printf("%s: OpenSHMEM %d.%d, version %s of the library\n",
                SHMEM_VENDOR_STRING,
                SHMEM_MAJOR_VERSION,
                SHMEM_MINOR_VERSION,
                TND_VERSION_STRING);
  }
  if (prints_info) {
    auto const or_text = [](const std::string &value, const char *empty) {
      return value.empty() ? empty : value.c_str();
    };
    std::printf(
        "  SHMEM_SYMMETRIC_SIZE  bytes of each PE's symmetric heap, or with K, M, G, T: %zu\n",
        job.heap_size);
    if (job.device != nullptr) {
      std::printf("  SHMEM_DEVICE_SYMMETRIC_SIZE  the same in memory of its device (%s): %zu\n",
                  job.device->info().name.c_str(),
                  job.device_heap_size);
    } else {
      std::printf(
          "  SHMEM_DEVICE_SYMMETRIC_SIZE  the same in memory of its device: not requested\n");
    }
    std::printf("  SHMEM_DEBUG           check arguments that cost time to check: %s\n",
                is_debug ? "on" : "off");
    std::printf("  SHMEM_VERSION         print the version: %s\n", prints_version ? "on" : "off");
    std::printf("  SHMEM_INFO            print this: on\n");
    std::printf("  TND_PGAS_NODE         PEs that share memory: %s\n",
                or_text(job.node, "those of a machine"));
    std::printf("  TND_PGAS_FABRIC       libfabric's provider: %s\n",
                or_text(job.fabric, "chosen"));
    std::printf("  TND_PGAS_INTERFACE    the network interface: %s\n",
                or_text(job.interface, "the provider's choice"));
    std::printf("  TND_PGAS_TIMEOUT      for the start and for operations: %.3f s\n",
                double(job.timeout_ns) / 1e9);
    std::printf("  TND_PGAS_DEVICE       memory of devices elsewhere: %s\n",
                onesided::device_path_names[uint32_t(job.device_transfer_path)].data());
    std::printf("  TND_PGAS_LANES        endpoints, for contexts elsewhere: %u\n",
                job.lane_count_max);
  }
  std::fflush(stdout);
}

}  // namespace tanada::shmem
