// cmd/tanada/npy.hpp: the header of a NumPy array file, as much of it as pictures need:
// numpy.lib.format, 1.0 to 3.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::command {

// An array of floats in C order, little endian.
struct npy_array {
  uint64_t data_offset = 0;        // bytes of the file in front of the first element
  uint32_t item_size = 0;          // 4 or 8
  std::vector<uint64_t> shape;     // 1 to 4 dimensions, none empty; the last one varies fastest
  uint64_t size() const noexcept;  // bytes of the file
};

inline constexpr uint64_t npy_prefix_size = 12;  // that many bytes tell how long the header is
inline constexpr uint64_t npy_header_size_max =
    64 * 1024;  // more is no header of an array of floats

// Bytes of the header by the file's first npy_prefix_size. corrupt: no array file.
result<uint64_t> npy_header_size(std::string_view start);

// `header`: the bytes from the start of the file. corrupt: malformed; unsupported: other elements
// or another order.
result<npy_array> npy_parse(std::string_view header);

}  // namespace tanada::command
