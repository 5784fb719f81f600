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
template <simt::scope Scope>
struct group_lookup<this_warp, Scope> {
  peek_result entry{no_frame, 0};

  TND_DEVICE void begin(this_warp group, const table_ref<Scope> &table, u64 key) {
    u32 const first = table.set_of(key) * table.shape.ways, lanes = group.size();
    TND_NO_UNROLL
    for (u32 way = group.rank(); way < table.shape.ways; way += lanes) {
      u32 version = 0;
      if (table.is_match(first + way, key, version))
        entry = {first + way, version};
    }
  }
  TND_DEVICE peek_result finish(this_warp group, const table_ref<Scope> &, u64) const {
    u32 const lanes = group.mask();
    u32 const matches = simt::ballot(lanes, entry.frame != no_frame);
    return matches == 0 ? peek_result{no_frame, 0} : share(lanes, entry, simt::first_bit(matches));
  }

 private:
  TND_DEVICE static peek_result share(u32 lanes, peek_result result, u32 lane) {
    return {simt::shuffle(lanes, result.frame, lane), simt::shuffle(lanes, result.version, lane)};
  }
};

}  // namespace tanada::tier
