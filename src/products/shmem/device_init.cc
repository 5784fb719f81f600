// Choosing a PE's device at startup.
#include "products/shmem/device_init.hpp"

#include "core/base/log.hpp"
#include "onesided/job/open_device.hpp"
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

struct support {
  uint32_t any_pe, all_pes;

  static void combine(void *target_array, const void *source_array, size_t count) {
    auto *const target = static_cast<support *>(target_array);
    auto const *const source = static_cast<const support *>(source_array);
    for (size_t i = 0; i < count; i++)
      target[i] = {target[i].any_pe | source[i].any_pe, target[i].all_pes & source[i].all_pes};
  }
};

}  // namespace

result<std::unique_ptr<seams::gpu>> choose_device(const seams::bootstrap &launcher) {
  auto choice = device_choice();
  if (!choice.ok())
    return choice.error();
  return onesided::open_device(launcher, choice.value());
}

status start_device(runtime &current) {
  TND_ASSERT(current.device != nullptr && current.coordination != nullptr);
  uint32_t const wanted = uint32_t(current.options.device_support);
  support const own_support{wanted, wanted};
  support agreed{};
  TND_TRY(collective{*current.world}.agree(
      {sizeof own_support, support::combine}, &agreed, &own_support));
  if (agreed.any_pe != agreed.all_pes) {
    return fail(
        status::invalid,
        "this PE requests SHMEM_DEVICE_* 0x{:x}, others 0x{:x}: all PEs must request the same",
        wanted,
        wanted == agreed.all_pes ? agreed.any_pe : agreed.all_pes);
  }
  TND_TRY(current.coordination->teams.start_devices());
  current.device_world = current.coordination->teams.device_world();
  current.device_shared = current.coordination->teams.device_shared();
  current.device_support = int(wanted);
  if ((wanted & SHMEM_DEVICE_KERNEL_INIT) == 0)
    return status::ok;
  status const code = device_start(current);
  if (code == status::not_supported) {
    current.device_support &= ~SHMEM_DEVICE_KERNEL_INIT;
    return status::ok;
  }
  return code;
}

}  // namespace tanada::shmem
