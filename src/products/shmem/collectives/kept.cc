#include "products/shmem/collectives/kept.hpp"

#include "core/base/mutex.hpp"
#include "products/shmem/device_side.hpp"

namespace tanada::shmem {
namespace {

struct extremes {
  uint64_t highest, lowest;

  static void combine(void *into, const void *with, size_t count) {
    auto *const target = static_cast<extremes *>(into);
    auto const *const source = static_cast<const extremes *>(with);
    for (size_t i = 0; i < count; i++) {
      target[i] = {std::max(target[i].highest, source[i].highest),
                   std::min(target[i].lowest, source[i].lowest)};
    }
  }
};

// Nothing but the thread that waits can act for this PE, and none of its operations is under way.
bool is_settled(runtime &current) {
  bool const is_alone = current.thread_level == SHMEM_THREAD_SINGLE && !current.has_forked;
  if (!is_alone || current.device)
    return false;
  auto const &kept = *current.coordination;
  if (current.initial.core.is_busy())
    return false;
  if (kept.context.is_busy() || kept.signals.is_busy())
    return false;
  lock_guard const lock{current.contexts_mutex};
  auto const is_busy = [](auto const &each) {
    return each->get()->core.is_busy();
  };
  return std::ranges::none_of(current.contexts, is_busy);
}

}  // namespace

void require_equal(runtime &current, team *of, const char *call, const char *argument,
                   uint64_t value) {
  extremes const mine{value, value};
  extremes all{};
  status const code = collective{of == nullptr ? *current.world : *of}.agree(
      {sizeof mine, extremes::combine}, &all, &mine);
  if (told(code, {call}) != 0)
    return;
  if (all.highest == all.lowest)
    return;
  fatal(call, "%s is %llu here and from %llu to %llu in all PEs: it must be equal", argument,
        static_cast<unsigned long long>(value), static_cast<unsigned long long>(all.lowest),
        static_cast<unsigned long long>(all.highest));
}

void check_addresses(const runtime &current, const collective_call &what) {
  auto const &map = current.job->map();
  auto const check = [&](const void *addr, size_t size) {
    if (size == 0 || map.locate(addr, size, map.me()).where != nullptr)
      return;
    fatal(status::range, {what.name, addr, size, int(map.me())});
  };
  check(what.target, what.target_size);
  check(what.source, what.source_size);
}

int told(status code, const collective_call &what) {
  if (code == status::ok) [[likely]]
    return 0;
  if (code == status::invalid || code == status::no_space)
    return 1;
  auto const *const current = running();
  if (code == status::range)
    check_addresses(*current, what);
  pgas::pe_index const gone = current->job->lost();
  fatal(code,
        {what.name, what.target, what.target_size, int(gone >= 0 ? gone : current->job->me())});
}

team *team_of_call(const runtime &current, shmem_team_t handle, const char *call) {
  auto *const found = team_of(current, handle);
  if (current.options.is_debug && found != nullptr && !current.coordination->teams.has(found))
      [[unlikely]] {
    fatal(call, "the team %p was never made, or has been destroyed", static_cast<void *>(handle));
  }
  return found;
}

shmem_team_t handle_of(const runtime &current, const team *which) noexcept {
  if (which == current.world)
    return SHMEM_TEAM_WORLD;
  if (which == current.shared)
    return SHMEM_TEAM_SHARED;
  if (!which->is_of_devices())
    return reinterpret_cast<shmem_team_t>(const_cast<team *>(which));
  if (which == current.device_world)
    return SHMEM_DEVICE_TEAM_WORLD;
  return which == current.device_shared ? SHMEM_DEVICE_TEAM_SHARED
                                        : device_team_handle(which->slot());
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
  size_t one = 0, all = 0;
  if (__builtin_mul_overflow(count, size, &one) || __builtin_mul_overflow(one, members, &all)) {
    fatal(call, "%zu elements of %zu bytes for each of %zu PEs", count, size, members);
  }
  return one;
}

// As a ptrdiff_t: addresses are counted up by it.
size_t checked_extent(const char *call, const far_group::strides &shape, ptrdiff_t stride,
                      size_t members) {
  size_t count = 0;
  ptrdiff_t step = 0, all = 0;
  if (__builtin_mul_overflow(shape.count, members, &count) ||
      __builtin_mul_overflow(shape.size, stride, &step) ||
      __builtin_mul_overflow(step, count, &all)) {
    fatal(call, "%zu elements of %zu bytes, %td elements apart, for each of %zu PEs", shape.count,
          shape.size, stride, members);
  }
  return all == 0 ? 0 : size_t(all - step) + shape.size;
}

void complete(runtime &current, const char *call) {
  if (current.device) [[unlikely]]
    device_check(current, call);
  status const code = current.initial.core.quiet();
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, nullptr, 0, int(current.job->lost())});
}

// What runtime.hpp asks of teams.
size_t control_size(pgas::pe_index pe_count) noexcept {
  return team_set::control_size(pe_count);
}

status start_teams(runtime &made) {
  auto lane = made.job->lane_acquire(false);
  if (!lane.ok())
    return lane.error();
  auto queue = made.job->device_queue_open(), signals_queue = made.job->device_queue_open();
  if (!queue.ok())
    return queue.error();
  if (!signals_queue.ok())
    return signals_queue.error();
  made.coordination = new collectives{*made.job, lane.value(), std::move(queue).value(),
                                      std::move(signals_queue).value()};
  made.coordination->teams.stalls().start([&made] { return is_settled(made); });
  made.world = &made.coordination->teams.world();
  made.shared = &made.coordination->teams.shared();
  return status::ok;
}

void stop_teams(runtime &ended) noexcept {
  if (ended.coordination == nullptr)
    return;
  pgas::lane *const lane = ended.coordination->lane;
  // All have left their last operation: a failure of it has been told.
  static_cast<void>(ended.coordination->context.quiet());
  static_cast<void>(ended.coordination->signals.quiet());
  delete ended.coordination;
  ended.coordination = nullptr;
  ended.world = nullptr;
  ended.shared = nullptr;
  ended.device_world = nullptr;
  ended.device_shared = nullptr;
  if (lane != nullptr)
    ended.job->lane_release(lane);
}

team_view view_of(const team &which) noexcept {
  return {which.members().pes.data(), uint32_t(which.count())};
}

}  // namespace tanada::shmem
