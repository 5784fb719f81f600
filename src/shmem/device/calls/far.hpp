// shmem/device/calls/far.hpp: operations on PEs whose memory is not reached: the host does them. Not for direct inclusion.
#pragma once

#include "reach.hpp"

namespace tanada::shmem::device {

struct far_request {
  op what;
  u32 pe;
  u32 unit;  // bytes of an element, or a flag
  u64 words[5];
};

TND_DEVICE inline u64 deadline_of(u64 timeout_ns) {
  u64 const now = simt::now_ns();
  return timeout_ns > ~u64{0} - now ? ~u64{0} : now + timeout_ns;
}

// One thread. Ask the host and wait for what it says. `text`: bytes that go with the request, rpc::text_size at most.
TND_DEVICE_CALL inline status ask_host(const far_request &asked, const void *text, u64 text_size, u64 *answer) {
  rpc::ring_ref const ring = here().ring;
  u64 const deadline_ns = deadline_of(here().timeout_ns);
  rpc::ticket const mine = ring.claim(deadline_ns);
  if (mine.slot == rpc::no_slot) return status::timed_out;
  rpc::request &body = ring.body(mine);
  body.op = u32(asked.what);
  body.file = asked.pe | asked.unit << 24;
  for (u32 i = 0; i < 5; i++) body.words[i] = asked.words[i];
  for (u64 i = 0; i < text_size; i++) ring.text(mine)[i] = static_cast<const char *>(text)[i];
  ring.post(mine);
  rpc::reply const reply = ring.wait(mine, deadline_ns);
  if (reply.code == status::timed_out && reply.value == rpc::no_answer) return status::timed_out;
  if (answer != nullptr) *answer = simt::system_atomic<u64>(const_cast<u64 &>(ring.words(mine)[0])).load_relaxed();
  ring.finish(mine, false);
  return reply.code;
}

// The leader asks, all take the status.
template <class Group>
TND_DEVICE inline status ask_host(Group group, const far_request &asked, site where, const void *addr) {
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    code = ask_host(asked, nullptr, 0, nullptr);
    if (code != status::ok) record_fault(code, where, addr, int(asked.pe));
  }
  return status(int(group.broadcast(u32(int(code)))));
}

TND_DEVICE inline u64 word_of(const void *addr) { return reinterpret_cast<u64>(addr); }

// Few bytes go with the request, wherever they are; else the host takes them from the source, which is of the device then.
template <class Group>
TND_DEVICE_CALL inline status far_put(Group group, void *target, const void *source, u64 size, int pe) {
  if (size == 0) return status::ok;
  if (size > rpc::text_size) return ask_host(group, {op::put, u32(pe), 0, {word_of(target), word_of(source), size, 0, 0}}, site::put, target);
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    code = ask_host({op::put_text, u32(pe), 0, {word_of(target), 0, size, 0, 0}}, source, size, nullptr);
    if (code != status::ok) record_fault(code, site::put, target, pe);
  }
  return status(int(group.broadcast(u32(int(code)))));
}

// One thread. A word of `size` bytes is changed, or read.
TND_DEVICE_CALL inline status far_update(update_kind kind, void *target, u64 operand, u64 compare, u32 size, int pe, u64 *before) {
  status const code = ask_host({op::update, u32(pe), size, {word_of(target), operand, compare, u64(kind), 0}}, nullptr, 0, before);
  if (code != status::ok) record_fault(code, site::atomic, target, pe);
  return code;
}

}  // namespace tanada::shmem::device
