// tanada/device/detail/shmem/calls/far.hpp: operations on PEs whose memory is not reached: the host
// does them. Not for direct inclusion.
//
// Which of the kernel's own memory the host reaches is decided in one place, ask_for(): a stack and
// shared memory (simt::is_private) are nowhere for it, so their bytes travel in the text of
// requests, as many at a time as that takes. What is short does so wherever it lies, for it would
// cost the host a copy.
//
// ptxas gives a kernel as many registers as it has values that live across the deepest chain of
// calls. So these functions have few: what they work on are structs in the caller's frame.
#pragma once

#include "reach.hpp"

namespace tanada::shmem::device {

struct far_request {
  op what;
  u32 pe;
  u32 unit;  // bytes of an element, or a flag
  u64 words[5];
};

// What is the kernel's own in a request, which `source` names, or `target`; the other is null: so
// many elements.
struct own_rows {
  const u8 *source;
  u8 *target;
  u64 size, count;          // bytes of one; how many
  long long stride, there;  // bytes from one to the next, here and at the PE
};

TND_DEVICE inline u64 deadline_of(u64 timeout_ns) {
  u64 const now = simt::now_ns();
  return timeout_ns > ~u64{0} - now ? ~u64{0} : now + timeout_ns;
}

TND_DEVICE inline u64 word_of(const void *addr) {
  return reinterpret_cast<u64>(addr);
}

// `size` bytes, of which others may have written the source.
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

// The text takes the kernel's own bytes, or gives them: without gaps.
TND_DEVICE_CALL inline void exchange_text(u8 *text, const own_rows &own) {
  bool const is_whole = own.stride == static_cast<long long>(own.size);
  u32 const piece = u32(is_whole ? own.size * own.count : own.size),
            pieces = is_whole ? 1 : u32(own.count);
  TND_NO_UNROLL
  for (u32 i = 0; i < pieces; i++, text += piece) {
    if (own.source != nullptr)
      copy_few(text, own.source + static_cast<long long>(i) * own.stride, piece);
    else
      copy_few(own.target + static_cast<long long>(i) * own.stride, text, piece);
  }
}

// One thread. Ask the host and wait for what it says. `own`: travels in the text; null: the words
// are all.
TND_DEVICE_CALL inline status ask_host(const far_request &asked, const own_rows *own = nullptr,
                                       u64 *answer = nullptr) {
  rpc::ring_ref const ring = here().ring;
  u64 const deadline_ns = deadline_of(here().timeout_ns);
  rpc::ticket const mine = ring.claim(deadline_ns);
  if (mine.slot == rpc::no_slot)
    return status::timed_out;
  rpc::request &body = ring.body(mine);
  body.op = u32(asked.what) | (own != nullptr ? in_text : 0);
  body.file = asked.pe | asked.unit << 24;
  for (u32 i = 0; i < 5; i++)
    body.words[i] = asked.words[i];
  if (own != nullptr && own->source != nullptr)
    exchange_text(reinterpret_cast<u8 *>(ring.text(mine)), *own);
  ring.post(mine);
  rpc::reply const reply = ring.wait(mine, deadline_ns);
  if (reply.code == status::timed_out && reply.value == rpc::no_answer)
    return status::timed_out;
  if (answer != nullptr)
    *answer = simt::system_atomic<u64>(const_cast<u64 &>(ring.words(mine)[0])).load_relaxed();
  if (own != nullptr && own->source == nullptr && reply.code == status::ok)
    exchange_text(reinterpret_cast<u8 *>(ring.text(mine)), *own);
  ring.finish(mine, false);
  return reply.code;
}

// One thread. In as many requests as texts are filled; the last brings the signal of a put_signal,
// behind the others.
TND_DEVICE_CALL inline status ask_in_text(far_request &asked, own_rows &own) {
  op const what = asked.what;
  TND_NO_UNROLL
  for (u64 left = own.count; left != 0; left -= own.count) {
    u64 const most = rpc::text_size / own.size;
    own.count = left < most ? left : most;
    if (what == op::put_signal)
      asked.what = left > most ? op::put : what;
    asked.words[2] = own.count;
    TND_TRY(ask_host(asked, &own));
    if (own.source != nullptr)
      own.source += static_cast<long long>(own.count) * own.stride;
    else
      own.target += static_cast<long long>(own.count) * own.stride;
    asked.words[own.source != nullptr ? 0 : 1] += own.count * u64(own.there);
    if (what == op::put_signal && left > most && left <= 2 * most)
      TND_TRY(ask_host({op::fence, 0, 0, {0, 0, 0, 0, 0}}));
  }
  return status::ok;
}

// Bytes that travel in texts wherever they lie: a kernel stores to the host's memory with no wait,
// and waits for each word from there.
inline constexpr u64 put_in_text_max = rpc::text_size, got_in_text_max = 64;

// One thread.
TND_DEVICE_CALL inline status ask_for(far_request &asked, own_rows &own) {
  bool const is_put = own.source != nullptr, is_whole = own.size == 1;
  const void *const first = is_put ? own.source : own.target;
  bool const is_short = is_whole && own.count <= (is_put ? put_in_text_max : got_in_text_max);
  if (own.count != 0 && (is_short || simt::is_private(first))) {
    asked.words[is_put ? 4 : 3] =
        asked.what == op::put_signal ? asked.words[4] : 1;  // rows lie without gaps in a text
    return ask_in_text(asked, own);
  }
  return own.count != 0 || asked.what == op::put_signal ? ask_host(asked) : status::ok;
}

// The leader asks, all take the status; what the leader has stored is there for all.
template <class Group>
TND_DEVICE inline status ask_for(Group group, far_request &asked, own_rows &own, site where,
                                 const void *addr) {
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    code = ask_for(asked, own);
    if (code != status::ok)
      record_fault(code, where, addr, int(asked.pe));
  }
  code = status(int(group.broadcast(u32(int(code)))));
  group.sync();
  return code;
}

template <class Group>
TND_DEVICE_CALL inline status far_put(Group group, void *target, const void *source, u64 size,
                                      int pe) {
  far_request asked{op::put, u32(pe), 0, {word_of(target), word_of(source), size, 0, 0}};
  own_rows own{static_cast<const u8 *>(source), nullptr, 1, size, 1, 1};
  return ask_for(group, asked, own, site::put, target);
}

template <class Group>
TND_DEVICE_CALL inline status far_get(Group group, void *target, const void *source, u64 size,
                                      int pe) {
  far_request asked{op::get, u32(pe), 0, {word_of(target), word_of(source), size, 0, 0}};
  own_rows own{nullptr, static_cast<u8 *>(target), 1, size, 1, 1};
  return ask_for(group, asked, own, site::get, source);
}

struct far_signal {
  u64 *at, value;
  bool is_added;
};
template <class Group>
TND_DEVICE_CALL inline status far_put_signal(Group group, void *target, const void *source,
                                             u64 size, const far_signal &then, int pe) {
  far_request asked{op::put_signal,
                    u32(pe),
                    then.is_added ? 1u : 0u,
                    {word_of(target), word_of(source), size, word_of(then.at), then.value}};
  own_rows own{static_cast<const u8 *>(source), nullptr, 1, size, 1, 1};
  return ask_for(group, asked, own, site::put_signal, target);
}

// Rows of elements of `size` bytes; strides in elements.
struct far_rows {
  u64 count, size;
  long long target, source;
};
template <class Group>
TND_DEVICE_CALL inline status far_put_rows(Group group, void *target, const void *source,
                                           const far_rows &rows, int pe) {
  auto const size = static_cast<long long>(rows.size);
  far_request asked{
      op::iput,
      u32(pe),
      u32(rows.size),
      {word_of(target), word_of(source), rows.count, u64(rows.target), u64(rows.source)}};
  own_rows own{static_cast<const u8 *>(source),
               nullptr,
               rows.size,
               rows.count,
               rows.source * size,
               rows.target * size};
  return ask_for(group, asked, own, site::iput, target);
}
template <class Group>
TND_DEVICE_CALL inline status far_get_rows(Group group, void *target, const void *source,
                                           const far_rows &rows, int pe) {
  auto const size = static_cast<long long>(rows.size);
  far_request asked{
      op::iget,
      u32(pe),
      u32(rows.size),
      {word_of(target), word_of(source), rows.count, u64(rows.target), u64(rows.source)}};
  own_rows own{nullptr,    static_cast<u8 *>(target), rows.size,
               rows.count, rows.target * size,        rows.source * size};
  return ask_for(group, asked, own, site::iget, source);
}

// One thread. A word of `size` bytes is changed, or read. Operands and results travel by value.
TND_DEVICE_CALL inline status far_update(update_kind kind, void *target, u64 operand, u64 compare,
                                         u32 size, int pe, u64 *before) {
  status const code =
      ask_host({op::update, u32(pe), size, {word_of(target), operand, compare, u64(kind), 0}},
               nullptr, before);
  if (code != status::ok)
    record_fault(code, site::atomic, target, pe);
  return code;
}

}  // namespace tanada::shmem::device
