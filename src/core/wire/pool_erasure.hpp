// core/wire/pool_erasure.hpp: how an object of a cluster is cut into fragments of an erasure code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace tanada::wire::pool {

// K data fragments and M parity fragments; any K of them give the bytes. 0 and 0: no code.
struct erasure_scheme {
  uint8_t data_count = 0, parity_count = 0;

  bool operator==(const erasure_scheme &) const = default;
  bool is_on() const noexcept {
    return data_count > 0;
  }
  uint32_t width() const noexcept {
    return uint32_t(data_count) + parity_count;
  }
  static bool fields(auto &f, auto &m) {
    return f(m.data_count) && f(m.parity_count);
  }
};
inline constexpr uint32_t erasure_data_count_min = 2, erasure_data_count_max = 16;
inline constexpr uint32_t erasure_parity_count_max = 4;

// Within the limits, or no code.
constexpr bool is_valid(const erasure_scheme &scheme) noexcept {
  bool const is_code = scheme.data_count >= erasure_data_count_min &&
                       scheme.data_count <= erasure_data_count_max && scheme.parity_count >= 1 &&
                       scheme.parity_count <= erasure_parity_count_max;
  return is_code || (scheme.data_count == 0 && scheme.parity_count == 0);
}

// "4+2".
std::string to_string(const erasure_scheme &scheme);

/**
 * The fragments of an object.
 *
 * Each K * fragment_size bytes of the object are a group. Data fragment i of a group has the bytes
 * from i * fragment_size on, so a read needs no decoding. In the last group, data fragments may be
 * shorter or empty, which counts as zeros. A parity fragment is as long as the group's first
 * fragment. Fragments are numbered by group, the data fragments of a group first.
 */
struct erasure_layout {
  erasure_scheme scheme;
  uint64_t size = 0, fragment_size = 0;  // bytes

  uint64_t data_fragment_count() const noexcept {
    return fragment_size == 0 ? 0 : size / fragment_size + (size % fragment_size != 0 ? 1 : 0);
  }
  uint64_t group_count() const noexcept {
    uint64_t const count = data_fragment_count(), width = std::max<uint64_t>(scheme.data_count, 1);
    return count / width + (count % width != 0 ? 1 : 0);
  }
  // Including empty ones.
  uint64_t fragment_count() const noexcept {
    return group_count() * scheme.width();
  }
  // The number of a data fragment among all fragments.
  uint64_t number_of_data(uint64_t index) const noexcept {
    return index / scheme.data_count * scheme.width() + index % scheme.data_count;
  }
  uint64_t group_of(uint64_t number) const noexcept {
    return number / scheme.width();
  }
  uint32_t place_of(uint64_t number) const noexcept {
    return uint32_t(number % scheme.width());
  }
  bool is_parity(uint64_t number) const noexcept {
    return place_of(number) >= scheme.data_count;
  }
  uint64_t offset_of(uint64_t number) const noexcept {
    uint64_t const place = is_parity(number) ? 0 : place_of(number);
    return (group_of(number) * scheme.data_count + place) * fragment_size;
  }
  uint64_t size_of(uint64_t number) const noexcept {
    uint64_t const offset = offset_of(number);
    return offset >= size ? 0 : std::min(size - offset, fragment_size);
  }
};

// Of an object: its manifest must stay below stripe_manifest_size_max, and the reply with the
// places of its fragments below body_size_max.
inline constexpr uint64_t fragment_count_max = 49152;

}  // namespace tanada::wire::pool
