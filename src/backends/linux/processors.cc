// backends/linux/processors.cc: the processors of this process, and the identity of the machine.
#include "seams/os/processors.hpp"

#include <sched.h>
#include <unistd.h>

#include <bit>
#include <fstream>
#include <iterator>

namespace tanada::seams {

size_t processor_set::count() const noexcept {
  size_t total = 0;
  for (auto const word : words)
    total += size_t(std::popcount(word));
  return total;
}

processor_set &processor_set::operator|=(const processor_set &added) noexcept {
  for (size_t i = 0; i < words.size(); i++)
    words[i] |= added.words[i];
  return *this;
}

processor_set processors_allowed() noexcept {
  processor_set set;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return set;
  for (size_t i = 0; i < 64 * set.words.size() && i < CPU_SETSIZE; i++) {
    if (CPU_ISSET(i, &allowed))
      set.words[i / 64] |= uint64_t{1} << (i % 64);
  }
  return set;
}

std::string kernel_identity() {
  std::ifstream file{"/proc/sys/kernel/random/boot_id"};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

std::string machine_identity() {
  char link[64];
  ssize_t const size = readlink("/proc/self/ns/net", link, sizeof link);
  return kernel_identity() + '/' + (size > 0 ? std::string(link, size_t(size)) : std::string{"?"});
}

}  // namespace tanada::seams
