#include "seams/os/thread.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace tanada::port {
namespace {

constexpr int preferred = 1;  // MPOL_PREFERRED of <numaif.h>: where the node is full, others do
constexpr int node_max = 63;

// "0-3,8,10-11"
bool parse_processors(const std::string &text, cpu_set_t &set) {
  CPU_ZERO(&set);
  for (const char *at = text.c_str(); *at != 0 && *at != '\n';) {
    char *end = nullptr;
    unsigned long const first = std::strtoul(at, &end, 10);
    if (end == at)
      return false;
    unsigned long last = first;
    if (*end == '-')
      last = std::strtoul(end + 1, &end, 10);
    for (unsigned long each = first; each <= last && each < CPU_SETSIZE; each++)
      CPU_SET(each, &set);
    at = *end == ',' ? end + 1 : end;
  }
  return CPU_COUNT(&set) > 0;
}

}  // namespace

void thread_sleeps_precisely() noexcept {
  (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
}

void thread_runs_briefly() noexcept {
  // The system's struct sched_attr, as of its first version, which older headers do not have.
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } about{};
  static_assert(sizeof about == 48);
  constexpr uint64_t slice_ns = 100'000;  // the shortest that there is
  if (syscall(SYS_sched_getattr, 0, &about, sizeof about, 0) != 0 || about.policy != SCHED_OTHER)
    return;
  about.size = sizeof about;
  about.runtime = slice_ns;
  (void)syscall(SYS_sched_setattr, 0, &about, 0);
}

void thread_bind_to_node(int node) noexcept {
  if (node < 0)
    return;
  try {
    std::ifstream file{"/sys/devices/system/node/node" + std::to_string(node) + "/cpulist"};
    std::string text;
    cpu_set_t near, allowed;
    if (!std::getline(file, text) || !parse_processors(text, near))
      return;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
      return;
    CPU_AND(&near, &near, &allowed);  // what the user or a container has ruled out stays so
    if (CPU_COUNT(&near) > 0)
      (void)sched_setaffinity(0, sizeof near, &near);
  } catch (...) {
    return;  // no memory for a string
  }
}

memory_near_node::memory_near_node(int node) noexcept : set_{false} {
  if (node < 0 || node > node_max)
    return;
  unsigned long const mask = 1ul << node;
  int before = 0;
  // Only where nobody has set a policy of his own.
  if (syscall(SYS_get_mempolicy, &before, nullptr, 0ul, nullptr, 0ul) != 0 || before != 0)
    return;
  set_ = syscall(SYS_set_mempolicy, preferred, &mask, sizeof mask * 8) == 0;
}

memory_near_node::~memory_near_node() {
  if (set_)
    (void)syscall(SYS_set_mempolicy, 0, nullptr, 0ul);
}

}  // namespace tanada::port
