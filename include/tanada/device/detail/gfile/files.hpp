// tanada/device/detail/gfile/files.hpp: descriptors: open, close, unlink, truncate, sync, size.
// Leader-only functions; gfile.hpp makes them collective.
#pragma once

#include "doubt.hpp"

namespace tanada::gfile::device {

TND_DEVICE_CALL inline u64 hash_text(const char *text, u32 &size) {
  u64 hash = 0xCBF29CE484222325ull;
  for (size = 0; size < rpc::text_size && text[size] != 0; size++)
    hash = (hash ^ u8(text[size])) * 0x100000001B3ull;
  return hash;
}

TND_DEVICE inline bool same_text(const char *one, const char *other) {
  u32 i = 0;
  while (one[i] == other[i] && one[i] != 0)
    i++;
  return one[i] == other[i];
}

struct open_request {
  const char *url;
  u64 hash;
  u32 flags;
};

// One more reference to a descriptor with the URL's hash and flags that is open or being opened.
// What is read between the load of the word and its exchange belongs to the word's generation.
TND_DEVICE inline bool join(descriptor &at, const open_request &wanted) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const word(at.word);
  for (u64 seen = word.load_acquire();;) {
    bool const alive =
        dw::state(seen) == descriptor_state::open || dw::state(seen) == descriptor_state::opening;
    if (!alive || (seen & dw::unjoinable) != 0 ||
        simt::device_atomic<u64>(at.url_hash).load_relaxed() != wanted.hash ||
        simt::device_atomic<u32>(at.flags).load_relaxed() != wanted.flags)
      return false;
    if (word.compare_exchange_acq_rel(seen, seen + dw::reference))
      return true;
  }
}

// A free descriptor, which is the caller's, or no_descriptor.
TND_DEVICE_CALL inline u32 take_free(device_state &state) {
  simt::device_atomic<u64> const head(state.free_descriptors);
  u64 seen = head.load_acquire();
  while (u32(seen) != 0) {
    u32 const index = u32(seen) - 1;
    u64 const next = simt::device_atomic<u32>(state.descriptors[index].next_free).load_relaxed();
    if (head.compare_exchange_acq_rel(seen, ((seen >> 32) + 1) << 32 | next))
      return index;
  }
  simt::device_atomic<u32> const used(state.used_count);
  u32 count = used.load_relaxed();
  while (count < state.file_count)
    if (used.compare_exchange_relaxed(count, count + 1))
      return count;
  return no_descriptor;
}

// Let go of a descriptor that is the caller's and in no list.
TND_DEVICE_CALL inline void put_free(device_state &state, u32 index) {
  namespace dw = descriptor_word;
  descriptor &at = state.descriptors[index];
  simt::device_atomic<u64> const word(at.word);
  word.store_release(dw::make(dw::generation(word.load_relaxed()), descriptor_state::free, 0));
  simt::device_atomic<u64> const head(state.free_descriptors);
  u64 seen = head.load_relaxed();
  do {
    simt::device_atomic<u32>(at.next_free).store_relaxed(u32(seen));
  } while (!head.compare_exchange_acq_rel(seen, ((seen >> 32) + 1) << 32 | (index + 1)));
}

// Take the descriptor, whose last reference the caller had, out of its list, and free it.
TND_DEVICE_CALL inline void give_back(device_state &state, descriptor &file) {
  u32 const index = u32(&file - state.descriptors);
  descriptor_bucket &bucket =
      bucket_of(state, simt::device_atomic<u64>(file.url_hash).load_relaxed());
  lock(bucket.lock);
  u32 *link = &bucket.first;
  while (*link != index + 1)
    link = &state.descriptors[*link - 1].next;
  simt::device_atomic<u32>(*link).store_relaxed(file.next);
  unlock(bucket.lock);
  put_free(state, index);
}

// Drop a reference to a descriptor that is not open; who drops the last one frees it.
TND_DEVICE inline void drop_reference(device_state &state, descriptor &at) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const word(at.word);
  for (u64 seen = word.load_acquire();;) {
    u64 next = seen - dw::reference;
    bool const last = dw::references(next) == 0;
    if (last)
      next = dw::with_state(next, descriptor_state::closing);
    if (!word.compare_exchange_acq_rel(seen, next))
      continue;
    if (last)
      give_back(state, at);
    return;
  }
}

// Leader only. No request slot came free for a close: the host finds it here, at one of the looks
// it takes now and then.
TND_DEVICE_CALL inline void leave_close_to_host(device_state &state, const descriptor &file) {
  node &known = state.nodes[file.node];
  lock(known.lock);
  simt::system_atomic<u32> const closes(state.unsent[file.node].of_writers);
  closes.store_release(closes.load_relaxed() + 1);
  unlock(known.lock);
}

// Leader only. The host closes the file soon, and before it serves a later open or unlink.
TND_DEVICE_CALL inline void post_close(device_state &state, u32 node) {
  u64 const ticket = simt::device_atomic<u64>(state.closes_posted).fetch_add_relaxed(1);
  simt::system_atomic<u64>(state.closes->entries[ticket % close_list_size])
      .store_release(close_entry(ticket, node));
}

// For an open or unlink: the closes that the host must take before.
TND_DEVICE_CALL inline u64 closes_before(device_state &state) {
  return simt::device_atomic<u64>(state.closes_posted).load_relaxed();
}

// Give back a reference of generation `generation`; the last one closes at the host. A failure of
// that is recorded here, for once the descriptor is free its URL may be another file's.
TND_DEVICE_CALL inline status close_reference(device_state &state, descriptor &file, u32 generation,
                                              u64 deadline_ns) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const references(file.word);
  for (u64 seen = references.load_acquire();;) {
    bool const ours = dw::state(seen) == descriptor_state::open &&
                      (dw::generation(seen) & generation_mask) == generation;
    if (!ours || dw::references(seen) == 0)
      return status::bad_file;
    u64 next = seen - dw::reference;
    bool const last = dw::references(next) == 0;
    if (last)
      next = dw::with_state(next, descriptor_state::closing);
    if (!references.compare_exchange_acq_rel(seen, next))
      continue;
    if (!last)
      return status::ok;
    break;
  }
  if (!may_write(file)) {
    post_close(state, file.node);
    give_back(state, file);
    return status::ok;
  }
  rpc::reply reply{};
  status const code = call(state, {op::close, file.node, {file.flags, 0, 0}}, nullptr, deadline_ns,
                           reply, nullptr, 0);
  bool const is_sent =
      code != status::timed_out || reply.code == code;  // call() leaves the reply alone otherwise
  if (!is_sent)
    leave_close_to_host(state, file);
  if (code != status::ok) {
    int const fd = fd_of(u32(&file - state.descriptors), generation);
    record_fault(state, code, {site::close, u64(fd), 0, file.url});
  }
  give_back(state, file);
  return code;
}

// A descriptor that others have opened or are opening. Without the bucket's lock it may miss one.
TND_DEVICE_CALL inline u32 join_any(device_state &state, const open_request &wanted) {
  if ((wanted.flags & g_excl) != 0)
    return no_descriptor;
  u32 number = simt::device_atomic<u32>(bucket_of(state, wanted.hash).first).load_acquire();
  for (u32 steps = 0; number != 0 && steps < state.file_count; steps++) {
    descriptor &at = state.descriptors[number - 1];
    if (join(at, wanted))
      return number - 1;
    number = simt::device_atomic<u32>(at.next).load_acquire();
  }
  return no_descriptor;
}

// Put a free descriptor, which is the caller's, in its list. Under the bucket's lock.
TND_DEVICE_CALL inline void begin_open(device_state &state, u32 index, const open_request &wanted) {
  namespace dw = descriptor_word;
  descriptor &at = state.descriptors[index];
  descriptor_bucket &bucket = bucket_of(state, wanted.hash);
  simt::device_atomic<u64> const word(at.word);
  simt::device_atomic<u64>(at.url_hash).store_relaxed(wanted.hash);
  simt::device_atomic<u32>(at.flags).store_relaxed(wanted.flags);
  simt::device_atomic<u32>(at.next).store_relaxed(bucket.first);
  word.store_release(
      dw::make(dw::generation(word.load_relaxed()) + 1, descriptor_state::opening, 1));
  simt::device_atomic<u32>(bucket.first).store_release(index + 1);
}

// Ask the host to open, and let those who joined see how it went.
TND_DEVICE_CALL inline status open_at_host(device_state &state, u32 index,
                                           const open_request &wanted, u64 deadline_ns) {
  namespace dw = descriptor_word;
  descriptor &at = state.descriptors[index];
  rpc::reply reply{};
  u64 words[4] = {0, 0, 0, 0};
  bool const truncates = (wanted.flags & g_trunc) != 0 && (wanted.flags & access_mask) != 0;
  simple_request const asked{op::open, 0, {wanted.flags, 0, closes_before(state)}, truncates};
  status const code = call(state, asked, wanted.url, deadline_ns, reply, words, 4);
  if (truncates && is_unanswered(code, reply))
    doubt_name(state, wanted.hash, true);
  simt::device_atomic<u64> const word(at.word);
  descriptor_state to = descriptor_state::failed;
  if (code == status::ok) {
    node &of = state.nodes[reply.value];
    simt::device_atomic<u32>(at.node).store_relaxed(reply.value);
    adopt(of, {u32(words[0]), u32(words[1]), words[2]});
    simt::device_atomic<u32>(of.missing).store_relaxed(0);  // it was of another file
    if (may_change_late(state, words[3])) {
      raise_doubt(of.doubt);
      (void)word.fetch_or_acq_rel(dw::unjoinable);
    }
    to = descriptor_state::open;
  }
  at.code = int(code);
  for (u64 seen = word.load_acquire();
       !word.compare_exchange_acq_rel(seen, dw::with_state(seen, to));) {}
  if (code != status::ok)
    drop_reference(state, at);
  return code;
}

// Wait until somebody else's open is done.
TND_DEVICE_CALL inline status wait_open(device_state &state, descriptor &at, u64 deadline_ns) {
  namespace dw = descriptor_word;
  simt::device_atomic<u64> const word(at.word);
  for (;;) {
    u64 seen = word.load_acquire();
    if (dw::state(seen) == descriptor_state::open)
      return status::ok;
    if (dw::state(seen) == descriptor_state::failed) {
      status const code = status(at.code);
      drop_reference(state, at);
      return code;
    }
    // Leave an open that goes on; its own reference keeps the descriptor.
    if (simt::now_ns() >= deadline_ns && word.compare_exchange_acq_rel(seen, seen - dw::reference))
      return status::timed_out;
    simt::pause(500);
  }
}

// A descriptor for the URL: one that others opened, or one to open, which is `mine`. While all are
// in use, wait for one. Many groups may come at a time: those of one URL follow the list while they
// wait for the lock.
TND_DEVICE_CALL inline status find_or_take(device_state &state, const open_request &wanted,
                                           u64 deadline_ns, u32 &index, bool &mine) {
  descriptor_bucket &bucket = bucket_of(state, wanted.hash);
  simt::device_atomic<u32> const held(bucket.lock);
  mine = false;
  for (u32 spare = no_descriptor;;) {
    index = join_any(state, wanted);
    if (index == no_descriptor && spare == no_descriptor)
      spare = take_free(state);
    u32 unlocked = 0;
    if (index == no_descriptor && spare != no_descriptor &&
        held.compare_exchange_acq_rel(unlocked, 1u)) {
      index = join_any(state, wanted);
      mine = index == no_descriptor;
      if (mine) {
        index = spare;
        begin_open(state, index, wanted);
      }
      unlock(bucket.lock);
    }
    if (index != no_descriptor && !mine && spare != no_descriptor)
      put_free(state, spare);
    if (index != no_descriptor)
      break;
    if (simt::now_ns() >= deadline_ns) {
      if (spare == no_descriptor)
        return status::too_many_files;
      put_free(state, spare);
      return status::timed_out;
    }
    simt::pause(spare == no_descriptor ? 2000 : 200);
  }
  // The URL is copied without the lock: others compare it only after the host has opened the file.
  if (mine)
    copy_text(state.descriptors[index].url, wanted.url);
  return status::ok;
}

TND_DEVICE_CALL inline status open(device_state &state, const char *url, int flags, u64 deadline_ns,
                                   int &fd) {
  if (url == nullptr)
    return status::fault;
  if ((flags & ~(access_mask | g_creat | g_excl | g_trunc)) != 0 || (flags & access_mask) == 3)
    return status::invalid;
  u32 size = 0;
  open_request const wanted{url, hash_text(url, size), u32(flags)};
  if (size == 0)
    return status::invalid;
  if (size >= rpc::text_size)
    return status::name_too_long;
  u32 index = no_descriptor;
  // An open that we joined may have failed for what has changed since, before our call. The next
  // begins after that.
  for (u32 round = 0;; round++) {
    bool mine = false;
    TND_TRY(find_or_take(state, wanted, deadline_ns, index, mine));
    status const code = mine ? open_at_host(state, index, wanted, deadline_ns)
                             : wait_open(state, state.descriptors[index], deadline_ns);
    if (code == status::ok)
      break;
    if (mine || round > 0 || simt::now_ns() >= deadline_ns)
      return code;
  }
  descriptor &at = state.descriptors[index];
  if (!same_text(at.url, url)) {  // two URLs of one hash: only the first can be open
    u32 const generation =
        descriptor_word::generation(simt::device_atomic<u64>(at.word).load_acquire());
    (void)close_reference(state, at, generation & generation_mask, deadline_ns);
    return status::busy;
  }
  fd = fd_of(index, descriptor_word::generation(simt::device_atomic<u64>(at.word).load_acquire()));
  return status::ok;
}

TND_DEVICE_CALL inline status close(device_state &state, int fd, u64 deadline_ns) {
  descriptor *const file = find_descriptor(state, fd);
  return file == nullptr
             ? status::bad_file
             : close_reference(state, *file, u32(fd) >> descriptor_index_bits, deadline_ns);
}

TND_DEVICE_CALL inline status unlink(device_state &state, const char *url, u64 deadline_ns) {
  if (url == nullptr)
    return status::fault;
  u32 size = 0;
  u64 const hash = hash_text(url, size);
  if (size == 0)
    return status::invalid;
  if (size >= rpc::text_size)
    return status::name_too_long;
  rpc::reply reply{};
  simple_request const asked{op::unlink, 0, {0, 0, closes_before(state)}, true};
  status const code = call(state, asked, url, deadline_ns, reply, nullptr, 0);
  if (code == status::ok)
    part_from_name(state, hash);
  if (is_unanswered(code, reply))
    doubt_name(state, hash, false);
  return code;
}

TND_DEVICE_CALL inline status truncate(device_state &state, int fd, u64 size, u64 deadline_ns) {
  descriptor *const file = find_descriptor(state, fd);
  if (file == nullptr || !may_write(*file))
    return status::bad_file;
  if (size >> state.page_shift > tier::page_index_max || size > file_size_max)
    return status::too_big;
  rpc::reply reply{};
  u64 words[2] = {0, 0};
  node &of = state.nodes[file->node];
  status const code = call(state, {op::truncate, file->node, {size, 0, 0}, true}, nullptr,
                           deadline_ns, reply, words, 2);
  if (code == status::ok)
    adopt(of, {u32(words[0]), u32(words[1]), size});
  if (is_unanswered(code, reply))
    raise_doubt(of.doubt);
  return code;
}

TND_DEVICE_CALL inline status sync(device_state &state, int fd, u64 deadline_ns) {
  descriptor *const file = find_descriptor(state, fd);
  if (file == nullptr)
    return status::bad_file;
  rpc::reply reply{};
  return call(state, {op::sync, file->node, {0, 0, 0}}, nullptr, deadline_ns, reply, nullptr, 0);
}

}  // namespace tanada::gfile::device
