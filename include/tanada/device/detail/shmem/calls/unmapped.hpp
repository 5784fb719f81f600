// tanada/device/detail/shmem/calls/unmapped.hpp: operations on PEs whose memory is not mapped,
// which the host carries out. Not for direct inclusion.
//
// Only run_on_host() decides which of the kernel's own memory the host can access. It cannot access
// a stack or shared memory (simt::is_private), so those bytes travel in the text of requests, in as
// many requests as needed. Short data travel in the text wherever they are, because a copy by the
// host would cost more.
//
// Requests that carry all their data and return nothing are posted: the kernel does not wait for
// the host. The host performs them in the order of their posts, and before every later request of
// the same thread. If one fails, the host records the fault, and later fences and quiets return it.
//
// ptxas gives a kernel as many registers as there are values that live across the deepest chain of
// calls. So these functions keep few values: they work on structs in the caller's frame.
#pragma once

#include "address.hpp"

namespace tanada::shmem::device {

struct host_request {
  op operation;
  u32 pe;
  u32 unit;  // bytes of an element, or a flag
  u64 words[5];
};

// Elements of the kernel's own memory in a request: at `source` or at `target`; the other is null.
struct local_rows {
  const u8 *source;
  u8 *target;
  u64 size, count;                  // bytes of an element; how many elements
  long long stride, remote_stride;  // bytes from one element to the next, here and at the PE
};

TND_DEVICE inline u64 deadline_of(u64 timeout_ns) {
  u64 const now_ns = simt::now_ns();
  return timeout_ns > ~u64{0} - now_ns ? ~u64{0} : now_ns + timeout_ns;
}

TND_DEVICE inline u64 word_of(const void *addr) {
  return reinterpret_cast<u64>(addr);
}

// Copy `size` bytes. Other threads may have written the source.
TND_DEVICE inline void copy_few(u8 *target, const u8 *source, u32 size) {
  bool const are_words = ((word_of(target) | word_of(source)) & 7) == 0;
  TND_NO_UNROLL
  while (size != 0) {
    bool const is_word = are_words && size >= 8;
    if (is_word)
      *reinterpret_cast<u64 *>(target) = *reinterpret_cast<const volatile u64 *>(source);
    else
      *target = *const_cast<const volatile u8 *>(source);
    u32 const moved = is_word ? 8 : 1;
    target += moved;
    source += moved;
    size -= moved;
  }
}

// Copy the kernel's own bytes to the text, or from it, without gaps.
TND_DEVICE_CALL inline void exchange_text(u8 *text, const local_rows &local) {
  bool const is_whole = local.stride == static_cast<long long>(local.size);
  u32 const piece = u32(is_whole ? local.size * local.count : local.size),
            pieces = is_whole ? 1 : u32(local.count);
  TND_NO_UNROLL
  for (u32 i = 0; i < pieces; i++, text += piece) {
    if (local.source != nullptr)
      copy_few(text, local.source + static_cast<long long>(i) * local.stride, piece);
    else
      copy_few(local.target + static_cast<long long>(i) * local.stride, text, piece);
  }
}

TND_DEVICE inline void fill_body(rpc::request &body, const host_request &request, bool is_in_text) {
  body.op = u32(request.operation) | (is_in_text ? in_text : 0);
  body.file = request.pe | request.unit << 24;
  for (u32 i = 0; i < 5; i++)
    body.words[i] = request.words[i];
}

// One thread. Send a request to the host and wait for its status. `local`: its targets receive the
// text of the answer; null: the answer has no text.
TND_DEVICE_CALL inline status call_host(const host_request &request,
                                        const local_rows *local = nullptr,
                                        u64 *answer = nullptr) {
  rpc::ring_ref const ring = job_view().ring;
  u64 const deadline_ns = deadline_of(job_view().timeout_ns);
  rpc::ticket const ticket = ring.claim(deadline_ns);
  if (ticket.slot == rpc::no_slot)
    return status::timed_out;
  fill_body(ring.body(ticket), request, local != nullptr);
  ring.body(ticket).extra[0] = job_view().posts.limit();
  ring.post(ticket);
  wake_service();
  rpc::reply const reply = ring.wait(ticket, deadline_ns);
  if (reply.code == status::timed_out && reply.value == rpc::no_answer)
    return status::timed_out;
  if (answer != nullptr)
    *answer = simt::system_atomic<u64>(const_cast<u64 &>(ring.words(ticket)[0])).load_relaxed();
  if (local != nullptr && reply.code == status::ok)
    exchange_text(reinterpret_cast<u8 *>(ring.text(ticket)), *local);
  ring.finish(ticket, false);
  return reply.code;
}

// One thread. Send a request that needs no answer. `local`: its sources travel in the text; null:
// the words are the whole request.
TND_DEVICE_CALL inline status post_to_host(const host_request &request,
                                           const local_rows *local = nullptr) {
  rpc::post_queue_ref const posts = job_view().posts;
  u64 const ticket = posts.claim(deadline_of(job_view().timeout_ns));
  if (ticket == rpc::no_ticket)
    return status::timed_out;
  rpc::post_entry &entry = posts.entry(ticket);
  fill_body(entry.body, request, local != nullptr);
  entry.body.extra[0] = simt::block_rank();
  entry.body.extra[1] = simt::thread_rank_in_block();
  if (local != nullptr)
    exchange_text(reinterpret_cast<u8 *>(entry.text), *local);
  posts.post(ticket);
  wake_service();
  return status::ok;
}

// One thread. Send as many requests as the texts need. The last one carries the signal of a
// put_signal, after all others.
TND_DEVICE_CALL inline status call_host_in_texts(host_request &request, local_rows &local) {
  op const operation = request.operation;
  TND_NO_UNROLL
  for (u64 remaining = local.count; remaining != 0; remaining -= local.count) {
    u64 const most = (local.source != nullptr ? rpc::post_text_size : rpc::text_size) / local.size;
    local.count = remaining < most ? remaining : most;
    if (operation == op::put_signal)
      request.operation = remaining > most ? op::put : operation;
    request.words[2] = local.count;
    TND_TRY(local.source != nullptr ? post_to_host(request, &local) : call_host(request, &local));
    if (local.source != nullptr)
      local.source += static_cast<long long>(local.count) * local.stride;
    else
      local.target += static_cast<long long>(local.count) * local.stride;
    request.words[local.source != nullptr ? 0 : 1] += local.count * u64(local.remote_stride);
    if (operation == op::put_signal && remaining > most && remaining <= 2 * most)
      TND_TRY(call_host({op::fence, 0, 0, {0, 0, 0, 0, 0}}));
  }
  return status::ok;
}

// Data up to these sizes always travel in texts: a kernel stores to host memory without waiting,
// and waits for each word that it loads from there. On the host executor the largest text costs
// less than an answer.
inline constexpr u64 put_in_text_max = TND_SIMT_CUDA ? rpc::text_size : rpc::post_text_size,
                     got_in_text_max = 64;

// One thread.
TND_DEVICE_CALL inline status run_on_host(host_request &request, local_rows &local) {
  bool const is_put = local.source != nullptr, is_whole = local.size == 1;
  const void *const first = is_put ? local.source : local.target;
  bool const is_short = is_whole && local.count <= (is_put ? put_in_text_max : got_in_text_max);
  if (local.count != 0 && (is_short || simt::is_private(first))) {
    request.words[is_put ? 4 : 3] =
        request.operation == op::put_signal ? request.words[4] : 1;  // rows have no gaps in a text
    return call_host_in_texts(request, local);
  }
  if (local.count == 0)
    return request.operation == op::put_signal ? post_to_host(request) : status::ok;
  return call_host(request);
}

// The leader sends the request, and all threads receive its status. The leader's stores are visible
// to all.
template <class Group>
TND_DEVICE inline status run_on_host(
    Group group, host_request &request, local_rows &local, site call_site, const void *addr) {
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    code = run_on_host(request, local);
    if (code != status::ok)
      record_fault(code, call_site, addr, int(request.pe));
  }
  code = status(int(group.broadcast(u32(int(code)))));
  group.sync();
  return code;
}

template <class Group>
TND_DEVICE_CALL inline status host_put(
    Group group, void *target, const void *source, u64 size, int pe) {
  host_request request{op::put, u32(pe), 0, {word_of(target), word_of(source), size, 0, 0}};
  local_rows local{static_cast<const u8 *>(source), nullptr, 1, size, 1, 1};
  return run_on_host(group, request, local, site::put, target);
}

template <class Group>
TND_DEVICE_CALL inline status host_get(
    Group group, void *target, const void *source, u64 size, int pe) {
  host_request request{op::get, u32(pe), 0, {word_of(target), word_of(source), size, 0, 0}};
  local_rows local{nullptr, static_cast<u8 *>(target), 1, size, 1, 1};
  return run_on_host(group, request, local, site::get, source);
}

struct signal_request {
  u64 *target, value;
  bool is_added;
};
template <class Group>
TND_DEVICE_CALL inline status host_put_signal(
    Group group, void *target, const void *source, u64 size, const signal_request &signal, int pe) {
  host_request request{
      op::put_signal,
      u32(pe),
      signal.is_added ? 1u : 0u,
      {word_of(target), word_of(source), size, word_of(signal.target), signal.value}};
  local_rows local{static_cast<const u8 *>(source), nullptr, 1, size, 1, 1};
  return run_on_host(group, request, local, site::put_signal, target);
}

// Rows of elements of `size` bytes; strides in elements.
struct row_layout {
  u64 count, size;
  long long target, source;
};
template <class Group>
TND_DEVICE_CALL inline status host_put_rows(
    Group group, void *target, const void *source, const row_layout &rows, int pe) {
  auto const size = static_cast<long long>(rows.size);
  host_request request{
      op::iput,
      u32(pe),
      u32(rows.size),
      {word_of(target), word_of(source), rows.count, u64(rows.target), u64(rows.source)}};
  local_rows local{static_cast<const u8 *>(source),
                   nullptr,
                   rows.size,
                   rows.count,
                   rows.source * size,
                   rows.target * size};
  return run_on_host(group, request, local, site::iput, target);
}
template <class Group>
TND_DEVICE_CALL inline status host_get_rows(
    Group group, void *target, const void *source, const row_layout &rows, int pe) {
  auto const size = static_cast<long long>(rows.size);
  host_request request{
      op::iget,
      u32(pe),
      u32(rows.size),
      {word_of(target), word_of(source), rows.count, u64(rows.target), u64(rows.source)}};
  local_rows local{nullptr,
                   static_cast<u8 *>(target),
                   rows.size,
                   rows.count,
                   rows.target * size,
                   rows.source * size};
  return run_on_host(group, request, local, site::iget, source);
}

// One thread. Update or read a word of `size` bytes. Operands and results travel by value.
// `before`: receives the old value; null: the call does not wait.
TND_DEVICE_CALL inline status host_update(
    update_kind kind, void *target, u64 operand, u64 compare, u32 size, int pe, u64 *before) {
  host_request const request{
      op::update, u32(pe), size, {word_of(target), operand, compare, u64(kind), 0}};
  status const code =
      before == nullptr ? post_to_host(request) : call_host(request, nullptr, before);
  if (code != status::ok)
    record_fault(code, site::atomic, target, pe);
  return code;
}

}  // namespace tanada::shmem::device
