// gfile/device/files.hpp: descriptors: open, close, unlink, truncate, sync, size. Leader-only functions; gfile.hpp
// makes them collective.
#pragma once

#include "doubt.hpp"

namespace tanada::gfile::device {

TND_DEVICE_CALL inline u64 hash_text(const char *text, u32 &size) {
  u64 hash = 0xCBF29CE484222325ull;
  for (size = 0; size < rpc::text_size && text[size] != 0; size++) hash = (hash ^ u8(text[size])) * 0x100000001B3ull;
  return hash;
}

TND_DEVICE inline bool same_text(const char *one, const char *other) {
  u32 i = 0;
  while (one[i] == other[i] && one[i] != 0) i++;
  return one[i] == other[i];
}

struct open_request {
  const char *url;
  u64 hash;
  u32 flags;
};

inline constexpr u32 no_descriptor = 0xffffffffu;

// One more reference to a descriptor with the URL's hash and flags that is open or being opened. What is read between
// the load of the word and its exchange belongs to the word's generation.
TND_DEVICE inline bool join(descriptor &at, const open_request &wanted) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const word(at.word);
  for (u64 seen = word.load_acquire();;) {
    bool const alive = dw::state(seen) == descriptor_state::open || dw::state(seen) == descriptor_state::opening;
    if (!alive || (seen & dw::unjoinable) != 0 || simt::device_atomic<u64>(at.url_hash).load_relaxed() != wanted.hash ||
        simt::device_atomic<u32>(at.flags).load_relaxed() != wanted.flags)
      return false;
    if (word.compare_exchange_acq_rel(seen, seen + dw::reference)) return true;
  }
}

// Drop a reference; true if it was the last, whose holder now owns the descriptor in state `to`.
TND_DEVICE inline bool drop_reference(descriptor &at, descriptor_state to) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const word(at.word);
  for (u64 seen = word.load_acquire();;) {
    u64 next = seen - dw::reference;
    if (dw::references(next) == 0) next = dw::with_state(next, to);
    if (word.compare_exchange_acq_rel(seen, next)) return dw::references(next) == 0;
  }
}

// Leader only. No request slot came free for a close: the host finds it here, at one of the looks it takes now and then.
TND_DEVICE_CALL inline void leave_close_to_host(device_state &state, const descriptor &file) {
  unsent_closes &of = state.unsent[file.node];
  lock_descriptors(state);
  simt::system_atomic<u32> const closes(may_write(file) ? of.of_writers : of.of_readers);
  closes.store_release(closes.load_relaxed() + 1);
  unlock_descriptors(state);
}

// Give back a reference of generation `generation`; the last one closes at the host.
TND_DEVICE_CALL inline status close_reference(device_state &state, descriptor &file, u32 generation, u64 deadline_ns) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const references(file.word);
  for (u64 seen = references.load_acquire();;) {
    bool const ours = dw::state(seen) == descriptor_state::open && (dw::generation(seen) & generation_mask) == generation;
    if (!ours || dw::references(seen) == 0) return status::bad_file;
    u64 next = seen - dw::reference;
    bool const last = dw::references(next) == 0;
    if (last) next = dw::with_state(next, descriptor_state::closing);
    if (!references.compare_exchange_acq_rel(seen, next)) continue;
    if (!last) return status::ok;
    break;
  }
  rpc::reply reply{};
  status const code = call(state, {op::close, file.node, {file.flags, 0, 0}}, nullptr, deadline_ns, reply, nullptr, 0);
  bool const is_sent = code != status::timed_out || reply.code == code;  // call() leaves the reply alone otherwise
  if (!is_sent) leave_close_to_host(state, file);
  simt::device_atomic<u64> const word(file.word);
  word.store_release(dw::make(dw::generation(word.load_relaxed()), descriptor_state::free, 0));
  return code;
}

TND_DEVICE_CALL inline u32 join_any(device_state &state, const open_request &wanted) {
  if ((wanted.flags & g_excl) != 0) return no_descriptor;
  u32 const probe_count = simt::device_atomic<u32>(state.probe_count).load_acquire();
  u32 const home = u32(wanted.hash % state.file_count);
  for (u32 i = 0; i < probe_count; i++) {
    u32 const index = (home + i) % state.file_count;
    if (join(state.descriptors[index], wanted)) return index;
  }
  return no_descriptor;
}

TND_DEVICE_CALL inline u32 take_free(device_state &state, const open_request &wanted) {
  namespace dw = descriptor_word;
  u32 const home = u32(wanted.hash % state.file_count);
  for (u32 i = 0; i < state.file_count; i++) {
    u32 const index = (home + i) % state.file_count;
    descriptor &at = state.descriptors[index];
    simt::device_atomic<u64> const word(at.word);
    u64 const seen = word.load_acquire();
    if (dw::state(seen) != descriptor_state::free) continue;
    simt::device_atomic<u64>(at.url_hash).store_relaxed(wanted.hash);
    simt::device_atomic<u32>(at.flags).store_relaxed(wanted.flags);
    for (u32 k = 0; (at.url[k] = wanted.url[k]) != 0;) k++;
    if (i >= state.probe_count) simt::device_atomic<u32>(state.probe_count).store_release(i + 1);
    word.store_release(dw::make(dw::generation(seen) + 1, descriptor_state::opening, 1));
    return index;
  }
  return no_descriptor;
}

// Ask the host to open, and let those who joined see how it went.
TND_DEVICE_CALL inline status open_at_host(device_state &state, u32 index, const open_request &wanted, u64 deadline_ns) {
  namespace dw = descriptor_word;
  descriptor &at = state.descriptors[index];
  rpc::reply reply{};
  u64 words[4] = {0, 0, 0, 0};
  bool const truncates = (wanted.flags & g_trunc) != 0 && (wanted.flags & access_mask) != 0;
  status const code = call(state, {op::open, 0, {wanted.flags, 0, 0}, truncates}, wanted.url, deadline_ns, reply, words, 4);
  if (truncates && is_unanswered(code, reply)) doubt_name(state, wanted.hash, true);
  simt::device_atomic<u64> const word(at.word);
  descriptor_state to = descriptor_state::failed;
  if (code == status::ok) {
    node &of = state.nodes[reply.value];
    simt::device_atomic<u32>(at.node).store_relaxed(reply.value);
    adopt(state, of, {u32(words[0]), u32(words[1]), words[2]});
    if (may_change_late(state, words[3])) {
      raise_doubt(of.doubt);
      (void)word.fetch_or_acq_rel(dw::unjoinable);
    }
    to = descriptor_state::open;
  }
  at.code = int(code);
  for (u64 seen = word.load_acquire(); !word.compare_exchange_acq_rel(seen, dw::with_state(seen, to));) {
  }
  if (code != status::ok) (void)drop_reference(at, descriptor_state::free);
  return code;
}

// Wait until somebody else's open is done.
TND_DEVICE_CALL inline status wait_open(descriptor &at, u64 deadline_ns) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const word(at.word);
  for (;;) {
    u64 seen = word.load_acquire();
    if (dw::state(seen) == descriptor_state::open) return status::ok;
    if (dw::state(seen) == descriptor_state::failed) {
      status const code = status(at.code);
      (void)drop_reference(at, descriptor_state::free);
      return code;
    }
    // Leave an open that goes on; its own reference keeps the descriptor.
    if (simt::now_ns() >= deadline_ns && word.compare_exchange_acq_rel(seen, seen - dw::reference))
      return status::timed_out;
    simt::pause(500);
  }
}

// A descriptor for the URL: one that others opened, or one to open, which is `mine`. Many may come at a time: all but the
// first look for what the first makes while they wait for the lock.
TND_DEVICE_CALL inline status find_or_take(device_state &state, const open_request &wanted, u64 deadline_ns, u32 &index, bool &mine) {
  simt::device_atomic<u32> const lock(state.descriptors_lock);
  mine = false;
  for (;;) {
    index = join_any(state, wanted);
    if (index != no_descriptor) return status::ok;
    u32 unlocked = 0;
    if (lock.compare_exchange_acq_rel(unlocked, 1u)) break;
    if (simt::now_ns() >= deadline_ns) return status::timed_out;
    simt::pause(200);
  }
  index = join_any(state, wanted);
  mine = index == no_descriptor;
  if (mine) index = take_free(state, wanted);
  unlock_descriptors(state);
  return index == no_descriptor ? status::too_many_files : status::ok;
}

TND_DEVICE_CALL inline status open(device_state &state, const char *url, int flags, u64 deadline_ns, int &fd) {
  if (url == nullptr) return status::fault;
  if ((flags & ~(access_mask | g_creat | g_excl | g_trunc)) != 0 || (flags & access_mask) == 3) return status::invalid;
  u32 size = 0;
  open_request const wanted{url, hash_text(url, size), u32(flags)};
  if (size == 0) return status::invalid;
  if (size >= rpc::text_size) return status::name_too_long;
  u32 index = no_descriptor;
  // An open that we joined may have failed for what has changed since, before our call. The next begins after that.
  for (u32 round = 0;; round++) {
    bool mine = false;
    TND_TRY(find_or_take(state, wanted, deadline_ns, index, mine));
    status const code = mine ? open_at_host(state, index, wanted, deadline_ns) : wait_open(state.descriptors[index], deadline_ns);
    if (code == status::ok) break;
    if (mine || round > 0 || simt::now_ns() >= deadline_ns) return code;
  }
  descriptor &at = state.descriptors[index];
  if (!same_text(at.url, url)) {  // two URLs of one hash: only the first can be open
    u32 const generation = descriptor_word::generation(simt::device_atomic<u64>(at.word).load_acquire());
    (void)close_reference(state, at, generation & generation_mask, deadline_ns);
    return status::busy;
  }
  fd = fd_of(index, descriptor_word::generation(simt::device_atomic<u64>(at.word).load_acquire()));
  return status::ok;
}

TND_DEVICE_CALL inline status close(device_state &state, int fd, u64 deadline_ns) {
  descriptor *const file = find_descriptor(state, fd);
  return file == nullptr ? status::bad_file : close_reference(state, *file, u32(fd) >> descriptor_index_bits, deadline_ns);
}

TND_DEVICE_CALL inline status unlink(device_state &state, const char *url, u64 deadline_ns) {
  if (url == nullptr) return status::fault;
  u32 size = 0;
  u64 const hash = hash_text(url, size);
  if (size == 0) return status::invalid;
  if (size >= rpc::text_size) return status::name_too_long;
  rpc::reply reply{};
  status const code = call(state, {op::unlink, 0, {0, 0, 0}, true}, url, deadline_ns, reply, nullptr, 0);
  if (code == status::ok) part_from_name(state, hash);
  if (is_unanswered(code, reply)) doubt_name(state, hash, false);
  return code;
}

TND_DEVICE_CALL inline status truncate(device_state &state, int fd, u64 size, u64 deadline_ns) {
  descriptor *const file = find_descriptor(state, fd);
  if (file == nullptr || !may_write(*file)) return status::bad_file;
  if (size >> state.page_shift > tier::page_index_max) return status::too_big;
  rpc::reply reply{};
  u64 words[2] = {0, 0};
  node &of = state.nodes[file->node];
  status const code = call(state, {op::truncate, file->node, {size, 0, 0}, true}, nullptr, deadline_ns, reply, words, 2);
  if (code == status::ok) adopt(state, of, {u32(words[0]), u32(words[1]), size});
  if (is_unanswered(code, reply)) raise_doubt(of.doubt);
  return code;
}

TND_DEVICE_CALL inline status sync(device_state &state, int fd, u64 deadline_ns) {
  descriptor *const file = find_descriptor(state, fd);
  if (file == nullptr) return status::bad_file;
  rpc::reply reply{};
  return call(state, {op::sync, file->node, {0, 0, 0}}, nullptr, deadline_ns, reply, nullptr, 0);
}

}  // namespace tanada::gfile::device
