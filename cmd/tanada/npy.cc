// cmd/tanada/npy.cc: parses the headers of NumPy array files.
#include "npy.hpp"

#include <charconv>

#include "core/base/checked.hpp"

namespace tanada::command {
namespace {

constexpr std::size_t dimension_count_max = 4;
static_assert(npy_prefix_size >= 12);  // as npy_header_size() reads
static_assert(npy_prefix_size < npy_header_size_max);
constexpr uint64_t extent_max = 1 << 24;  // elements in one dimension

// The text after `key` and its colon in a Python dictionary, without leading blanks. Empty if the
// key is missing.
std::string_view value_of(std::string_view text, std::string_view key) {
  std::size_t const position = text.find(key);
  if (position == std::string_view::npos)
    return {};
  text.remove_prefix(position + key.size());
  std::size_t const begin = text.find_first_not_of(" :");
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// Parses "(3, 4, 5)" and ignores the rest. Returns an empty vector for anything else.
std::vector<uint64_t> parse_shape(std::string_view text) {
  std::vector<uint64_t> shape;
  std::size_t const last = text.find(')');
  if (!starts_with(text, "(") || last == std::string_view::npos)
    return {};
  text = text.substr(1, last - 1);
  while (!text.empty()) {
    uint64_t extent = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc{} || extent == 0 || extent > extent_max ||
        shape.size() == dimension_count_max)
      return {};
    shape.push_back(extent);
    text.remove_prefix(std::size_t(end - text.data()));
    std::size_t const next = text.find_first_not_of(", ");
    if (next == 0)
      return {};
    text.remove_prefix(next == std::string_view::npos ? text.size() : next);
  }
  return shape;
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; i--)
    value = value << 8 | uint8_t(bytes[i - 1]);
  return value;
}

}  // namespace

uint64_t npy_array::size() const noexcept {
  uint64_t cells = item_size;
  for (uint64_t const extent : shape)
    cells *= extent;
  return data_offset + cells;
}

result<uint64_t> npy_header_size(std::string_view start) {
  if (start.size() < npy_prefix_size || start.substr(0, 6) != "\x93NUMPY")
    return status::corrupt;
  uint8_t const version = uint8_t(start[6]);
  if (version < 1 || version > 3)
    return status::corrupt;
  uint64_t const size = version == 1 ? 10 + little_endian(start.substr(8, 2))
                                     : 12 + little_endian(start.substr(8, 4));
  if (size < npy_prefix_size || size > npy_header_size_max)
    return status::corrupt;
  return size;
}

result<npy_array> npy_parse(std::string_view header) {
  auto size = npy_header_size(header);
  if (!size.ok())
    return size.error();
  npy_array array;
  array.data_offset = size.value();
  if (header.size() < array.data_offset)
    return status::corrupt;
  std::string_view const text = header.substr(10, std::size_t(array.data_offset) - 10);
  std::string_view const element_type = value_of(text, "'descr'"),
                         order = value_of(text, "'fortran_order'");
  array.shape = parse_shape(value_of(text, "'shape'"));
  if (element_type.empty() || order.empty())
    return status::corrupt;
  if (starts_with(element_type, "'<f4'"))
    array.item_size = 4;
  if (starts_with(element_type, "'<f8'"))
    array.item_size = 8;
  if (array.item_size == 0 || !starts_with(order, "False"))
    return status::not_supported;
  if (array.shape.empty())
    return status::corrupt;
  uint64_t total_size = array.item_size;
  for (uint64_t const extent : array.shape)
    if (!checked_multiply(total_size, extent, total_size))
      return status::corrupt;
  if (!checked_add(total_size, array.data_offset, total_size))
    return status::corrupt;
  return array;
}

}  // namespace tanada::command
