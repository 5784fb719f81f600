// products/gfile/host/stalls.cc: requests that no kernel waits for any more. Their slots become
// free although the store has not answered, so that the files of other stores are read and written
// on.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

namespace {
constexpr uint64_t sweep_ns = 20'000'000;
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
