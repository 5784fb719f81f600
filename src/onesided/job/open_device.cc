#include "onesided/job/open_device.hpp"

#include <algorithm>

namespace tanada::pgas {
namespace {

// How many processes of the node come before this one.
uint32_t place_on_node(const port::bootstrap &launcher) {
  auto const &ranks = launcher.node_ranks();
  return uint32_t(std::find(ranks.begin(), ranks.end(), launcher.rank()) - ranks.begin());
}

}  // namespace

result<std::unique_ptr<port::gpu>> open_device(const port::bootstrap &launcher,
                                               port::gpu_choice choice) {
  if (choice == port::gpu_choice::host)
    return port::host_gpu_open();
  int const current = port::gpu_current();
  uint32_t const count = port::gpu_count();
  uint32_t const index = current >= 0 ? uint32_t(current)
                         : count == 0 ? 0
                                      : place_on_node(launcher) % count;
  return port::gpu_open(choice, index);
}

}  // namespace tanada::pgas
