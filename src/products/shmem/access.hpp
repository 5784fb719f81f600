// products/shmem/access.hpp: what the calls on symmetric memory consist of. What takes a few
// nanoseconds is inlined into the exported functions: so kinds and sizes are constants there, and
// the call's name is looked at in the cold part alone.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "products/shmem/define.hpp"
#include "products/shmem/fatal.hpp"
#include "products/shmem/runtime.hpp"

namespace tanada::shmem {

[[noreturn, gnu::cold]] void no_such_context(shmem_ctx_t handle, const char *call) noexcept;

// The context of calls without one.
[[gnu::always_inline]] inline communication &context_of(const char *call) noexcept {
  return require_running(call).initial;
}

[[gnu::always_inline]] inline communication &context_of(shmem_ctx_t handle, const char *call) {
  runtime &current = require_running(call);
  if (handle == SHMEM_CTX_DEFAULT)
    return current.initial;
  bool const is_number = reinterpret_cast<uintptr_t>(handle) < team_number_end;
  if (is_number || (current.options.is_debug && !current.has_context(handle))) [[unlikely]]
    no_such_context(handle, call);
  auto *const storage = context_storage::of(handle);
  if (!storage->is_live()) [[unlikely]]
    no_such_context(handle, call);
  return *storage->get();
}

// Bytes of elements of `Unit` bytes; more than there can be is more than any segment has.
template <size_t Unit>
inline size_t size_of_elements(size_t count) noexcept {
  size_t size = 0;
  return __builtin_mul_overflow(count, Unit, &size) ? SIZE_MAX : size;
}

// One element is moved in registers.
template <size_t Unit>
struct element {
  std::array<std::byte, Unit> bytes;

  static element of(const void *source) noexcept {
    element made;
    std::memcpy(&made, source, Unit);
    return made;
  }
};

template <size_t Unit>
[[gnu::always_inline]] inline void put_one(communication &by, const char *call, void *dest,
                                           element<Unit> value, int pe) {
  status const code = by.core.put_value(static_cast<element<Unit> *>(dest), value, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, Unit, pe});
}

template <size_t Unit>
[[gnu::always_inline]] inline element<Unit> get_one(communication &by, const char *call,
                                                    const void *source, int pe) {
  element<Unit> value;
  status const code =
      by.core.get_value(value, static_cast<const element<Unit> *>(source), by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, Unit, pe});
  return value;
}

template <size_t Unit>
inline void put(communication &by, const char *call, void *dest, const void *source, size_t count,
                int pe) {
  if (Unit > 1 && count == 1 && !by.core.is_device_memory(source))
    return put_one(by, call, dest, element<Unit>::of(source), pe);
  size_t const size = size_of_elements<Unit>(count);
  status const code = by.core.put(dest, source, size, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, size, pe});
}

template <size_t Unit>
inline void get(communication &by, const char *call, void *dest, const void *source, size_t count,
                int pe) {
  if (Unit > 1 && count == 1 && !by.core.is_device_memory(dest)) {
    auto const value = get_one<Unit>(by, call, source, pe);
    std::memcpy(dest, &value, Unit);
    return;
  }
  size_t const size = size_of_elements<Unit>(count);
  status const code = by.core.get(dest, source, size, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, size, pe});
}

template <size_t Unit>
inline void put_nbi(communication &by, const char *call, void *dest, const void *source,
                    size_t count, int pe) {
  size_t const size = size_of_elements<Unit>(count);
  status const code = by.core.put_nbi(dest, source, size, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, size, pe});
}

template <size_t Unit>
inline void get_nbi(communication &by, const char *call, void *dest, const void *source,
                    size_t count, int pe) {
  size_t const size = size_of_elements<Unit>(count);
  status const code = by.core.get_nbi(dest, source, size, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, size, pe});
}

// Blocks of `block` elements whose beginnings are so many elements apart.
struct blocks {
  size_t block, count;
  ptrdiff_t target_stride, source_stride;
};
// What no memory can hold is refused as such.
template <size_t Unit>
inline pgas::strided_shape shape_of(const blocks &what) noexcept {
  size_t const block_size = size_of_elements<Unit>(what.block);
  size_t total = 0;
  ptrdiff_t target_stride = 0, source_stride = 0;
  bool const is_too_large =
      __builtin_mul_overflow(block_size, what.count, &total) ||
      __builtin_mul_overflow(what.target_stride, ptrdiff_t(Unit), &target_stride) ||
      __builtin_mul_overflow(what.source_stride, ptrdiff_t(Unit), &source_stride);
  if (is_too_large)
    return {SIZE_MAX, 1, 0, 0};
  return {block_size, what.count, target_stride, source_stride};
}

// `size` in a message: what a block has.
template <size_t Unit>
inline void put_blocks(communication &by, const char *call, void *dest, const void *source,
                       const blocks &what, int pe) {
  auto const shape = shape_of<Unit>(what);
  status const code = by.core.put_strided(dest, source, shape, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, shape.block_size, pe});
}
template <size_t Unit>
inline void get_blocks(communication &by, const char *call, void *dest, const void *source,
                       const blocks &what, int pe) {
  auto const shape = shape_of<Unit>(what);
  status const code = by.core.get_strided(dest, source, shape, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, shape.block_size, pe});
}

struct signal_change {
  uint64_t *at;
  uint64_t value;
  int op;  // SHMEM_SIGNAL_*
};
[[noreturn, gnu::cold]] void no_such_signal_op(int op, const char *call) noexcept;
inline pgas::signal_kind signal_kind_of(int op, const char *call) {
  if (op == SHMEM_SIGNAL_SET)
    return pgas::signal_kind::set;
  if (op == SHMEM_SIGNAL_ADD)
    return pgas::signal_kind::add;
  no_such_signal_op(op, call);
}
// Which of the two addresses was wrong.
[[noreturn, gnu::cold]] void fatal_signal(status code, communication &by,
                                          const failed_operation &what,
                                          const signal_change &signal) noexcept;

// Way: &pgas::context::put_signal or put_signal_nbi.
template <size_t Unit, auto Way>
inline void put_signal(communication &by, const char *call, void *dest, const void *source,
                       size_t count, const signal_change &signal, int pe) {
  size_t const size = size_of_elements<Unit>(count);
  auto const kind = signal_kind_of(signal.op, call);
  status const code =
      (by.core.*Way)(dest, source, size, signal.at, kind, signal.value, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal_signal(code, by, {call, dest, size, pe}, signal);
}

// What processors and networks update: types of its size are updated as it is.
template <class T>
using word_of = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// A change of *dest at `pe`; without `before` nobody asks what was there.
template <class T>
struct change {
  port::fabric_atomic kind;
  T operand{}, compare{};
};

template <class T>
[[gnu::always_inline]] inline T fetching(communication &by, const char *call, const T *dest,
                                         const change<T> &what, int pe) {
  using word = word_of<T>;
  word before{};
  status const code = by.core.update(what.kind, reinterpret_cast<word *>(const_cast<T *>(dest)),
                                     std::bit_cast<word>(what.operand),
                                     std::bit_cast<word>(what.compare), &before, by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, sizeof(T), pe});
  return std::bit_cast<T>(before);
}
template <class T>
[[gnu::always_inline]] inline void changing(communication &by, const char *call, T *dest,
                                            const change<T> &what, int pe) {
  using word = word_of<T>;
  status const code =
      by.core.update(what.kind, reinterpret_cast<word *>(dest), std::bit_cast<word>(what.operand),
                     std::bit_cast<word>(what.compare), static_cast<word *>(nullptr), by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, sizeof(T), pe});
}
template <class T>
[[gnu::always_inline]] inline void fetching_nbi(communication &by, const char *call, T *fetch,
                                                const T *dest, const change<T> &what, int pe) {
  using word = word_of<T>;
  status const code = by.core.update_nbi(
      what.kind, reinterpret_cast<word *>(const_cast<T *>(dest)), std::bit_cast<word>(what.operand),
      std::bit_cast<word>(what.compare), reinterpret_cast<word *>(fetch), by.world(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, sizeof(T), pe});
}

}  // namespace tanada::shmem

// SHMEM_DEFINE_BOTH(void, shmem_int_p, shmem_ctx_int_p, (int *dest, int value, int pe), statement
// using `by` and `call`): the call and its twin with a context.
#define SHMEM_DEFINE_BOTH(RESULT, NAME, CTX_NAME, PARAMETERS, ...)            \
  SHMEM_DEFINE(RESULT, NAME, PARAMETERS, {                                    \
    auto &by = tanada::shmem::context_of(call);                               \
    __VA_ARGS__;                                                              \
  })                                                                          \
  SHMEM_DEFINE(RESULT, CTX_NAME, (shmem_ctx_t ctx, SHMEM_OPEN_ PARAMETERS), { \
    auto &by = tanada::shmem::context_of(ctx, call);                          \
    __VA_ARGS__;                                                              \
  })
