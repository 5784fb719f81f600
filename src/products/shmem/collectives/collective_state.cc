// Starting and stopping the teams of a running program, and helpers of the collective calls.
#include "products/shmem/collectives/collective_state.hpp"

#include "core/base/mutex.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

static_assert(device_team_slots == team_count_max, "the handle of a device team names its slot");

struct extremes {
  uint64_t highest, lowest;

  static void combine(void *target_array, const void *source_array, size_t count) {
    auto *const target = static_cast<extremes *>(target_array);
    auto const *const source = static_cast<const extremes *>(source_array);
    for (size_t i = 0; i < count; i++) {
      target[i] = {std::max(target[i].highest, source[i].highest),
                   std::min(target[i].lowest, source[i].lowest)};
    }
  }
};

// Returns true if only the waiting thread can act for this PE and none of its operations is in
// flight.
bool is_settled(runtime &current) {
  bool const is_alone = current.thread_level == SHMEM_THREAD_SINGLE && !current.has_forked;
  if (!is_alone || current.device)
    return false;
  auto const &state = *current.coordination;
  if (current.default_context.core.is_busy())
    return false;
  if (state.context.is_busy() || state.signals.is_busy())
    return false;
  lock_guard const lock{current.contexts_mutex};
  auto const is_busy = [](auto const &storage) {
    return storage->get()->core.is_busy();
  };
  return std::ranges::none_of(current.contexts, is_busy);
}

}  // namespace

void require_equal(
    runtime &current, team *team_ptr, const char *call, const char *argument, uint64_t value) {
  extremes const own_value{value, value};
  extremes combined{};
  status const code = collective{team_ptr == nullptr ? *current.world : *team_ptr}.agree(
      {sizeof own_value, extremes::combine}, &combined, &own_value);
  if (return_code(code, {call}) != 0)
    return;
  if (combined.highest == combined.lowest)
    return;
  fatal(call,
        "{} is {} here and from {} to {} in all PEs: it must be equal in all PEs",
        argument,
        value,
        combined.lowest,
        combined.highest);
}

void check_addresses(const runtime &current, const collective_call &info) {
  auto const &map = current.job->map();
  auto const check = [&](const void *addr, size_t size) {
    if (size == 0 || map.locate(addr, size, map.me()).segment_ptr != nullptr)
      return;
    fatal(status::range, {info.name, addr, size, int(map.me())});
  };
  check(info.target, info.target_size);
  check(info.source, info.source_size);
}

int return_code(status code, const collective_call &info) {
  if (code == status::ok) [[likely]]
    return 0;
  if (code == status::invalid || code == status::no_space)
    return 1;
  auto const *const current = running();
  TND_ASSERT(current != nullptr);
  if (code == status::range)
    check_addresses(*current, info);
  onesided::pe_index const failed_pe = current->job->failed_pe();
  fatal(code,
        {info.name,
         info.target,
         info.target_size,
         int(failed_pe >= 0 ? failed_pe : current->job->me())});
}

team *team_of_call(const runtime &current, shmem_team_t handle, const char *call) {
  auto *const team_ptr = team_of(current, handle);
  if (current.options.is_debug && team_ptr != nullptr && !current.coordination->teams.has(team_ptr))
      [[unlikely]] {
    fatal(call, "the team {} was never made, or has been destroyed", static_cast<void *>(handle));
  }
  return team_ptr;
}

shmem_team_t handle_of(const runtime &current, const team *team_ptr) noexcept {
  TND_ASSERT(team_ptr != nullptr);
  if (team_ptr == current.world)
    return SHMEM_TEAM_WORLD;
  if (team_ptr == current.shared)
    return SHMEM_TEAM_SHARED;
  if (!team_ptr->is_device_team())
    return reinterpret_cast<shmem_team_t>(const_cast<team *>(team_ptr));
  if (team_ptr == current.device_world)
    return SHMEM_DEVICE_TEAM_WORLD;
  return team_ptr == current.device_shared ? SHMEM_DEVICE_TEAM_SHARED
                                           : device_team_handle(team_ptr->slot());
}

team *device_team_of(const runtime &current, shmem_team_t handle) noexcept {
  if (handle == SHMEM_DEVICE_TEAM_WORLD)
    return current.device_world;
  if (handle == SHMEM_DEVICE_TEAM_SHARED)
    return current.device_shared;
  return is_device_team(handle)
             ? current.coordination->teams.device_team_at(device_team_slot(handle))
             : nullptr;
}

size_t checked_size(const char *call, size_t count, size_t size, size_t members) {
  size_t member_size = 0, total = 0;
  if (__builtin_mul_overflow(count, size, &member_size) ||
      __builtin_mul_overflow(member_size, members, &total)) {
    fatal(call, "{} elements of {} bytes for each of {} PEs", count, size, members);
  }
  return member_size;
}

// Computed as ptrdiff_t, because addresses are advanced by it.
size_t checked_extent(const char *call,
                      const fabric_group::strides &shape,
                      ptrdiff_t stride,
                      size_t members) {
  size_t count = 0;
  ptrdiff_t step = 0, total = 0;
  if (__builtin_mul_overflow(shape.count, members, &count) ||
      __builtin_mul_overflow(shape.size, stride, &step) ||
      __builtin_mul_overflow(step, count, &total)) {
    fatal(call,
          "{} elements of {} bytes, {} elements apart, for each of {} PEs",
          shape.count,
          shape.size,
          stride,
          members);
  }
  return total == 0 ? 0 : size_t(total - step) + shape.size;
}

void complete(runtime &current, const char *call) {
  if (current.device) [[unlikely]]
    device_check(current, call);
  status const code = current.default_context.core.quiet();
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, nullptr, 0, int(current.job->failed_pe())});
}

// The functions that runtime.hpp declares for teams.
size_t control_size(onesided::pe_index pe_count) noexcept {
  return team_set::control_size(pe_count);
}

status start_teams(runtime &current) {
  TND_ASSERT(current.coordination == nullptr);
  auto lane = current.job->lane_acquire(false);
  if (!lane.ok())
    return lane.error();
  auto queue = current.job->device_queue_open(), signals_queue = current.job->device_queue_open();
  if (!queue.ok())
    return queue.error();
  if (!signals_queue.ok())
    return signals_queue.error();
  current.coordination = new collective_state{
      *current.job, lane.value(), std::move(queue).value(), std::move(signals_queue).value()};
  current.coordination->teams.stalls().start([&current] { return is_settled(current); });
  current.world = &current.coordination->teams.world();
  current.shared = &current.coordination->teams.shared();
  return status::ok;
}

void stop_teams(runtime &current) noexcept {
  if (current.coordination == nullptr)
    return;
  onesided::lane *const lane = current.coordination->lane;
  // The last operation has ended in all PEs, and a failure of it has been reported.
  static_cast<void>(current.coordination->context.quiet());
  static_cast<void>(current.coordination->signals.quiet());
  delete current.coordination;
  current.coordination = nullptr;
  current.world = nullptr;
  current.shared = nullptr;
  current.device_world = nullptr;
  current.device_shared = nullptr;
  if (lane != nullptr)
    current.job->lane_release(lane);
}

team_view view_of(const team &team_ref) noexcept {
  return {team_ref.members().pes.data(), uint32_t(team_ref.count())};
}

}  // namespace tanada::shmem
