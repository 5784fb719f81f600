// products/o2g/atomic.hpp: operations on elements of remote memory, applied in order of arrival
// under the target's lock. Those on integers of up to 8 bytes are atomic also towards the target's
// own processor atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::o2g {

// Numbers go over the wire. As libfabric's fi_datatype, less the 128-bit ones.
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

// As libfabric's fi_op, in its meaning: `target` is the old value, the operand the other.
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

// Is it defined (complex numbers have no order, floating numbers no bits)?
bool is_supported(atomic_type type, atomic_operation operation) noexcept;
bool needs_compared(atomic_operation operation) noexcept;

struct atomic_arguments {
  atomic_type type = atomic_type::u64;
  atomic_operation operation = atomic_operation::sum;
  std::span<const std::byte> operands{}, compared{};  // unaligned; read has no operands
  std::span<std::byte> fetched{};                     // unaligned; empty: not wanted
};

// On `count` elements at `target`, which is aligned for its type (fault) and writable. invalid: not
// supported, or sizes that do not agree.
status atomic_apply(const atomic_arguments &arguments, std::byte *target, size_t count);

}  // namespace tanada::o2g
