#include <bit>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/config.hpp"
#include "base/log.hpp"
#include "gfile/host/session.hpp"
#include "gfile/state.hpp"

namespace tanada::gfile {

namespace {

status check(const tnd_gfile_config &settings) {
  auto const bad = [](const char *field, unsigned long long value, const char *right) {
    return fail(status::invalid, "tnd_gfile_config.%s is %llu; it must be %s", field, value, right);
  };
  if (settings.page_size < 4096 || settings.page_size > (2u << 20) || !std::has_single_bit(settings.page_size))
    return bad("page_size", settings.page_size, "a power of two from 4096 to 2097152 bytes");
  if (settings.device_tier_size < settings.page_size)
    return bad("device_tier_size", settings.device_tier_size, "one page at least, in bytes");
  if (settings.host_tier_size < settings.page_size)
    return bad("host_tier_size", settings.host_tier_size, "one page at least, in bytes");
  if (settings.replacement > TND_GFILE_CLOCK) return bad("replacement", settings.replacement, "fifo 0, lru 1 or clock 2");
  if (settings.service_threads > 64) return bad("service_threads", settings.service_threads, "0 to 64");
  if (settings.file_count_max == 0 || settings.file_count_max > file_count_limit)
    return bad("file_count_max", settings.file_count_max, "1 to 4096");
  if (settings.device > TND_GFILE_DEVICE_CUDA) return bad("device", settings.device, "auto 0, host 1 or cuda 2");
  if (settings.flags != 0) return bad("flags", settings.flags, "0");
  if (settings.timeout_ns == 0) return bad("timeout_ns", 0, "above 0; TND_NO_DEADLINE waits for ever");
  return status::ok;
}

status read_environment(tnd_gfile_config &settings) {
  static constexpr std::string_view policies[] = {"fifo", "lru", "clock"};
  static constexpr std::string_view devices[] = {"auto", "host", "cuda"};
  uint64_t page_size = settings.page_size;
  TND_TRY(environment_size("TND_GFILE_PAGE_SIZE", page_size));
  settings.page_size = page_size > UINT32_MAX ? UINT32_MAX : uint32_t(page_size);
  TND_TRY(environment_size("TND_GFILE_DEVICE_TIER_SIZE", settings.device_tier_size));
  TND_TRY(environment_size("TND_GFILE_HOST_TIER_SIZE", settings.host_tier_size));
  TND_TRY(environment_choice("TND_GFILE_REPLACEMENT", policies, settings.replacement));
  TND_TRY(environment_count("TND_GFILE_SERVICE_THREADS", 0, 64, settings.service_threads));
  TND_TRY(environment_duration_ns("TND_GFILE_TIMEOUT", settings.timeout_ns));
  TND_TRY(environment_count("TND_GFILE_FILE_COUNT_MAX", 1, file_count_limit, settings.file_count_max));
  TND_TRY(environment_choice("TND_GFILE_DEVICE", devices, settings.device));
  return environment_count("TND_GFILE_DEVICE_INDEX", 0, 1023, settings.device_index);
}

}  // namespace

result<tnd_gfile_config> configure(const tnd_gfile_config *given) {
  tnd_gfile_config settings = TND_GFILE_CONFIG_INIT;
  if (given != nullptr) {
    if (given->struct_size < sizeof settings)
      return fail(status::invalid, "tnd_gfile_config.struct_size is %u; start from TND_GFILE_CONFIG_INIT (%zu)",
                  given->struct_size, sizeof settings);
    settings = *given;
  }
  if (status const code = read_environment(settings); code != status::ok) return code;
  if (status const code = check(settings); code != status::ok) return code;
  return settings;
}

}  // namespace tanada::gfile
