// products/gfile/host/canceled_requests.cc: canceled requests, for which no kernel waits. Their
// slots become free although the store has not answered, so that files of other stores stay
// readable and writable.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

namespace {
constexpr uint64_t sweep_ns = 20'000'000;
}

// Answer canceled requests, so that their slots are free again.
void core::drop_canceled() {
  if (now_ns_ - last_sweep_ns_ < sweep_ns)
    return;
  last_sweep_ns_ = now_ns_;
  auto const drop_if_canceled = [&](const pending &request) {
    bool const canceled = server_.is_canceled(request.slot);
    if (canceled)
      answer(request.slot, status::canceled);
    return canceled;
  };
  std::erase_if(deferred_, drop_if_canceled);
  drop_named_requests();
  drop_early();
  drop_canceled_waiters();
  drop_canceled_lists();
  for (record &file : files_) {
    if (file.write_opens > 0)
      take_unsent_closes(file);
    if (!file.serial)
      continue;
    std::erase_if(file.held_writes, drop_if_canceled);
    drop_canceled_serial(file);
  }
}

void core::drop_canceled_waiters() {
  for (u32 slot = 0; slot < rpc::slot_count; slot++) {
    uint32_t const frame = waits_[slot].frame;
    if (frame == tier::no_frame || !server_.is_canceled(slot))
      continue;
    frame_info &info = frame_infos_[frame];
    u32 previous = rpc::no_slot;
    for (u32 current = info.first_waiter; current != slot; current = waits_[current].next) {
      TND_ASSERT(current != rpc::no_slot);  // a slot that waits is in the list of its frame
      previous = current;
    }
    wait const removed = std::exchange(waits_[slot], wait{});
    (previous == rpc::no_slot ? info.first_waiter : waits_[previous].next) = removed.next;
    if (info.last_waiter == slot)
      info.last_waiter = previous;
    answer(slot, status::canceled);
  }
}

// Drop an open that has not begun. Other requests are carried out, but their answers are not sent.
void core::drop_canceled_serial(record &file) {
  auto const release = [&](pending &request) {
    if (request.slot == rpc::no_slot || !server_.is_canceled(request.slot))
      return false;
    answer(std::exchange(request.slot, rpc::no_slot), status::canceled);
    return true;
  };
  if (file.serial->request.operation != op::open)
    release(file.serial->request);
  std::erase_if(file.queue, [&](pending &request) {
    return release(request) && request.operation == op::open;
  });
}

// Take the closes for which kernels found no request slot. A count above the number of opens is
// invalid; the excess is ignored.
void core::take_unsent_closes(record &file) {
  if (options_.unsent == nullptr || shutting_down_)
    return;
  u32 &from_kernels = options_.unsent[file.index].writer_count;
  u32 const reported = simt::system_atomic<u32>(from_kernels).load_acquire();
  uint32_t const count =
      std::min(reported - std::exchange(file.unsent.writer_count, reported), file.opens);
  for (uint32_t i = 0; i < count; i++)
    file.queue.push_back({rpc::no_slot, op::close, file.index, {O_RDWR, 0, 0}, {}});
  if (count > 0)
    advance(file);
}

}  // namespace tanada::gfile
