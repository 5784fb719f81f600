// tanada/device/detail/gfile/context.hpp: steps that all device calls share: deadlines, descriptor
// lookup, the fault record and counters.
#pragma once

#include "../simt/any_group.hpp"
#include "../simt/copy.hpp"
#include "../simt/group.hpp"
#include "state.hpp"

namespace tanada::gfile::device {

using simt::any_group;

TND_DEVICE inline device_state &state_of(gfile_ref files) {
  return *static_cast<device_state *>(files.state);
}

// Numbers of tnd_gfile_site.
enum class site : u32 { open = 1, read, write, close, stat, unlink, truncate, sync, prefetch, map };

TND_DEVICE inline u64 deadline_of(u64 timeout_ns) {
  u64 const now_ns = simt::now_ns();
  return timeout_ns > ~u64{0} - now_ns ? ~u64{0} : now_ns + timeout_ns;
}

// A call that failed, for the fault record.
struct failed_call {
  site call_site;
  u64 first, second;  // fd and offset, where the call has them
  const char *url;    // may be null
};

// Leader only. Keep the first fault of the instance for the host.
TND_DEVICE_CALL inline void record_fault(device_state &state,
                                         status code,
                                         const failed_call &call) {
  if (simt::device_word<u32>(state.fault_claimed).fetch_or_acq_rel(1) != 0)
    return;
  fault_record &record = *state.fault;
  simt::system_word<int>(record.code).store_relaxed(int(code));
  simt::system_word<u32>(record.site).store_relaxed(u32(call.call_site));
  simt::system_word<u32>(record.thread).store_relaxed(simt::thread_rank_in_block());
  simt::system_word<u64>(record.block).store_relaxed(simt::block_rank());
  simt::system_word<u64>(record.words[0]).store_relaxed(call.first);
  simt::system_word<u64>(record.words[1]).store_relaxed(call.second);
  u32 size = 0;
  for (; call.url != nullptr && size + 1 < rpc::text_size && call.url[size] != 0; size++)
    record.url[size] = call.url[size];
  record.url[size] = 0;
  simt::system_word<u32>(record.filled).store_release(1);
}

// The counters of a file that this block adds to.
TND_DEVICE inline counters &counters_of(counters *counts, u32 node) {
  u32 const block = simt::block_index_x() + simt::block_index_y() + simt::block_index_z();
  return counts[node * counter_stripes + block % counter_stripes];
}
TND_DEVICE inline counters &counters_of(device_state &state, u32 node) {
  return counters_of(simt::constant(state.counts), node);
}
TND_DEVICE_CALL inline void count(u64 counters::*counter,
                                  device_state &state,
                                  u32 node,
                                  u64 amount = 1) {
  (void)simt::device_word<u64>(counters_of(state, node).*counter).fetch_add_relaxed(amount);
}

TND_DEVICE inline void count_wait(device_state &state, u64 duration_ns) {
  u32 const bucket = simt::last_bit(duration_ns | 1);
  latencies &stripe = simt::constant(state.waits)[simt::block_rank() % latency_stripes];
  (void)simt::device_word<u64>(
      stripe.buckets[bucket < latency_buckets ? bucket : latency_buckets - 1])
      .fetch_add_relaxed(1);
}

namespace descriptor_word {
inline constexpr u64 reference = 1;
inline constexpr u64 unjoinable = u64{1} << 28;
TND_DEVICE inline u64 make(u32 generation, descriptor_state state, u64 references) {
  return u64(generation) << 32 | u64(state) << 24 | references;
}
TND_DEVICE inline u32 references(u64 w) {
  return u32(w & 0xffffff);
}
TND_DEVICE inline descriptor_state state(u64 w) {
  return descriptor_state(w >> 24 & 15);
}
TND_DEVICE inline u32 generation(u64 w) {
  return u32(w >> 32);
}
TND_DEVICE inline u64 with_state(u64 w, descriptor_state new_state) {
  return (w & ~(u64{15} << 24)) | u64(new_state) << 24;
}
}  // namespace descriptor_word

inline constexpr u32 generation_mask = (1u << (31 - descriptor_index_bits)) - 1;

TND_DEVICE inline int fd_of(u32 index, u32 generation) {
  return int((generation & generation_mask) << descriptor_index_bits | index);
}

TND_DEVICE inline bool is_open_as(u64 word, int fd) {
  bool const open = descriptor_word::state(word) == descriptor_state::open;
  return open &&
         (descriptor_word::generation(word) & generation_mask) == u32(fd) >> descriptor_index_bits;
}

// The open descriptor behind fd, or nullptr.
TND_DEVICE inline descriptor *find_descriptor(device_state &state, int fd) {
  u32 const index = u32(fd) & (file_count_limit - 1);
  if (fd < 0 || index >= simt::constant(state.file_count))
    return nullptr;
  u64 const word =
      simt::device_word<u64>(simt::constant(state.descriptors)[index].word).load_acquire();
  return is_open_as(word, fd) ? &simt::constant(state.descriptors)[index] : nullptr;
}

inline constexpr int access_mask = 3;
TND_DEVICE inline bool may_read(const descriptor &file) {
  return (file.flags & access_mask) != 1;
}
TND_DEVICE inline bool may_write(const descriptor &file) {
  return (file.flags & access_mask) != 0;
}

// A later view has a size of its own, which the host reports.
TND_DEVICE inline void grow(node &file_node, u32 epoch, u64 size) {
  simt::device_word<u64> const current(file_node.size);
  u64 const grown = size_word(epoch, size);
  for (u64 observed = current.load_relaxed(); is_size_of(observed, epoch) && observed < grown;)
    if (current.compare_exchange_relaxed(observed, grown))
      return;
}

// Copy the text including its terminating zero.
TND_DEVICE inline void copy_text(char *target, const char *text) {
  for (u32 i = 0;; i++) {
    char const letter = text[i];
    target[i] = letter;
    if (letter == 0)
      return;
  }
}

// Up to 8 bytes of the text as a word. `has_end` is set if the terminating zero is among them.
TND_DEVICE inline u64 text_word(const char *text, bool &has_end) {
  u64 word = 0;
  for (u32 i = 0; i < sizeof word; i++) {
    u64 const letter = u8(text[i]);
    has_end = letter == 0;
    if (has_end)
      break;
    word |= letter << 8 * i;
  }
  return word;
}

// As copy_text(), to a slot of the ring. Stores of single bytes to host memory would cross PCIe one
// by one. The bytes after the text, up to a multiple of 16, become zero.
TND_DEVICE_CALL inline void post_text(u64 *target, const char *text) {
  bool has_end = false;
  for (u32 i = 0; !has_end; i += 2) {
    u64 const first = text_word(text + i * sizeof(u64), has_end);
    u64 const second = has_end ? 0 : text_word(text + (i + 1) * sizeof(u64), has_end);
    simt::store_pair(reinterpret_cast<u64(&)[2]>(target[i]), {first, second});
  }
}

// Send a request to the host and wait; leader only. Words of the answer go to `words`.
struct simple_request {
  op operation;
  u32 file;
  u64 words[3];
  bool is_change = false;  // see changes_word()
};
TND_DEVICE_CALL inline status call(device_state &state,
                                   const simple_request &request,
                                   const char *text,
                                   u64 deadline_ns,
                                   rpc::reply &reply,
                                   u64 *words,
                                   u32 word_count) {
  rpc::ticket const ticket = state.ring.claim(deadline_ns);
  if (ticket.slot == rpc::no_slot)
    return status::timed_out;
  rpc::request &body = state.ring.body(ticket);
  body.op = u32(request.operation);
  body.file = request.file;
  for (u32 i = 0; i < 3; i++)
    body.words[i] = request.words[i];
  if (text != nullptr)
    post_text(state.ring.list(ticket), text);
  if (request.is_change)
    (void)simt::device_word<u32>(state.changes_posted).fetch_add_relaxed(1);
  state.ring.post(ticket);
  reply = state.ring.wait(ticket, deadline_ns);
  // If the store returned timed_out, this call still owns the slot. If the wait here timed out, it
  // no longer does. The reply's tag distinguishes the two cases.
  if (reply.code == status::timed_out && reply.value == rpc::no_answer)
    return status::timed_out;
  for (u32 i = 0; i < word_count; i++)
    words[i] =
        simt::system_word<u64>(const_cast<u64 &>(state.ring.words(ticket)[i])).load_relaxed();
  state.ring.finish(ticket, false);
  return reply.code;
}

// Locks of buckets and nodes. Their holders wait for nothing, so acquiring one always succeeds
// soon.
TND_DEVICE inline void lock(u32 &word) {
  simt::device_word<u32> const lock_word(word);
  for (u32 unlocked = 0; !lock_word.compare_exchange_acq_rel(unlocked, 1u); unlocked = 0)
    simt::pause(200);
}

TND_DEVICE inline void unlock(u32 &word) {
  simt::device_word<u32>(word).store_release(0);
}

// A view of a file, as kernels see it or as the host reports it.
struct file_view {
  u32 epoch, file_key;
  u64 size;
};

// Relaxed loads, issued together. They disagree while another kernel is in `adopt_view()`, which
// waits for nothing.
TND_DEVICE inline file_view load_view(node &file_node) {
  for (;;) {
    u64 const size = simt::device_word<u64>(file_node.size).load_relaxed();
    u64 const view = simt::device_word<u64>(file_node.view).load_relaxed();
    if (is_size_of(size, u32(view)))
      return {u32(view), u32(view >> 32), size_of_word(size)};
    simt::pause(50);
  }
}

// Adopt the reported view unless kernels already have a newer one. Answers are handled in any
// order. Writes by kernels in the same epoch have made the size larger, and that size stays.
TND_DEVICE_CALL inline void adopt_view(node &file_node, const file_view &new_view) {
  lock(file_node.lock);
  simt::device_word<u64> const view(file_node.view);
  if (int(new_view.epoch - u32(view.load_relaxed())) > 0) {
    simt::device_word<u64>(file_node.size).store_relaxed(size_word(new_view.epoch, new_view.size));
    view.store_release(view_word(new_view.epoch, new_view.file_key));
  }
  unlock(file_node.lock);
}

}  // namespace tanada::gfile::device
