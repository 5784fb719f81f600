// products/shmem/access.hpp: building blocks of the calls on symmetric memory. Operations of a few
// nanoseconds are inlined into the exported functions, where kinds and sizes are constants. Only
// the cold paths read the call's name.
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

// Returns the default context, for calls without a context argument.
[[gnu::always_inline]] inline program_context &context_of(const char *call) noexcept {
  return require_running(call).default_context;
}

[[gnu::always_inline]] inline program_context &context_of(shmem_ctx_t handle, const char *call) {
  runtime &current = require_running(call);
  if (handle == SHMEM_CTX_DEFAULT)
    return current.default_context;
  bool const is_number = reinterpret_cast<uintptr_t>(handle) < team_number_end;
  if (is_number || (current.options.is_debug && !current.has_context(handle))) [[unlikely]]
    no_such_context(handle, call);
  auto *const storage = context_storage::from_handle(handle);
  if (!storage->is_live()) [[unlikely]]
    no_such_context(handle, call);
  return *storage->get();
}

// Returns the size of `count` elements of `Unit` bytes. On overflow it is SIZE_MAX, which exceeds
// every segment.
template <size_t Unit>
inline size_t size_of_elements(size_t count) noexcept {
  size_t size = 0;
  return __builtin_mul_overflow(count, Unit, &size) ? SIZE_MAX : size;
}

// An element that is moved in registers.
template <size_t Unit>
struct element {
  std::array<std::byte, Unit> bytes;

  static_assert(Unit > 0);

  static element load_from(const void *source) noexcept {
    element loaded;
    std::memcpy(&loaded, source, Unit);
    return loaded;
  }
};

template <size_t Unit>
[[gnu::always_inline]] inline void put_element(
    program_context &context, const char *call, void *dest, element<Unit> value, int pe) {
  status const code =
      context.core.put_value(static_cast<element<Unit> *>(dest), value, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, Unit, pe});
}

template <size_t Unit>
[[gnu::always_inline]] inline element<Unit> get_element(program_context &context,
                                                        const char *call,
                                                        const void *source,
                                                        int pe) {
  element<Unit> value;
  status const code =
      context.core.get_value(value, static_cast<const element<Unit> *>(source), context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, Unit, pe});
  return value;
}

template <size_t Unit>
inline void put(program_context &context,
                const char *call,
                void *dest,
                const void *source,
                size_t count,
                int pe) {
  if (Unit > 1 && count == 1 && !context.core.is_device_memory(source))
    return put_element(context, call, dest, element<Unit>::load_from(source), pe);
  size_t const size = size_of_elements<Unit>(count);
  status const code = context.core.put(dest, source, size, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, size, pe});
}

template <size_t Unit>
inline void get(program_context &context,
                const char *call,
                void *dest,
                const void *source,
                size_t count,
                int pe) {
  if (Unit > 1 && count == 1 && !context.core.is_device_memory(dest)) {
    auto const value = get_element<Unit>(context, call, source, pe);
    std::memcpy(dest, &value, Unit);
    return;
  }
  size_t const size = size_of_elements<Unit>(count);
  status const code = context.core.get(dest, source, size, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, size, pe});
}

template <size_t Unit>
inline void put_nbi(program_context &context,
                    const char *call,
                    void *dest,
                    const void *source,
                    size_t count,
                    int pe) {
  size_t const size = size_of_elements<Unit>(count);
  status const code = context.core.put_nbi(dest, source, size, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, size, pe});
}

template <size_t Unit>
inline void get_nbi(program_context &context,
                    const char *call,
                    void *dest,
                    const void *source,
                    size_t count,
                    int pe) {
  size_t const size = size_of_elements<Unit>(count);
  status const code = context.core.get_nbi(dest, source, size, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, size, pe});
}

// Strided blocks of `block` elements; the strides are in elements.
struct blocks {
  size_t block, count;
  ptrdiff_t target_stride, source_stride;
};
// A shape that overflows becomes one of SIZE_MAX bytes, which the context refuses.
template <size_t Unit>
inline onesided::strided_shape shape_of(const blocks &layout) noexcept {
  size_t const block_size = size_of_elements<Unit>(layout.block);
  size_t total = 0;
  ptrdiff_t target_stride = 0, source_stride = 0;
  bool const is_too_large =
      __builtin_mul_overflow(block_size, layout.count, &total) ||
      __builtin_mul_overflow(layout.target_stride, ptrdiff_t(Unit), &target_stride) ||
      __builtin_mul_overflow(layout.source_stride, ptrdiff_t(Unit), &source_stride);
  if (is_too_large)
    return {SIZE_MAX, 1, 0, 0};
  return {block_size, layout.count, target_stride, source_stride};
}

// In an error message, `size` is the size of one block.
template <size_t Unit>
inline void put_blocks(program_context &context,
                       const char *call,
                       void *dest,
                       const void *source,
                       const blocks &layout,
                       int pe) {
  auto const shape = shape_of<Unit>(layout);
  status const code = context.core.put_strided(dest, source, shape, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, shape.block_size, pe});
}
template <size_t Unit>
inline void get_blocks(program_context &context,
                       const char *call,
                       void *dest,
                       const void *source,
                       const blocks &layout,
                       int pe) {
  auto const shape = shape_of<Unit>(layout);
  status const code = context.core.get_strided(dest, source, shape, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, source, shape.block_size, pe});
}

struct signal_change {
  uint64_t *address;
  uint64_t value;
  int op;  // SHMEM_SIGNAL_*
};
[[noreturn, gnu::cold]] void no_such_signal_op(int op, const char *call) noexcept;
inline onesided::signal_kind signal_kind_of(int op, const char *call) {
  if (op == SHMEM_SIGNAL_SET)
    return onesided::signal_kind::set;
  if (op == SHMEM_SIGNAL_ADD)
    return onesided::signal_kind::add;
  no_such_signal_op(op, call);
}
// Ends the job, naming whichever of the two addresses was invalid.
[[noreturn, gnu::cold]] void fatal_signal(status code,
                                          program_context &context,
                                          const failed_operation &operation,
                                          const signal_change &signal) noexcept;

// Method: &onesided::context::put_signal or put_signal_nbi.
template <size_t Unit, auto Method>
inline void put_signal(program_context &context,
                       const char *call,
                       void *dest,
                       const void *source,
                       size_t count,
                       const signal_change &signal,
                       int pe) {
  size_t const size = size_of_elements<Unit>(count);
  auto const kind = signal_kind_of(signal.op, call);
  status const code = (context.core.*Method)(
      dest, source, size, signal.address, kind, signal.value, context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal_signal(code, context, {call, dest, size, pe}, signal);
}

// The unsigned word by which values of type T are updated atomically.
template <class T>
using word_of = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// An atomic update. `compare` is used only by compare_swap.
template <class T>
struct change {
  seams::fabric_atomic kind;
  T operand{}, compare{};
};

template <class T>
[[gnu::always_inline]] inline T fetch_atomic(
    program_context &context, const char *call, const T *dest, const change<T> &update, int pe) {
  using word = word_of<T>;
  word before{};
  status const code = context.core.update(update.kind,
                                          reinterpret_cast<word *>(const_cast<T *>(dest)),
                                          std::bit_cast<word>(update.operand),
                                          std::bit_cast<word>(update.compare),
                                          &before,
                                          context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, sizeof(T), pe});
  return std::bit_cast<T>(before);
}
template <class T>
[[gnu::always_inline]] inline void update_atomic(
    program_context &context, const char *call, T *dest, const change<T> &update, int pe) {
  using word = word_of<T>;
  status const code = context.core.update(update.kind,
                                          reinterpret_cast<word *>(dest),
                                          std::bit_cast<word>(update.operand),
                                          std::bit_cast<word>(update.compare),
                                          static_cast<word *>(nullptr),
                                          context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, sizeof(T), pe});
}
template <class T>
[[gnu::always_inline]] inline void fetch_atomic_nbi(program_context &context,
                                                    const char *call,
                                                    T *fetch,
                                                    const T *dest,
                                                    const change<T> &update,
                                                    int pe) {
  using word = word_of<T>;
  status const code = context.core.update_nbi(update.kind,
                                              reinterpret_cast<word *>(const_cast<T *>(dest)),
                                              std::bit_cast<word>(update.operand),
                                              std::bit_cast<word>(update.compare),
                                              reinterpret_cast<word *>(fetch),
                                              context.job_pe(pe));
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, dest, sizeof(T), pe});
}

}  // namespace tanada::shmem

// SHMEM_DEFINE_BOTH(void, shmem_int_p, shmem_ctx_int_p, (int *dest, int value, int pe), statement
// using `context` and `call`): defines the call and its variant with a context argument.
#define SHMEM_DEFINE_BOTH(RESULT, NAME, CTX_NAME, PARAMETERS, ...)            \
  SHMEM_DEFINE(RESULT, NAME, PARAMETERS, {                                    \
    auto &context = tanada::shmem::context_of(call);                          \
    __VA_ARGS__;                                                              \
  })                                                                          \
  SHMEM_DEFINE(RESULT, CTX_NAME, (shmem_ctx_t ctx, SHMEM_OPEN_ PARAMETERS), { \
    auto &context = tanada::shmem::context_of(ctx, call);                     \
    __VA_ARGS__;                                                              \
  })
