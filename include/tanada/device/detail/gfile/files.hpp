// tanada/device/detail/gfile/files.hpp: descriptors: open, close, unlink, truncate, sync, size.
// These functions are called by the leader only; gfile.hpp makes them collective.
#pragma once

#include "doubt.hpp"

namespace tanada::gfile::device {

TND_DEVICE_CALL inline u64 hash_text(const char *text, u32 &size) {
  u64 hash = 0xCBF29CE484222325ull;
  for (size = 0; size < rpc::text_size && text[size] != 0; size++)
    hash = (hash ^ u8(text[size])) * 0x100000001B3ull;
  return hash;
}

TND_DEVICE inline bool is_equal_text(const char *first, const char *second) {
  u32 i = 0;
  while (first[i] == second[i] && first[i] != 0)
    i++;
  return first[i] == second[i];
}

struct open_request {
  const char *url;
  u64 hash;
  u32 flags;
};

// Add a reference to a descriptor that has the URL's hash and flags and is open or being opened.
// Fields read between the load of the word and its exchange belong to the word's generation.
TND_DEVICE inline bool join(descriptor &entry, const open_request &request) {
  namespace dw = descriptor_word;
  simt::device_word<u64> const word(entry.word);
  for (u64 observed = word.load_acquire();;) {
    bool const alive = dw::state(observed) == descriptor_state::open ||
                       dw::state(observed) == descriptor_state::opening;
    if (!alive || (observed & dw::unjoinable) != 0 ||
        simt::device_word<u64>(entry.url_hash).load_relaxed() != request.hash ||
        simt::device_word<u32>(entry.flags).load_relaxed() != request.flags)
      return false;
    if (word.compare_exchange_acq_rel(observed, observed + dw::reference))
      return true;
  }
}

// The list that this warp uses first.
TND_DEVICE inline u32 free_list_index() {
  return u32(simt::global_thread_rank() / simt::warp_size % free_list_count);
}

TND_DEVICE_CALL inline u32 take_free_descriptor(device_state &state, u32 list) {
  simt::device_word<u64> const head(state.free_descriptors[list].head);
  u64 observed = head.load_acquire();
  while (u32(observed) != 0) {
    u32 const index = u32(observed) - 1;
    u64 const next = simt::device_word<u32>(state.descriptors[index].next_free).load_relaxed();
    if (head.compare_exchange_acq_rel(observed, ((observed >> 32) + 1) << 32 | next))
      return index;
  }
  return no_descriptor;
}

// Take a descriptor that was never used.
TND_DEVICE_CALL inline u32 take_new_descriptor(device_state &state) {
  simt::device_word<u32> const used(state.used_count);
  if (used.load_relaxed() >= state.file_count)
    return no_descriptor;
  u32 const index = used.fetch_add_relaxed(1);
  if (index < state.file_count)
    return index;
  (void)used.fetch_add_relaxed(~0u);
  return no_descriptor;
}

// Allocate a free descriptor for the caller. Returns `no_descriptor` if all are in use.
TND_DEVICE_CALL inline u32 allocate_descriptor(device_state &state) {
  u32 const own_list = free_list_index();
  u32 index = take_free_descriptor(state, own_list);
  if (index == no_descriptor)
    index = take_new_descriptor(state);
  for (u32 i = 1; i < free_list_count && index == no_descriptor; i++)
    index = take_free_descriptor(state, (own_list + i) % free_list_count);
  return index;
}

// Free a descriptor that the caller owns and that is in no list.
TND_DEVICE_CALL inline void free_descriptor(device_state &state, u32 index) {
  namespace dw = descriptor_word;
  descriptor &entry = state.descriptors[index];
  simt::device_word<u64> const word(entry.word);
  word.store_release(dw::make(dw::generation(word.load_relaxed()), descriptor_state::free, 0));
  simt::device_word<u64> const head(state.free_descriptors[free_list_index()].head);
  u64 observed = head.load_relaxed();
  do {
    simt::device_word<u32>(entry.next_free).store_relaxed(u32(observed));
  } while (!head.compare_exchange_acq_rel(observed, ((observed >> 32) + 1) << 32 | (index + 1)));
}

// Remove the descriptor from its list and free it. The caller held the last reference.
TND_DEVICE_CALL inline void release_descriptor(device_state &state, descriptor &file) {
  u32 const index = u32(&file - state.descriptors);
  descriptor_bucket &bucket =
      bucket_of(state, simt::device_word<u64>(file.url_hash).load_relaxed());
  lock(bucket.lock);
  u32 *link = &bucket.first;
  while (*link != index + 1)
    link = &state.descriptors[*link - 1].next;
  simt::device_word<u32>(*link).store_relaxed(file.next);
  unlock(bucket.lock);
  free_descriptor(state, index);
}

// Drop a reference to a descriptor that is not open. The caller that drops the last reference frees
// it.
TND_DEVICE inline void drop_reference(device_state &state, descriptor &entry) {
  namespace dw = descriptor_word;
  simt::device_word<u64> const word(entry.word);
  for (u64 observed = word.load_acquire();;) {
    u64 next = observed - dw::reference;
    bool const last = dw::references(next) == 0;
    if (last)
      next = dw::with_state(next, descriptor_state::closing);
    if (!word.compare_exchange_acq_rel(observed, next))
      continue;
    if (last)
      release_descriptor(state, entry);
    return;
  }
}

// Leader only. No request slot came free for a close. Count it where the host's periodic sweep
// finds it.
TND_DEVICE_CALL inline void record_unsent_close(device_state &state, const descriptor &file) {
  node &file_node = state.nodes[file.node];
  lock(file_node.lock);
  simt::system_word<u32> const closes(state.unsent[file.node].writer_count);
  closes.store_release(closes.load_relaxed() + 1);
  simt::wake_host();
  unlock(file_node.lock);
}

// Leader only. Post a close. The host carries it out soon, and before it serves a later open or
// unlink.
TND_DEVICE_CALL inline void post_close(device_state &state, u32 node) {
  u64 const ticket = simt::device_word<u64>(state.closes_posted).fetch_add_relaxed(1);
  simt::system_word<u64>(state.closes->entries[ticket % close_list_size])
      .store_release(close_entry(ticket, node));
  simt::wake_host();
}

// For an open or unlink: the number of closes that the host must take first.
TND_DEVICE_CALL inline u64 closes_before(device_state &state) {
  return simt::device_word<u64>(state.closes_posted).load_relaxed();
}

enum class drop_outcome : u32 { stale, dropped, last };

// Drop a reference of generation `generation` to an open descriptor. After `last` the descriptor is
// closing, and the caller owns it. `stale`: the descriptor is not open in that generation.
TND_DEVICE inline drop_outcome drop_open_reference(descriptor &file, u32 generation) {
  namespace dw = descriptor_word;
  simt::device_word<u64> const references(file.word);
  for (u64 observed = references.load_acquire();;) {
    bool const is_current = dw::state(observed) == descriptor_state::open &&
                            (dw::generation(observed) & generation_mask) == generation;
    if (!is_current || dw::references(observed) == 0)
      return drop_outcome::stale;
    u64 next = observed - dw::reference;
    bool const last = dw::references(next) == 0;
    if (last)
      next = dw::with_state(next, descriptor_state::closing);
    if (references.compare_exchange_acq_rel(observed, next))
      return last ? drop_outcome::last : drop_outcome::dropped;
  }
}

// Drop a reference of generation `generation`; the last one closes the file at the host. A failure
// of that close is recorded here, because the URL of a freed descriptor may already be another
// file's.
TND_DEVICE_CALL inline status close_reference(device_state &state,
                                              descriptor &file,
                                              u32 generation,
                                              u64 deadline_ns) {
  drop_outcome const outcome = drop_open_reference(file, generation);
  if (outcome != drop_outcome::last)
    return outcome == drop_outcome::stale ? status::bad_file : status::ok;
  if (!may_write(file)) {
    post_close(state, file.node);
    release_descriptor(state, file);
    return status::ok;
  }
  u32 const failure_count = simt::device_word<u32>(file.failures_seen).load_relaxed();
  rpc::reply reply{};
  status const code = call(state,
                           {op::close, file.node, {file.flags, failure_count, 0}},
                           nullptr,
                           deadline_ns,
                           reply,
                           nullptr,
                           0);
  bool const is_sent =
      code != status::timed_out || reply.code == code;  // call() leaves `reply` unchanged otherwise
  if (!is_sent)
    record_unsent_close(state, file);
  if (code != status::ok) {
    int const fd = fd_of(u32(&file - state.descriptors), generation);
    record_fault(state, code, {site::close, u64(fd), 0, file.url});
  }
  release_descriptor(state, file);
  return code;
}

// Join a descriptor that other callers have opened or are opening. Without the bucket's lock this
// may miss one.
TND_DEVICE_CALL inline u32 join_any(device_state &state, const open_request &request) {
  if ((request.flags & g_excl) != 0)
    return no_descriptor;
  u32 number = simt::device_word<u32>(bucket_of(state, request.hash).first).load_acquire();
  for (u32 steps = 0; number != 0 && steps < state.file_count; steps++) {
    descriptor &entry = state.descriptors[number - 1];
    if (join(entry, request))
      return number - 1;
    number = simt::device_word<u32>(entry.next).load_acquire();
  }
  return no_descriptor;
}

// Insert a free descriptor that the caller owns into its list. The caller holds the bucket's lock.
TND_DEVICE_CALL inline void begin_open(device_state &state,
                                       u32 index,
                                       const open_request &request) {
  namespace dw = descriptor_word;
  descriptor &entry = state.descriptors[index];
  descriptor_bucket &bucket = bucket_of(state, request.hash);
  simt::device_word<u64> const word(entry.word);
  simt::device_word<u64>(entry.url_hash).store_relaxed(request.hash);
  simt::device_word<u32>(entry.flags).store_relaxed(request.flags);
  simt::device_word<u32>(entry.next).store_relaxed(bucket.first);
  word.store_release(
      dw::make(dw::generation(word.load_relaxed()) + 1, descriptor_state::opening, 1));
  simt::device_word<u32>(bucket.first).store_release(index + 1);
}

// The host has opened the file. Take over its node and view from the answer's words.
TND_DEVICE inline void adopt_opened(device_state &state,
                                    descriptor &entry,
                                    u32 node_number,
                                    const u64 (&words)[4]) {
  node &file_node = state.nodes[node_number];
  simt::device_word<u32>(entry.node).store_relaxed(node_number);
  simt::device_word<u32>(entry.failures_seen).store_relaxed(u32(words[0] >> 32));
  adopt_view(file_node, {u32(words[0]), u32(words[1]), words[2]});
  // The old value belonged to another file.
  simt::device_word<u32>(file_node.missing).store_relaxed(u32(miss_expectation::hit));
  simt::device_word<u32>(file_node.lists_refused).store_relaxed(0);
  if (may_still_change(state, words[3])) {
    raise_doubt(file_node.doubt);
    (void)simt::device_word<u64>(entry.word).fetch_or_acq_rel(descriptor_word::unjoinable);
  }
}

// Open the file at the host, and publish the outcome to the callers that joined.
TND_DEVICE_CALL inline status open_at_host(device_state &state,
                                           u32 index,
                                           const open_request &request,
                                           u64 deadline_ns) {
  namespace dw = descriptor_word;
  descriptor &entry = state.descriptors[index];
  rpc::reply reply{};
  u64 words[4] = {0, 0, 0, 0};
  bool const truncates = (request.flags & g_trunc) != 0 && (request.flags & access_mask) != 0;
  simple_request const host_request{
      op::open, 0, {request.flags, 0, closes_before(state)}, truncates};
  status const code = call(state, host_request, request.url, deadline_ns, reply, words, 4);
  if (truncates && is_unanswered(code, reply))
    mark_name_in_doubt(state, request.hash, true);
  simt::device_word<u64> const word(entry.word);
  descriptor_state new_state = descriptor_state::failed;
  if (code == status::ok) {
    adopt_opened(state, entry, reply.value, words);
    new_state = descriptor_state::open;
  }
  entry.code = int(code);
  for (u64 observed = word.load_acquire();
       !word.compare_exchange_acq_rel(observed, dw::with_state(observed, new_state));) {}
  if (code != status::ok)
    drop_reference(state, entry);
  return code;
}

// Wait until another caller's open has ended.
TND_DEVICE_CALL inline status wait_open(device_state &state, descriptor &entry, u64 deadline_ns) {
  namespace dw = descriptor_word;
  simt::device_word<u64> const word(entry.word);
  for (;;) {
    u64 observed = word.load_acquire();
    if (dw::state(observed) == descriptor_state::open)
      return status::ok;
    if (dw::state(observed) == descriptor_state::failed) {
      status const code = status(entry.code);
      drop_reference(state, entry);
      return code;
    }
    // At the deadline, abandon an open in progress. Its own reference keeps the descriptor alive.
    if (simt::now_ns() >= deadline_ns &&
        word.compare_exchange_acq_rel(observed, observed - dw::reference))
      return status::timed_out;
    simt::pause(500);
  }
}

// Join a descriptor in the list, or else insert `spare`, which the caller then owns (`is_owner`).
// Returns `no_descriptor` if there is no spare or another group holds the bucket's lock.
TND_DEVICE inline u32 join_or_insert(device_state &state,
                                     const open_request &request,
                                     u32 spare,
                                     bool &is_owner) {
  descriptor_bucket &bucket = bucket_of(state, request.hash);
  u32 unlocked = 0;
  if (spare == no_descriptor ||
      !simt::device_word<u32>(bucket.lock).compare_exchange_acq_rel(unlocked, 1u))
    return no_descriptor;
  u32 index = join_any(state, request);
  is_owner = index == no_descriptor;
  if (is_owner) {
    index = spare;
    begin_open(state, index, request);
  }
  unlock(bucket.lock);
  return index;
}

// Find a descriptor for the URL: one that other callers opened, or a new one, which the caller then
// owns (`is_owner`). While all descriptors are in use, wait for one. Many groups may call at the
// same time. Groups with the same URL follow the list while they wait for the lock.
TND_DEVICE_CALL inline status find_or_allocate(
    device_state &state, const open_request &request, u64 deadline_ns, u32 &index, bool &is_owner) {
  is_owner = false;
  for (u32 spare = no_descriptor;;) {
    index = join_any(state, request);
    if (index == no_descriptor && spare == no_descriptor)
      spare = allocate_descriptor(state);
    if (index == no_descriptor)
      index = join_or_insert(state, request, spare, is_owner);
    if (index != no_descriptor && !is_owner && spare != no_descriptor)
      free_descriptor(state, spare);
    if (index != no_descriptor)
      break;
    if (simt::now_ns() >= deadline_ns) {
      if (spare == no_descriptor)
        return status::too_many_files;
      free_descriptor(state, spare);
      return status::timed_out;
    }
    simt::pause(spare == no_descriptor ? 2000 : 200);
  }
  // Copy the URL without the lock: other callers compare it only after the host has opened the
  // file.
  if (is_owner)
    copy_text(state.descriptors[index].url, request.url);
  return status::ok;
}

// Open the file, or wait until another caller has opened it.
//
// An open that this call joined may have failed because of a condition that ended before this call
// began. A second attempt begins after it.
TND_DEVICE inline status open_or_join(device_state &state,
                                      const open_request &request,
                                      u64 deadline_ns,
                                      u32 &index) {
  for (u32 round = 0;; round++) {
    bool is_owner = false;
    TND_TRY(find_or_allocate(state, request, deadline_ns, index, is_owner));
    status const code = is_owner ? open_at_host(state, index, request, deadline_ns)
                                 : wait_open(state, state.descriptors[index], deadline_ns);
    if (code == status::ok || is_owner || round > 0 || simt::now_ns() >= deadline_ns)
      return code;
  }
}

TND_DEVICE_CALL inline status open(
    device_state &state, const char *url, int flags, u64 deadline_ns, int &fd) {
  if (url == nullptr)
    return status::fault;
  if ((flags & ~(access_mask | g_creat | g_excl | g_trunc)) != 0 || (flags & access_mask) == 3)
    return status::invalid;
  u32 size = 0;
  open_request const request{url, hash_text(url, size), u32(flags)};
  if (size == 0)
    return status::invalid;
  if (size >= rpc::text_size)
    return status::name_too_long;
  u32 index = no_descriptor;
  TND_TRY(open_or_join(state, request, deadline_ns, index));
  descriptor &entry = state.descriptors[index];
  if (!is_equal_text(entry.url, url)) {  // two URLs have the same hash: only the first can be open
    u32 const generation =
        descriptor_word::generation(simt::device_word<u64>(entry.word).load_acquire());
    (void)close_reference(state, entry, generation & generation_mask, deadline_ns);
    return status::busy;
  }
  fd = fd_of(index, descriptor_word::generation(simt::device_word<u64>(entry.word).load_acquire()));
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
  simple_request const request{op::unlink, 0, {0, 0, closes_before(state)}, true};
  status const code = call(state, request, url, deadline_ns, reply, nullptr, 0);
  if (code == status::ok)
    detach_from_name(state, hash);
  if (is_unanswered(code, reply))
    mark_name_in_doubt(state, hash, false);
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
  node &file_node = state.nodes[file->node];
  status const code = call(
      state, {op::truncate, file->node, {size, 0, 0}, true}, nullptr, deadline_ns, reply, words, 2);
  if (code == status::ok)
    adopt_view(file_node, {u32(words[0]), u32(words[1]), size});
  if (is_unanswered(code, reply))
    raise_doubt(file_node.doubt);
  return code;
}

TND_DEVICE_CALL inline status sync(device_state &state, int fd, u64 deadline_ns) {
  descriptor *const file = find_descriptor(state, fd);
  if (file == nullptr)
    return status::bad_file;
  rpc::reply reply{};
  simt::device_word<u32> const failure_count(file->failures_seen);
  simple_request const request{op::sync, file->node, {0, failure_count.load_relaxed(), 0}};
  status const code = call(state, request, nullptr, deadline_ns, reply, nullptr, 0);
  // Callers that share the descriptor must all be able to get an error.
  u64 const word = simt::device_word<u64>(file->word).load_relaxed();
  bool const is_counted = reply.value != 0 && reply.value != rpc::no_answer;
  if (is_counted && descriptor_word::references(word) == 1)
    failure_count.store_relaxed(reply.value);
  return code;
}

}  // namespace tanada::gfile::device
