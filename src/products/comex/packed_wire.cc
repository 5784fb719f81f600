#include "products/comex/packed_wire.hpp"

#include "core/base/checked.hpp"

namespace tanada::comex::packed {
namespace {

status parse_levels(request &made, std::span<const std::byte> &rest, size_t heap_size) {
  auto const &asks = made.asks;
  if (asks.level_count > stride_level_max || asks.count != 0)
    return status::protocol;
  size_t const size = asks.level_count * sizeof(level);
  if (rest.size() < size)
    return status::protocol;
  std::array<level, stride_level_max> levels;
  std::memcpy(levels.data(), rest.data(), size);
  rest = rest.subspan(size);
  strided_shape::numbers counts{}, strides{};
  for (size_t i = 0; i < asks.level_count; i++) {
    counts[i] = levels[i].count;
    strides[i] = levels[i].stride;
    if (counts[i] == 0)
      return status::protocol;
  }
  auto const shape =
      strided_shape::regular(asks.block_size, {counts.data(), asks.level_count}, strides);
  if (!shape || !range_fits<uint64_t>(asks.begin, asks.size, shape->size()))
    return status::protocol;
  made.shape = *shape;
  return range_fits<uint64_t>(asks.offset, shape->target_extent(), heap_size) ? status::ok
                                                                              : status::range;
}

status parse_list(request &made, std::span<const std::byte> &rest, size_t heap_size) {
  auto const &asks = made.asks;
  uint64_t size = 0;
  if (asks.level_count != 0 || asks.offset != 0 || asks.begin != 0)
    return status::protocol;
  if (!checked_multiply(asks.count, asks.block_size, size) || size != asks.size)
    return status::protocol;
  if (asks.count > rest.size() / sizeof(uint64_t))
    return status::protocol;
  made.offsets = rest.first(asks.count * sizeof(uint64_t));
  rest = rest.subspan(made.offsets.size());
  for (size_t i = 0; i < asks.count; i++) {
    if (!range_fits<uint64_t>(made.offset_at(i), asks.block_size, heap_size))
      return status::range;
  }
  return status::ok;
}

}  // namespace

result<request> parse(std::span<const std::byte> bytes, size_t reply_size, size_t heap_size) {
  request made;
  auto &asks = made.asks;
  if (bytes.size() < sizeof asks)
    return status::protocol;
  std::memcpy(&asks, bytes.data(), sizeof asks);
  if (asks.magic != magic_number || asks.what < action::put || asks.what > action::update)
    return status::protocol;
  if (asks.of != form::strided && asks.of != form::list)
    return status::protocol;
  if (asks.block_size == 0 || asks.size == 0)
    return status::protocol;
  if (reply_size != (made.has_answer() ? asks.size : 0))
    return status::protocol;
  if (asks.what == action::update) {
    bool const is_word = asks.block_size == sizeof(uint32_t) || asks.block_size == sizeof(uint64_t);
    bool const is_known =
        asks.kind == uint8_t(word_update::swap) || asks.kind == uint8_t(word_update::add);
    if (!is_word || !is_known || asks.of != form::strided || asks.level_count != 0 ||
        asks.size != asks.block_size)
      return status::protocol;
    if (asks.offset % asks.block_size != 0)
      return status::fault;
  }
  if (asks.what == action::add) {
    if (asks.kind > uint8_t(element::c128))
      return status::protocol;
    size_t const size = element_size(element(asks.kind));
    if (asks.block_size % size != 0 || asks.begin % size != 0 || asks.size % size != 0)
      return status::protocol;
  }
  auto rest = bytes.subspan(sizeof asks);
  TND_TRY(asks.of == form::strided ? parse_levels(made, rest, heap_size)
                                   : parse_list(made, rest, heap_size));
  if (rest.size() != (made.has_answer() ? 0 : asks.size))
    return status::protocol;
  made.data = rest;
  return made;
}

std::byte *write_head(std::byte *into, head asks, const strided_shape &shape, side heap) noexcept {
  asks.level_count = uint8_t(shape.levels());
  asks.block_size = shape.block_size();
  std::memcpy(into, &asks, sizeof asks);
  into += sizeof asks;
  for (size_t i = 0; i < shape.levels(); i++) {
    level const each{shape.counts()[i],
                     (heap == side::source ? shape.source_strides() : shape.target_strides())[i]};
    std::memcpy(into, &each, sizeof each);
    into += sizeof each;
  }
  return into;
}

}  // namespace tanada::comex::packed
