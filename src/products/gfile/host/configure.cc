// products/gfile/host/configure.cc: an instance's settings from defaults, caller and environment.
#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <thread>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/settings.hpp"
#include "products/gfile/host/session.hpp"
#include <tanada/device/detail/gfile/state.hpp>

namespace tanada::gfile {

namespace {

constexpr uint64_t direct_window_size_limit = uint64_t{1} << 40;
static_assert(file_count_limit == 16384);  // as in the message below

struct setting_range {
  const char *field;
  uint64_t value, min, max;
  const char *meaning;
};

bool is_page_size(uint32_t size) {
  return std::has_single_bit(size) && size >= 4096 && size <= (2u << 20);
}

status check(const tnd_gfile_config &settings) {
  if (!is_page_size(settings.page_size))
    return fail(
        status::invalid,
        "tnd_gfile_config.page_size is {}; it must be a power of two from 4096 to 2097152 bytes",
        settings.page_size);
  constexpr uint64_t unlimited = ~uint64_t{0};
  uint64_t const page = settings.page_size;
  setting_range const ranges[] = {
      {"device_tier_size",
       settings.device_tier_size,
       page,
       unlimited,
       "at least one page, in bytes"},
      {"host_tier_size", settings.host_tier_size, page, unlimited, "at least one page, in bytes"},
      {"replacement", settings.replacement, 0, TND_GFILE_CLOCK, "fifo 0, lru 1 or clock 2"},
      {"service_threads", settings.service_threads, 0, 64, "0 to 64"},
      {"file_count_max", settings.file_count_max, 1, file_count_limit, "1 to 16384"},
      {"device", settings.device, 0, TND_GFILE_DEVICE_CUDA, "auto 0, host 1 or cuda 2"},
      {"direct", settings.direct, 0, TND_GFILE_DIRECT_OFF, "auto 0, on 1 or off 2"},
      {"mapping", settings.mapping, 0, TND_GFILE_MAPPING_OFF, "auto 0 or off 1"},
      {"direct_window_size",
       settings.direct_window_size,
       page,
       direct_window_size_limit,
       "from one page to 1 TiB, in bytes"},
      {"wait_timeout_ns",
       settings.wait_timeout_ns,
       1,
       unlimited,
       "above 0; TND_NO_DEADLINE means no timeout"},
      {"flags", settings.flags, 0, 0, "0"},
      {"timeout_ns",
       settings.timeout_ns,
       1,
       unlimited,
       "above 0; TND_NO_DEADLINE means no timeout"},
  };
  for (setting_range const &range : ranges) {
    if (range.value < range.min || range.value > range.max)
      return fail(status::invalid,
                  "tnd_gfile_config.{} is {}; it must be {}",
                  range.field,
                  range.value,
                  range.meaning);
  }
  return status::ok;
}

status read_environment(tnd_gfile_config &settings) {
  static constexpr std::string_view policies[] = {"fifo", "lru", "clock"};
  static constexpr std::string_view switches[] = {"auto", "on", "off"};
  static constexpr std::string_view mappings[] = {"auto", "off"};
  static constexpr std::string_view devices[] = {"auto", "host", "cuda"};
  TND_TRY(settings_check());
  uint64_t page_size = settings.page_size;
  TND_TRY(environment_size("TND_GFILE_PAGE_SIZE", page_size));
  settings.page_size = page_size > UINT32_MAX ? UINT32_MAX : uint32_t(page_size);
  TND_TRY(environment_size("TND_GFILE_DEVICE_TIER_SIZE", settings.device_tier_size));
  TND_TRY(environment_size("TND_GFILE_HOST_TIER_SIZE", settings.host_tier_size));
  TND_TRY(environment_choice("TND_GFILE_REPLACEMENT", policies, settings.replacement));
  TND_TRY(environment_count("TND_GFILE_SERVICE_THREADS", 0, 64, settings.service_threads));
  TND_TRY(environment_duration_ns("TND_GFILE_TIMEOUT", settings.timeout_ns));
  TND_TRY(environment_duration_ns("TND_GFILE_WAIT_TIMEOUT", settings.wait_timeout_ns));
  TND_TRY(
      environment_count("TND_GFILE_FILE_COUNT_MAX", 1, file_count_limit, settings.file_count_max));
  TND_TRY(environment_choice("TND_GFILE_DIRECT", switches, settings.direct));
  TND_TRY(environment_choice("TND_GFILE_MAPPING", mappings, settings.mapping));
  TND_TRY(environment_size("TND_GFILE_DIRECT_WINDOW_SIZE", settings.direct_window_size));
  TND_TRY(environment_size("TND_GFILE_MAPPING_SIZE_MAX", settings.mapping_size_max));
  TND_TRY(environment_choice("TND_GFILE_DEVICE", devices, settings.device));
  return environment_count("TND_GFILE_DEVICE_INDEX", 0, 1023, settings.device_index);
}

}  // namespace

result<tnd_gfile_config> configure(const tnd_gfile_config *config) {
  tnd_gfile_config settings = TND_GFILE_CONFIG_INIT;
  if (config != nullptr) {
    // A program built with an older header has fewer fields; the missing ones keep their defaults.
    if (config->struct_size < offsetof(tnd_gfile_config, direct) ||
        config->struct_size > sizeof settings)
      return fail(status::invalid,
                  "tnd_gfile_config.struct_size is {}; start from TND_GFILE_CONFIG_INIT ({})",
                  config->struct_size,
                  sizeof settings);
    std::memcpy(&settings, config, config->struct_size);
    settings.struct_size = sizeof settings;
  }
  if (status const code = read_environment(settings); code != status::ok)
    return code;
  if (status const code = check(settings); code != status::ok)
    return code;
  return settings;
}

}  // namespace tanada::gfile
