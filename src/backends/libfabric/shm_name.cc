// backends/libfabric/shm_name.cc: names of shared memory that identify their process.
#include "backends/libfabric/shm_name.hpp"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

namespace tanada::backends {
namespace {

constexpr std::string_view prefix = "tanada_";

// Field 22 of /proc/<pid>/stat: the start time of the process in clock ticks. Empty if there is no
// such process or it is a zombie.
std::optional<uint64_t> start_time(uint64_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  auto position = text.rfind(')');  // the process name before it may contain any character
  if (position == std::string::npos || position + 2 >= text.size() || text[position + 2] == 'Z' ||
      text[position + 2] == 'X')
    return {};
  for (int field = 2; field < 22 && position != std::string::npos; field++) {
    position = text.find(' ', position + 1);
  }
  if (position == std::string::npos)
    return {};
  uint64_t value = 0;
  auto const parsed = std::from_chars(text.data() + position + 1, text.data() + text.size(), value);
  if (parsed.ec != std::errc{})
    return {};
  return value;
}

// Parses the two numbers of "tanada_<pid>_<start>".
bool parse(std::string_view owner, uint64_t &pid, uint64_t &start) {
  if (!owner.starts_with(prefix))
    return false;
  owner.remove_prefix(prefix.size());
  auto const middle = owner.find('_');
  if (middle == owner.npos)
    return false;
  auto const first = std::from_chars(owner.data(), owner.data() + middle, pid);
  auto const second =
      std::from_chars(owner.data() + middle + 1, owner.data() + owner.size(), start);
  return first.ec == std::errc{} && first.ptr == owner.data() + middle &&
         second.ec == std::errc{} && second.ptr == owner.data() + owner.size();
}

}  // namespace

std::string shm_name_create() {
  static std::atomic<uint64_t> count{0};
  auto const pid = uint64_t(getpid());
  return std::string{prefix} + std::to_string(pid) + "_" +
         std::to_string(start_time(pid).value_or(0)) + "_" + std::to_string(count++);
}

std::string_view shm_name_owner(std::string_view address) {
  auto const begin = address.find(prefix);
  if (begin == address.npos)
    return {};
  auto const owner = address.substr(begin);
  auto const middle = owner.find('_', prefix.size());
  if (middle == owner.npos)
    return {};
  auto const end = owner.find('_', middle + 1);
  return end == owner.npos ? std::string_view{} : owner.substr(0, end);
}

process_state shm_name_process(std::string_view owner) {
  uint64_t pid = 0, start = 0;
  if (!parse(owner, pid, start))
    return process_state::unknown;
  auto const start_ticks = start_time(pid);
  return start_ticks && *start_ticks == start ? process_state::alive : process_state::dead;
}

void shm_names_sweep() {
  std::error_code failed;
  std::filesystem::directory_iterator entry{"/dev/shm", failed};
  for (; !failed && entry != std::filesystem::directory_iterator{}; entry.increment(failed)) {
    auto const name = entry->path().filename().string();
    if (!name.starts_with(prefix))
      continue;
    if (shm_name_process(shm_name_owner(name)) != process_state::dead)
      continue;
    std::error_code error;  // set for a file of another user
    auto const changed = std::filesystem::last_write_time(entry->path(), error);
    if (error || std::filesystem::file_time_type::clock::now() - changed < std::chrono::minutes{10})
      continue;
    std::filesystem::remove(entry->path(), error);
  }
}

}  // namespace tanada::backends
