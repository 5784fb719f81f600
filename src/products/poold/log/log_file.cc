// Names of log files.
#include "products/poold/log/log_file.hpp"

#include <charconv>
#include <cinttypes>
#include <cstdio>

namespace tanada::pool {
namespace {

constexpr std::string_view name_prefix = "log-", name_suffix = ".tnd";
constexpr size_t digit_count = 16;

}  // namespace

std::string file_url(const std::string &folder, uint64_t file_sequence) {
  char digits[digit_count + 1];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, file_sequence);
  return folder + std::string{name_prefix} + digits + std::string{name_suffix};
}

uint64_t file_sequence_of(const std::string &folder, const std::string &url) {
  if (url.size() != folder.size() + name_prefix.size() + digit_count + name_suffix.size())
    return 0;
  uint64_t sequence = 0;
  const char *const digits = url.data() + folder.size() + name_prefix.size();
  auto const parsed = std::from_chars(digits, digits + digit_count, sequence, 16);
  return parsed.ptr == digits + digit_count && url == file_url(folder, sequence) ? sequence : 0;
}

}  // namespace tanada::pool
