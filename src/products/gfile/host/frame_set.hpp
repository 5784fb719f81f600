// products/gfile/host/frame_set.hpp: frames that the host fills for kernels, and the table of the
// pages in them. The host tier is one set, in host memory; kernels read its table too. The direct
// window is another, in device memory. Frames of all sets are numbered consecutively.
#pragma once

#include "core/base/assert.hpp"

#include <tanada/device/detail/tier/table.hpp>

namespace tanada::gfile {

using host_table = tier::table_ref<simt::scope::system>;

class frame_set {
 public:
  frame_set() = default;
  frame_set(host_table table, u8 *bytes, u32 page_shift, u32 first)
      : table_{table},
        bytes_{bytes},
        page_shift_{page_shift},
        first_{first},
        count_{table.shape.frame_count()} {}

  u32 count() const {
    return count_;
  }
  bool owns(u32 frame) const {
    return frame - first_ < count_;
  }
  u8 *bytes(u32 frame) const {
    TND_ASSERT(owns(frame));
    return bytes_ + (u64(frame - first_) << page_shift_);
  }

  u32 ways() const {
    return table_.shape.ways;
  }
  // Fetch the page's set into the processor's cache.
  void prefetch(u64 key) const {
    if (count_ == 0)
      return;
    u32 const set = table_.set_of(key), first = set * table_.shape.ways;
    constexpr u32 entries_per_line = 64 / sizeof(tier::page_entry);
    for (u32 way = 0; way < table_.shape.ways; way += entries_per_line)
      __builtin_prefetch(&table_.entries[first + way], 1);
    __builtin_prefetch(&table_.stamps[first], 1);
    __builtin_prefetch(&table_.sets[set], 1);
  }
  // The first of the ways() frames in which the page can be.
  u32 first_of_set(u64 key) const {
    return first_ + table_.set_of(key) * table_.shape.ways;
  }

  u64 load_word(u32 frame) const {
    TND_ASSERT(owns(frame));
    return table_.load_word(frame - first_);
  }
  u64 load_key(u32 frame) const {
    return table_.load_key(frame - first_);
  }
  void pin(u32 frame) const {
    TND_ASSERT(owns(frame));
    table_.pin(frame - first_);
  }
  void release(u32 frame) const {
    TND_ASSERT(owns(frame));
    table_.release(frame - first_);
  }
  void touch(u32 frame) const {
    table_.touch((frame - first_) / table_.shape.ways, frame - first_);
  }
  void publish(u32 frame, tier::page_state state) const {
    TND_ASSERT(owns(frame));
    table_.publish(frame - first_, state);
  }
  void abandon(u32 frame) const {
    TND_ASSERT(owns(frame));
    table_.abandon(frame - first_);
  }
  void change_state(u32 frame, tier::page_state old_state, tier::page_state new_state) const {
    TND_ASSERT(owns(frame));
    table_.change_state(frame - first_, old_state, new_state);
  }
  void invalidate(u64 key) const {
    table_.invalidate(key);
  }

  tier::begin_result begin(u64 key) const {
    if (count_ == 0)
      return {tier::begin_outcome::full, tier::no_frame, 0};
    tier::begin_result begun = table_.begin(key);
    if (begun.frame != tier::no_frame)
      begun.frame += first_;
    return begun;
  }

  // The frame that holds the page, in any state but empty.
  u32 locate(u64 key) const {
    if (count_ == 0)
      return tier::no_frame;
    u32 const first = table_.set_of(key) * table_.shape.ways;
    for (u32 frame = first; frame < first + table_.shape.ways; frame++) {
      u64 const word = table_.load_word(frame);
      bool const empty = tier::word::state(word) == tier::page_state::empty;
      if (table_.load_key(frame) == key && !tier::word::is_doomed(word) && !empty)
        return first_ + frame;
    }
    return tier::no_frame;
  }

 private:
  host_table table_{};
  u8 *bytes_ = nullptr;
  u32 page_shift_ = 0, first_ = 0, count_ = 0;
};

}  // namespace tanada::gfile
