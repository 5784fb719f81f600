// tanada/device/detail/tier/lookup.hpp: the lookup of a page by a group, without a pin. The caller
// copies the bytes and then calls table_ref::is_unchanged().
#pragma once

#include "../simt/copy.hpp"
#include "table.hpp"

namespace tanada::tier {

// begin() issues the loads where it can, so that they overlap with other work. The result of
// finish() is valid at least in the leader (rank 0), and in every lane of a warp.
template <class Group, simt::scope Scope>
struct group_lookup {
  TND_DEVICE void begin(Group, const table_ref<Scope> &, u64) {}
  TND_DEVICE peek_result finish(Group group, const table_ref<Scope> &table, u64 key) const {
    return group.rank() == 0 ? table.peek(key) : peek_result{no_frame, 0};
  }
};

// Each lane of a warp loads one way; in a partial warp each of a few lanes loads several.
template <class Warp, simt::scope Scope>
struct warp_lookup {
  peek_result entry{no_frame, 0};

  TND_DEVICE void begin(Warp warp, const table_ref<Scope> &table, u64 key) {
    u32 const first = table.set_of(key) * table.shape.ways, lanes = warp.size();
    TND_NO_UNROLL
    for (u32 way = warp.rank(); way < table.shape.ways; way += lanes) {
      u32 version = 0;
      if (table.is_match(first + way, key, version))
        entry = {first + way, version};
    }
  }
  TND_DEVICE peek_result finish(Warp warp, const table_ref<Scope> &, u64) const {
    u32 const lanes = warp.mask();
    u32 const matches = simt::ballot(lanes, entry.frame != no_frame);
    if (matches == 0)
      return {no_frame, 0};
    u32 const lane = simt::first_bit(matches);
    return {simt::shuffle(lanes, entry.frame, lane), simt::shuffle(lanes, entry.version, lane)};
  }
};

template <simt::scope Scope>
struct group_lookup<this_warp, Scope> : warp_lookup<this_warp, Scope> {};

template <simt::scope Scope>
struct group_lookup<simt::whole_warp, Scope> : warp_lookup<simt::whole_warp, Scope> {
  static_assert(ways_max <= simt::warp_size);

  TND_DEVICE void begin(simt::whole_warp warp, const table_ref<Scope> &table, u64 key) {
    u32 const lane = warp.rank(), frame = table.set_of(key) * table.shape.ways + lane;
    u32 version = 0;
    if (lane < table.shape.ways && table.is_match(frame, key, version))
      this->entry = {frame, version};
  }
};

}  // namespace tanada::tier
