// backends/linux/thread.cc: scheduling and memory placement of threads.
#include "seams/os/thread.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace tanada::seams {
namespace {

constexpr int preferred = 1;  // MPOL_PREFERRED of <numaif.h>: if the node is full, other nodes are
                              // used
constexpr int node_max = 63;
constexpr int core_size_max = 2;  // processors of a core

// "0-3,8,10-11"
bool parse_processors(const std::string &text, cpu_set_t &set) {
  CPU_ZERO(&set);
  for (const char *position = text.c_str(); *position != 0 && *position != '\n';) {
    char *end = nullptr;
    unsigned long const first = std::strtoul(position, &end, 10);
    if (end == position)
      return false;
    unsigned long last = first;
    if (*end == '-')
      last = std::strtoul(end + 1, &end, 10);
    for (unsigned long processor = first; processor <= last && processor < CPU_SETSIZE;
         processor++) {
      CPU_SET(processor, &set);
    }
    position = *end == ',' ? end + 1 : end;
  }
  return CPU_COUNT(&set) > 0;
}

}  // namespace

void thread_set_precise_sleep() noexcept {
  (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
}

void thread_set_short_slice() noexcept {
  // The first version of the kernel's struct sched_attr, which older headers lack.
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } about{};
  static_assert(sizeof about == 48);
  constexpr uint64_t slice_ns = 100'000;  // the shortest that Linux allows
  if (syscall(SYS_sched_getattr, 0, &about, sizeof about, 0) != 0 || about.policy != SCHED_OTHER)
    return;
  about.size = sizeof about;
  about.runtime = slice_ns;
  (void)syscall(SYS_sched_setattr, 0, &about, 0);
}

void thread_leave_single_core() noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) > core_size_max)
    return;
  for (const char *const name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (std::getenv(name) == nullptr)
      continue;
    std::memset(&allowed, 0xff, sizeof allowed);  // the system leaves out what it does not permit
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
}

void thread_bind_to_node(int node) noexcept {
  if (node < 0)
    return;
  try {
    std::ifstream file{"/sys/devices/system/node/node" + std::to_string(node) + "/cpulist"};
    std::string text;
    cpu_set_t node_processors, allowed;
    if (!std::getline(file, text) || !parse_processors(text, node_processors))
      return;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
      return;
    CPU_AND(&node_processors,
            &node_processors,
            &allowed);  // respect the limits of the user or a container
    if (CPU_COUNT(&node_processors) > 0)
      (void)sched_setaffinity(0, sizeof node_processors, &node_processors);
  } catch (...) {
    return;  // insufficient memory for a string
  }
}

memory_node_preference::memory_node_preference(int node) noexcept : is_set_{false} {
  if (node < 0 || node > node_max)
    return;
  unsigned long const mask = 1ul << node;
  int previous = 0;
  // Only if no policy was set before.
  if (syscall(SYS_get_mempolicy, &previous, nullptr, 0ul, nullptr, 0ul) != 0 || previous != 0)
    return;
  is_set_ = syscall(SYS_set_mempolicy, preferred, &mask, sizeof mask * 8) == 0;
}

memory_node_preference::~memory_node_preference() {
  if (is_set_)
    (void)syscall(SYS_set_mempolicy, 0, nullptr, 0ul);
}

}  // namespace tanada::seams
