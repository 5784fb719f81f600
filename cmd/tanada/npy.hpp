// cmd/tanada/npy.hpp: the header of a NumPy array file (numpy.lib.format, 1.0 to 3.0), as far as
// pictures need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::command {

// An array of floats in C order, little endian.
struct npy_array {
  uint64_t data_offset = 0;        // bytes of the file before the first element
  uint32_t item_size = 0;          // 4 or 8
  std::vector<uint64_t> shape;     // 1 to 4 dimensions, none empty; the last one varies fastest
  uint64_t size() const noexcept;  // bytes of the file
};

inline constexpr uint64_t npy_prefix_size = 12;  // this many bytes determine the header's length
inline constexpr uint64_t npy_header_size_max =
    64 * 1024;  // an array of floats has no longer header

// The size of the header, from the file's first npy_prefix_size bytes. corrupt: not an array file.
result<uint64_t> npy_header_size(std::string_view start);

// `header`: the bytes from the start of the file. corrupt: malformed. not_supported: another
// element type or order.
result<npy_array> npy_parse(std::string_view header);

}  // namespace tanada::command
