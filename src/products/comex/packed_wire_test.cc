// Packed requests: encoding, and checks of invalid ones.
#include "products/comex/packed_wire.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

namespace tanada::comex::packed {
namespace {

constexpr size_t heap_size = 4096;

std::vector<std::byte> bytes_of(const head &header,
                                std::span<const level> levels,
                                std::span<const uint64_t> offsets = {}) {
  std::vector<std::byte> encoded;
  auto const add = [&](const void *source, size_t size) {
    auto const *const begin = static_cast<const std::byte *>(source);
    encoded.insert(encoded.end(), begin, begin + size);
  };
  add(&header, sizeof header);
  add(levels.data(), levels.size_bytes());
  add(offsets.data(), offsets.size_bytes());
  if (header.op != action::get && header.op != action::update && header.size < 1 << 20)
    encoded.resize(encoded.size() + header.size);
  return encoded;
}

// Ten blocks of 8 bytes, 16 apart, four times.
constexpr level levels[] = {{10, 16}, {4, 512}};
constexpr head good{
    .op = action::put, .level_count = 2, .offset = 64, .block_size = 8, .begin = 16, .size = 64};

status parse_status(head header,
                    size_t reply_size = 0,
                    std::span<const level> level_list = levels) {
  return parse(bytes_of(header, level_list), reply_size, heap_size).error();
}

head changed_header(const std::function<void(head &)> &change, head original = good) {
  change(original);
  return original;
}

TEST(packed_wire, requests_come_out_as_they_went_in) {
  auto const bytes = bytes_of(good, levels);
  auto parsed = parse(bytes, 0, heap_size);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().shape.block_count(), 40u);
  EXPECT_EQ(parsed.value().shape.target_extent(), 3 * 512 + 9 * 16 + 8u);
  EXPECT_EQ(parsed.value().data.size(), 64u);
  EXPECT_EQ(parsed.value().data.data() + 64, bytes.data() + bytes.size());
  uint64_t const offsets[] = {8, 4080, 8};
  auto const list = bytes_of({.op = action::add,
                              .layout = block_layout::list,
                              .kind = uint8_t(element::c128),
                              .block_size = 16,
                              .size = 48,
                              .count = 3},
                             {},
                             offsets);
  auto pieces = parse(list, 0, heap_size);
  ASSERT_TRUE(pieces.ok());
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(pieces.value().offset_at(i), offsets[i]);
  }
}

TEST(packed_wire, a_head_is_that_of_its_shape) {
  int const counts[] = {8, 10, 4}, remote_strides[] = {16, 512}, local_strides[] = {8, 80};
  auto const shape =
      strided_shape::from_arguments(counts, local_strides, remote_strides, 2).value();
  std::vector<std::byte> bytes(head_size(shape) + 64);
  EXPECT_EQ(write_head(bytes.data(), good, shape, side::target), bytes.data() + head_size(shape));
  EXPECT_EQ(bytes, bytes_of(good, levels));
}

TEST(packed_wire, what_is_no_request_is_refused) {
  auto const bytes = bytes_of(good, levels);
  EXPECT_EQ(parse_status(good), status::ok);
  for (size_t size = 0; size < bytes.size(); size++)
    EXPECT_EQ(parse({bytes.data(), size}, 0, heap_size).error(), status::protocol) << size;
  auto longer = bytes;
  longer.push_back({});
  EXPECT_EQ(parse(longer, 0, heap_size).error(), status::protocol);
  EXPECT_EQ(parse_status(good, 64), status::protocol) << "an answer to a put";
  EXPECT_EQ(parse_status(changed_header([](head &of) { of.op = action::get; }), 64), status::ok);
  EXPECT_EQ(parse_status(changed_header([](head &of) { of.op = action::get; }), 63),
            status::protocol);
  std::function<void(head &)> const wrong[] = {
      [](head &damaged) { damaged.magic++; },
      [](head &damaged) { damaged.op = action{0}; },
      [](head &damaged) { damaged.op = action{5}; },
      [](head &damaged) { damaged.layout = block_layout{0}; },
      [](head &damaged) { damaged.layout = block_layout{3}; },
      [](head &damaged) { damaged.block_size = 0; },
      [](head &damaged) { damaged.size = 0; },
      [](head &damaged) { damaged.level_count = 9; },
      [](head &damaged) { damaged.level_count = 255; },
      [](head &damaged) { damaged.count = 1; },
      [](head &damaged) { damaged.begin = 320 - 63; },
      [](head &damaged) { damaged.begin = ~uint64_t{0} - 8; },
      [](head &damaged) { damaged.size = ~uint64_t{0}; },
      [](head &damaged) { damaged.block_size = ~uint64_t{0}; },
      [](head &damaged) {
        damaged.op = action::add;
        damaged.kind = 6;
      },
      [](head &damaged) {
        damaged.op = action::add;
        damaged.kind = uint8_t(element::c128);
      },
      [](head &damaged) {
        damaged.op = action::add;
        damaged.kind = uint8_t(element::f64);
        damaged.begin = 12;
      },
  };
  for (auto const &change : wrong)
    EXPECT_EQ(parse_status(changed_header(change)), status::protocol) << &change - wrong;
}

TEST(packed_wire, blocks_lie_in_the_heap) {
  size_t const extent = 3 * 512 + 9 * 16 + 8;
  EXPECT_EQ(parse_status(changed_header([](head &of) { of.offset = heap_size - extent; })),
            status::ok);
  EXPECT_EQ(parse_status(changed_header([](head &of) { of.offset = heap_size - extent + 1; })),
            status::range);
  EXPECT_EQ(parse_status(changed_header([](head &of) { of.offset = ~uint64_t{0}; })),
            status::range);
  level const empty_levels[] = {{0, 16}, {4, 512}},
              many[] = {{uint64_t{1} << 40, 0}, {uint64_t{1} << 40, 0}},
              far[] = {{2, ~uint64_t{0}}, {2, 16}}, wide[] = {{2, 16}, {2, heap_size}};
  EXPECT_EQ(parse_status(good, 0, empty_levels), status::protocol);
  EXPECT_EQ(parse_status(good, 0, many), status::protocol);
  EXPECT_EQ(parse_status(changed_header([](head &of) {
                           of.begin = 0;
                           of.size = 8;
                         }),
                         0,
                         far),
            status::protocol);
  EXPECT_EQ(parse_status(changed_header([](head &of) {
                           of.begin = 0;
                           of.size = 8;
                         }),
                         0,
                         wide),
            status::range);
  auto const list = [](uint64_t offset, uint64_t count = 1, uint64_t size = 8) {
    head const header{.op = action::put,
                      .layout = block_layout::list,
                      .block_size = 8,
                      .size = size,
                      .count = count};
    return parse(bytes_of(header, {}, {&offset, 1}), 0, heap_size).error();
  };
  EXPECT_EQ(list(heap_size - 8), status::ok);
  EXPECT_EQ(list(heap_size - 7), status::range);
  EXPECT_EQ(list(~uint64_t{0} - 7), status::range);
  EXPECT_EQ(list(0, 2, 16), status::protocol);
  EXPECT_EQ(list(0, (uint64_t{1} << 61) + 1, 8), status::protocol) << "a product that wraps";
  EXPECT_EQ(list(0, 0, 0), status::protocol);
}

TEST(packed_wire, words_are_whole_and_lie_at_multiples_of_their_size) {
  head const word{.op = action::update,
                  .kind = uint8_t(word_update::add),
                  .offset = 4088,
                  .block_size = 8,
                  .size = 8};
  auto const status_of = [&](const std::function<void(head &)> &change,
                             size_t reply_size = 8,
                             std::span<const level> level_list = {}) {
    return parse_status(changed_header(change, word), reply_size, level_list);
  };
  EXPECT_EQ(status_of([](head &) {}), status::ok);
  EXPECT_EQ(status_of(
                [](head &now) {
                  now.kind = uint8_t(word_update::exchange);
                  now.block_size = 4;
                  now.size = 4;
                  now.offset = 12;
                },
                4),
            status::ok);
  EXPECT_EQ(status_of([](head &) {}, 0), status::protocol) << "nobody asks for an answer";
  EXPECT_EQ(status_of([](head &now) { now.kind = 3; }), status::protocol);
  EXPECT_EQ(status_of([](head &now) { now.kind = 0; }), status::protocol);
  EXPECT_EQ(status_of(
                [](head &now) {
                  now.block_size = 16;
                  now.size = 16;
                },
                16),
            status::protocol);
  EXPECT_EQ(status_of([](head &now) { now.size = 4; }, 4), status::protocol);
  EXPECT_EQ(status_of([](head &now) { now.offset = 4084; }), status::fault);
  EXPECT_EQ(status_of([](head &now) { now.offset = 4096; }), status::range);
  level const twice[] = {{1, 8}};
  EXPECT_EQ(status_of([](head &now) { now.level_count = 1; }, 8, twice), status::protocol);
}

// Requests with changed bytes: those that are accepted stay within the heap and their data.
TEST(packed_wire, damaged_requests_stay_in_the_heap) {
  std::mt19937 random{7};
  uint64_t const offsets[] = {0, 8, 4000};
  std::vector<std::byte> const sound[] = {bytes_of(good, levels),
                                          bytes_of(changed_header([](head &damaged) {
                                                     damaged.op = action::add;
                                                     damaged.kind = uint8_t(element::f32);
                                                   }),
                                                   levels),
                                          bytes_of({.op = action::put,
                                                    .layout = block_layout::list,
                                                    .block_size = 8,
                                                    .size = 24,
                                                    .count = 3},
                                                   {},
                                                   offsets)};
  size_t passed = 0;
  for (int round = 0; round < 200'000; round++) {
    auto bytes = sound[size_t(round) % std::size(sound)];
    for (uint32_t i = random() % 3 + 1; i > 0; i--) {
      size_t const position = random() % (sizeof(head) + sizeof levels);
      bytes[std::min(position, bytes.size() - 1)] =
          std::byte(random() % 2 == 0 ? random() % 16 : random());
    }
    auto parsed = parse(bytes, 0, heap_size);
    if (!parsed.ok())
      continue;
    passed++;
    auto const &request_seen = parsed.value();
    ASSERT_EQ(request_seen.data.size(), request_seen.header.size);
    if (request_seen.header.layout == block_layout::list) {
      for (size_t i = 0; i < request_seen.header.count; i++) {
        ASSERT_LE(request_seen.offset_at(i), heap_size - request_seen.header.block_size);
      }
      continue;
    }
    uint64_t size = 0;
    request_seen.shape.for_each_run(
        request_seen.header.begin, request_seen.header.size, [&](const block_run &run) {
          size += run.size * run.count;
          ASSERT_LE(request_seen.header.offset + run.target + (run.count - 1) * run.target_stride +
                        run.size,
                    heap_size);
        });
    ASSERT_EQ(size, request_seen.header.size);
  }
  EXPECT_GT(passed, 1000u);
}

}  // namespace
}  // namespace tanada::comex::packed
