// tanada/device/detail/tier/lookup.hpp: the lookup of a page by a group, without a pin. The caller
// copies the bytes and then calls table_ref::is_unchanged().
#pragma once

#include "../simt/any_group.hpp"
#include "../simt/copy.hpp"
#include "table.hpp"

namespace tanada::tier {

// begin() issues the loads where it can, so that they overlap with other work. The result of
// finish() is valid at least in the leader (rank 0).
//
// A group that has a whole warp looks up by its first warp, of which each lane loads one way.
template <simt::scope Scope>
class group_lookup {
 public:
  TND_DEVICE void begin(simt::any_group group, const table_ref<Scope> &table, u64 key) {
    if (has_warp(group) && group.rank() < simt::warp_size)
      load_way(table, key);
  }
  TND_DEVICE peek_result finish(simt::any_group group,
                                const table_ref<Scope> &table,
                                u64 key) const {
    if (!has_warp(group))
      return group.rank() == 0 ? table.peek(key) : peek_result{no_frame, 0};
    return group.rank() < simt::warp_size ? choose() : peek_result{no_frame, 0};
  }

 private:
  static_assert(ways_max <= simt::warp_size);

  TND_DEVICE static bool has_warp(simt::any_group group) {
    return group.size() >= simt::warp_size && simt::whole_warp::is_possible();
  }
  TND_DEVICE void load_way(const table_ref<Scope> &table, u64 key) {
    u32 const lane = simt::whole_warp{}.rank();
    u32 const frame = table.set_of(key) * table.shape.ways + lane;
    u32 version = 0;
    if (lane < table.shape.ways && table.is_match(frame, key, version))
      entry_ = {frame, version};
  }
  TND_DEVICE peek_result choose() const {
    u32 const lanes = simt::whole_warp{}.mask();
    u32 const matches = simt::ballot(lanes, entry_.frame != no_frame);
    if (matches == 0)
      return {no_frame, 0};
    u32 const lane = simt::first_bit(matches);
    return {simt::shuffle(lanes, entry_.frame, lane), simt::shuffle(lanes, entry_.version, lane)};
  }

  peek_result entry_{no_frame, 0};  // of this lane's way
};

}  // namespace tanada::tier
