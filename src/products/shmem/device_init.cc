#include "products/shmem/device_init.hpp"

#include "core/base/log.hpp"
#include "onesided/job/open_device.hpp"
#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

struct support {
  uint32_t any, all;

  static void combine(void *into, const void *with, size_t count) {
    auto *const target = static_cast<support *>(into);
    auto const *const other = static_cast<const support *>(with);
    for (size_t i = 0; i < count; i++)
      target[i] = {target[i].any | other[i].any, target[i].all & other[i].all};
  }
};

}  // namespace

result<std::unique_ptr<port::gpu>> choose_device(const port::bootstrap &launcher) {
  auto choice = device_choice();
  if (!choice.ok())
    return choice.error();
  return pgas::open_device(launcher, choice.value());
}

status start_device(runtime &made) {
  uint32_t const wanted = uint32_t(made.options.device_support);
  support const mine{wanted, wanted};
  support agreed{};
  TND_TRY(collective{*made.world}.agree({sizeof mine, support::combine}, &agreed, &mine));
  if (agreed.any != agreed.all) {
    return fail(
        status::invalid,
        "this PE asks for 0x%x of SHMEM_DEVICE_*, others for 0x%x: they must be equal in all",
        wanted, wanted == agreed.all ? agreed.any : agreed.all);
  }
  TND_TRY(made.coordination->teams.start_devices());
  made.device_world = made.coordination->teams.device_world();
  made.device_shared = made.coordination->teams.device_shared();
  made.device_support = int(wanted);
  if ((wanted & SHMEM_DEVICE_KERNEL_INIT) == 0)
    return status::ok;
  status const code = device_start(made);
  if (code == status::not_supported) {
    made.device_support &= ~SHMEM_DEVICE_KERNEL_INIT;
    return status::ok;
  }
  return code;
}

}  // namespace tanada::shmem
