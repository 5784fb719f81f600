// products/gfile/host/stalls.cc: what a store that does not answer may hold: some frames but not
// all, and no slot for longer than its kernel waits, so that the files of other stores are read and
// written on.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

using tier::page_state;
namespace word = tier::word;

namespace {
constexpr uint64_t sweep_ns = 20'000'000;
}

// Whether one more frame may wait for the file's store: half of the tier for a file, three quarters
// for a store. And in the page's set, where alone it can lie: all ways but two for a file, all but
// one for a store. Otherwise a few pages that never come fill a set, and every other page of that
// set waits with them, whatever its store.
bool core::may_hold(const record &file, const frame_set &frames, uint64_t key) const {
  uint64_t const all = frames.count();
  if (file.held >= all - all / 2 || *file.held_by_store >= all - all / 4)
    return false;
  uint32_t const ways = frames.ways(), first = frames.first_of_set(key);
  if (*file.held_by_store + 2 < ways)
    return true;  // so few fill no set
  uint32_t by_file = 0, by_store = 0;
  for (uint32_t frame = first; frame < first + ways; frame++) {
    page_state const state = word::state(frames.load_word(frame));
    if (state == page_state::empty || state == page_state::ready)
      continue;
    by_file += infos_[frame].file == file.index;
    by_store += files_[infos_[frame].file].where == file.where;
  }
  return by_file < (ways > 2 ? ways - 2 : 1) && by_store < (ways > 1 ? ways - 1 : 1);
}

void core::hold(record &file) {
  file.held++;
  ++*file.held_by_store;
}

void core::let_go(record &file) {
  TND_ASSERT(file.held > 0 && *file.held_by_store > 0);
  file.held--;
  --*file.held_by_store;
}

void core::wait_at(uint32_t frame, const waiter &who) {
  frame_info &info = infos_[frame];
  waits_[who.slot] = {frame, rpc::no_slot, who.writes, who.range};
  if (info.last_waiter == rpc::no_slot)
    info.first_waiter = who.slot;
  else
    waits_[info.last_waiter].next = who.slot;
  info.last_waiter = who.slot;
}

// Answer the requests for which no kernel waits any more, so that their slots are free again.
void core::drop_canceled() {
  if (now_ns_ - swept_ns_ < sweep_ns)
    return;
  swept_ns_ = now_ns_;
  auto const drop = [&](const pending &asked) {
    bool const canceled = server_.is_canceled(asked.slot);
    if (canceled)
      answer(asked.slot, status::canceled);
    return canceled;
  };
  std::erase_if(deferred_, drop);
  drop_names();
  drop_early();
  drop_canceled_waiters();
  for (record &file : files_) {
    if (file.write_opens > 0)
      take_unsent_closes(file);
    if (!file.serial)
      continue;
    std::erase_if(file.held_writes, drop);
    drop_canceled_serial(file);
  }
}

void core::drop_canceled_waiters() {
  for (u32 slot = 0; slot < rpc::slot_count; slot++) {
    uint32_t const frame = waits_[slot].frame;
    if (frame == tier::no_frame || !server_.is_canceled(slot))
      continue;
    frame_info &info = infos_[frame];
    u32 before = rpc::no_slot;
    for (u32 at = info.first_waiter; at != slot; at = waits_[at].next)
      before = at;
    wait const left = std::exchange(waits_[slot], wait{});
    (before == rpc::no_slot ? info.first_waiter : waits_[before].next) = left.next;
    if (info.last_waiter == slot)
      info.last_waiter = before;
    answer(slot, status::canceled);
  }
}

// An open that has not begun is forgotten. Whatever else was asked for is done all the same, but
// for nobody.
void core::drop_canceled_serial(record &file) {
  auto const release = [&](pending &asked) {
    if (asked.slot == rpc::no_slot || !server_.is_canceled(asked.slot))
      return false;
    answer(std::exchange(asked.slot, rpc::no_slot), status::canceled);
    return true;
  };
  if (file.serial->asked.what != op::open)
    release(file.serial->asked);
  std::erase_if(file.queue,
                [&](pending &asked) { return release(asked) && asked.what == op::open; });
}

// Closes for which kernels found no request slot. Of more than there are opens, which is nonsense,
// the rest is forgotten.
void core::take_unsent_closes(record &file) {
  if (options_.unsent == nullptr || shutting_down_)
    return;
  u32 &from_kernels = options_.unsent[file.index].of_writers;
  u32 const said = simt::system_atomic<u32>(from_kernels).load_acquire();
  uint32_t const count = std::min(said - std::exchange(file.unsent.of_writers, said), file.opens);
  for (uint32_t i = 0; i < count; i++)
    file.queue.push_back({rpc::no_slot, op::close, file.index, {O_RDWR, 0, 0}, {}});
  if (count > 0)
    advance(file);
}

}  // namespace tanada::gfile
