// Selects the device of a process of a job.
#include "onesided/job/open_device.hpp"

#include <algorithm>

namespace tanada::onesided {
namespace {

// The number of processes of the node before this one.
uint32_t index_on_node(const seams::bootstrap &launcher) {
  auto const &ranks = launcher.node_ranks();
  return uint32_t(std::find(ranks.begin(), ranks.end(), launcher.rank()) - ranks.begin());
}

}  // namespace

result<std::unique_ptr<seams::gpu>> open_device(const seams::bootstrap &launcher,
                                                seams::gpu_choice choice) {
  if (choice == seams::gpu_choice::host)
    return seams::host_gpu_open();
  int const current = seams::gpu_current();
  uint32_t const count = seams::gpu_count();
  uint32_t const index = current >= 0 ? uint32_t(current)
                         : count == 0 ? 0
                                      : index_on_node(launcher) % count;
  return seams::gpu_open(choice, index);
}

}  // namespace tanada::onesided
