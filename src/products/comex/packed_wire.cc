// packed_wire.cc: encodes and checks packed requests.
#include "products/comex/packed_wire.hpp"

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"

namespace tanada::comex::packed {
namespace {

status parse_levels(request &parsed, std::span<const std::byte> &rest, size_t heap_size) {
  auto const &header = parsed.header;
  if (header.level_count > stride_level_max || header.count != 0)
    return status::protocol;
  size_t const size = header.level_count * sizeof(level);
  if (rest.size() < size)
    return status::protocol;
  std::array<level, stride_level_max> levels;
  std::memcpy(levels.data(), rest.data(), size);
  rest = rest.subspan(size);
  strided_shape::numbers counts{}, strides{};
  for (size_t i = 0; i < header.level_count; i++) {
    counts[i] = levels[i].count;
    strides[i] = levels[i].stride;
    if (counts[i] == 0)
      return status::protocol;
  }
  auto const shape =
      strided_shape::regular(header.block_size, {counts.data(), header.level_count}, strides);
  if (!shape || !range_fits<uint64_t>(header.begin, header.size, shape->size()))
    return status::protocol;
  parsed.shape = *shape;
  return range_fits<uint64_t>(header.offset, shape->target_extent(), heap_size) ? status::ok
                                                                                : status::range;
}

status parse_list(request &parsed, std::span<const std::byte> &rest, size_t heap_size) {
  auto const &header = parsed.header;
  uint64_t size = 0;
  if (header.level_count != 0 || header.offset != 0 || header.begin != 0)
    return status::protocol;
  if (!checked_multiply(header.count, header.block_size, size) || size != header.size)
    return status::protocol;
  if (header.count > rest.size() / sizeof(uint64_t))
    return status::protocol;
  parsed.offsets = rest.first(header.count * sizeof(uint64_t));
  rest = rest.subspan(parsed.offsets.size());
  for (size_t i = 0; i < header.count; i++) {
    if (!range_fits<uint64_t>(parsed.offset_at(i), header.block_size, heap_size))
      return status::range;
  }
  return status::ok;
}

status check_update(const head &header) {
  bool const is_word =
      header.block_size == sizeof(uint32_t) || header.block_size == sizeof(uint64_t);
  bool const is_known =
      header.kind == uint8_t(word_update::exchange) || header.kind == uint8_t(word_update::add);
  if (!is_word || !is_known || header.layout != block_layout::strided || header.level_count != 0 ||
      header.size != header.block_size)
    return status::protocol;
  return header.offset % header.block_size == 0 ? status::ok : status::fault;
}

status check_add(const head &header) {
  if (header.kind > uint8_t(element::c128))
    return status::protocol;
  size_t const size = element_size(element(header.kind));
  bool const is_whole =
      header.block_size % size == 0 && header.begin % size == 0 && header.size % size == 0;
  return is_whole ? status::ok : status::protocol;
}

// Checks what needs neither the levels nor the offsets.
status check_head(const head &header) {
  if (header.magic != magic_number || header.op < action::put || header.op > action::update)
    return status::protocol;
  if (header.layout != block_layout::strided && header.layout != block_layout::list)
    return status::protocol;
  return header.block_size == 0 || header.size == 0 ? status::protocol : status::ok;
}

}  // namespace

result<request> parse(std::span<const std::byte> bytes, size_t reply_size, size_t heap_size) {
  request parsed;
  auto &header = parsed.header;
  if (bytes.size() < sizeof header)
    return status::protocol;
  std::memcpy(&header, bytes.data(), sizeof header);
  TND_TRY(check_head(header));
  if (reply_size != (parsed.has_reply() ? header.size : 0))
    return status::protocol;
  if (header.op == action::update)
    TND_TRY(check_update(header));
  if (header.op == action::add)
    TND_TRY(check_add(header));
  auto rest = bytes.subspan(sizeof header);
  TND_TRY(header.layout == block_layout::strided ? parse_levels(parsed, rest, heap_size)
                                                 : parse_list(parsed, rest, heap_size));
  if (rest.size() != (parsed.has_reply() ? 0 : header.size))
    return status::protocol;
  parsed.data = rest;
  return parsed;
}

std::byte *write_head(std::byte *output,
                      head header,
                      const strided_shape &shape,
                      side heap) noexcept {
  TND_ASSERT(shape.levels() <= size_t{stride_level_max});
  header.level_count = uint8_t(shape.levels());
  header.block_size = shape.block_size();
  std::memcpy(output, &header, sizeof header);
  output += sizeof header;
  for (size_t i = 0; i < shape.levels(); i++) {
    level const encoded{
        shape.counts()[i],
        (heap == side::source ? shape.source_strides() : shape.target_strides())[i]};
    std::memcpy(output, &encoded, sizeof encoded);
    output += sizeof encoded;
  }
  return output;
}

}  // namespace tanada::comex::packed
