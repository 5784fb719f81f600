// products/o2g/atomic.hpp: atomic operations on elements of remote memory, applied in order of
// arrival under the target's engine lock. For elements of up to 8 bytes that are not complex, they
// are also atomic with respect to atomic instructions of the target's processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::o2g {

// The values are sent over the wire. They are those of libfabric's fi_datatype, without the 128-bit
// types.
enum class atomic_type : uint8_t {
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f32,
  f64,
  f32_complex,
  f64_complex,
  f_long,
  f_long_complex
};
inline constexpr size_t atomic_type_count = 14;
size_t size_of(atomic_type type) noexcept;  // bytes

// The values and semantics of libfabric's fi_op: the target holds the old value.
enum class atomic_operation : uint8_t {
  min,
  max,
  sum,
  product,
  logical_or,
  logical_and,
  bit_or,
  bit_and,
  logical_xor,
  bit_xor,
  read,
  write,
  compare_swap,
  compare_swap_unequal,
  compare_swap_less_equal,
  compare_swap_less,
  compare_swap_greater_equal,
  compare_swap_greater,
  masked_swap,
};
inline constexpr size_t atomic_operation_count = 19;
inline constexpr size_t atomic_size_max = 16384;  // bytes of operands in one request

// Whether the operation is defined for the type: complex numbers have no order, and floating-point
// numbers have no bit operations.
bool is_supported(atomic_type type, atomic_operation operation) noexcept;
bool needs_compared(atomic_operation operation) noexcept;

struct atomic_arguments {
  atomic_type type = atomic_type::u64;
  atomic_operation operation = atomic_operation::sum;
  std::span<const std::byte> operands{}, compared{};  // unaligned; empty for read
  std::span<std::byte> fetched{};                     // unaligned; empty: not fetching
};

// Applies the operation to `count` elements at `target`, which must be writable. fault: `target` is
// not aligned for its type. invalid: not supported, or the sizes do not agree.
status atomic_apply(const atomic_arguments &arguments, std::byte *target, size_t count);

}  // namespace tanada::o2g
