#include "products/comex/packed_wire.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

namespace tanada::comex::packed {
namespace {

constexpr size_t heap_size = 4096;

std::vector<std::byte> bytes_of(const head &asks, std::span<const level> levels,
                                std::span<const uint64_t> offsets = {}) {
  std::vector<std::byte> made;
  auto const add = [&](const void *from, size_t size) {
    auto const *const at = static_cast<const std::byte *>(from);
    made.insert(made.end(), at, at + size);
  };
  add(&asks, sizeof asks);
  add(levels.data(), levels.size_bytes());
  add(offsets.data(), offsets.size_bytes());
  if (asks.what != action::get && asks.what != action::update && asks.size < 1 << 20)
    made.resize(made.size() + asks.size);
  return made;
}

// Ten blocks of 8 bytes, 16 apart, four times.
constexpr level levels[] = {{10, 16}, {4, 512}};
constexpr head good{
    .what = action::put, .level_count = 2, .offset = 64, .block_size = 8, .begin = 16, .size = 64};

status told(head asks, size_t reply_size = 0, std::span<const level> with = levels) {
  return parse(bytes_of(asks, with), reply_size, heap_size).error();
}

head changed(const std::function<void(head &)> &change, head from = good) {
  change(from);
  return from;
}

TEST(packed_wire, requests_come_out_as_they_went_in) {
  auto const bytes = bytes_of(good, levels);
  auto found = parse(bytes, 0, heap_size);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().shape.block_count(), 40u);
  EXPECT_EQ(found.value().shape.target_extent(), 3 * 512 + 9 * 16 + 8u);
  EXPECT_EQ(found.value().data.size(), 64u);
  EXPECT_EQ(found.value().data.data() + 64, bytes.data() + bytes.size());
  uint64_t const offsets[] = {8, 4080, 8};
  auto const list = bytes_of({.what = action::add,
                              .of = form::list,
                              .kind = uint8_t(element::c128),
                              .block_size = 16,
                              .size = 48,
                              .count = 3},
                             {}, offsets);
  auto pieces = parse(list, 0, heap_size);
  ASSERT_TRUE(pieces.ok());
  for (size_t i = 0; i < 3; i++)
    EXPECT_EQ(pieces.value().offset_at(i), offsets[i]);
}

TEST(packed_wire, a_head_is_that_of_its_shape) {
  int const counts[] = {8, 10, 4}, there[] = {16, 512}, here[] = {8, 80};
  auto const shape = strided_shape::of(counts, here, there, 2).value();
  std::vector<std::byte> bytes(head_size(shape) + 64);
  EXPECT_EQ(write_head(bytes.data(), good, shape, side::target), bytes.data() + head_size(shape));
  EXPECT_EQ(bytes, bytes_of(good, levels));
}

TEST(packed_wire, what_is_no_request_is_refused) {
  auto const bytes = bytes_of(good, levels);
  EXPECT_EQ(told(good), status::ok);
  for (size_t size = 0; size < bytes.size(); size++)
    EXPECT_EQ(parse({bytes.data(), size}, 0, heap_size).error(), status::protocol) << size;
  auto longer = bytes;
  longer.push_back({});
  EXPECT_EQ(parse(longer, 0, heap_size).error(), status::protocol);
  EXPECT_EQ(told(good, 64), status::protocol) << "an answer to a put";
  EXPECT_EQ(told(changed([](head &of) { of.what = action::get; }), 64), status::ok);
  EXPECT_EQ(told(changed([](head &of) { of.what = action::get; }), 63), status::protocol);
  std::function<void(head &)> const wrong[] = {
      [](head &of) { of.magic++; },
      [](head &of) { of.what = action{0}; },
      [](head &of) { of.what = action{5}; },
      [](head &of) { of.of = form{0}; },
      [](head &of) { of.of = form{3}; },
      [](head &of) { of.block_size = 0; },
      [](head &of) { of.size = 0; },
      [](head &of) { of.level_count = 9; },
      [](head &of) { of.level_count = 255; },
      [](head &of) { of.count = 1; },
      [](head &of) { of.begin = 320 - 63; },
      [](head &of) { of.begin = ~uint64_t{0} - 8; },
      [](head &of) { of.size = ~uint64_t{0}; },
      [](head &of) { of.block_size = ~uint64_t{0}; },
      [](head &of) {
        of.what = action::add;
        of.kind = 6;
      },
      [](head &of) {
        of.what = action::add;
        of.kind = uint8_t(element::c128);
      },
      [](head &of) {
        of.what = action::add;
        of.kind = uint8_t(element::f64);
        of.begin = 12;
      },
  };
  for (auto const &change : wrong)
    EXPECT_EQ(told(changed(change)), status::protocol) << &change - wrong;
}

TEST(packed_wire, blocks_lie_in_the_heap) {
  size_t const extent = 3 * 512 + 9 * 16 + 8;
  EXPECT_EQ(told(changed([](head &of) { of.offset = heap_size - extent; })), status::ok);
  EXPECT_EQ(told(changed([](head &of) { of.offset = heap_size - extent + 1; })), status::range);
  EXPECT_EQ(told(changed([](head &of) { of.offset = ~uint64_t{0}; })), status::range);
  level const none[] = {{0, 16}, {4, 512}},
              many[] = {{uint64_t{1} << 40, 0}, {uint64_t{1} << 40, 0}},
              far[] = {{2, ~uint64_t{0}}, {2, 16}}, wide[] = {{2, 16}, {2, heap_size}};
  EXPECT_EQ(told(good, 0, none), status::protocol);
  EXPECT_EQ(told(good, 0, many), status::protocol);
  EXPECT_EQ(told(changed([](head &of) {
                   of.begin = 0;
                   of.size = 8;
                 }),
                 0, far),
            status::protocol);
  EXPECT_EQ(told(changed([](head &of) {
                   of.begin = 0;
                   of.size = 8;
                 }),
                 0, wide),
            status::range);
  auto const list = [](uint64_t offset, uint64_t count = 1, uint64_t size = 8) {
    head const asks{
        .what = action::put, .of = form::list, .block_size = 8, .size = size, .count = count};
    return parse(bytes_of(asks, {}, {&offset, 1}), 0, heap_size).error();
  };
  EXPECT_EQ(list(heap_size - 8), status::ok);
  EXPECT_EQ(list(heap_size - 7), status::range);
  EXPECT_EQ(list(~uint64_t{0} - 7), status::range);
  EXPECT_EQ(list(0, 2, 16), status::protocol);
  EXPECT_EQ(list(0, (uint64_t{1} << 61) + 1, 8), status::protocol) << "a product that wraps";
  EXPECT_EQ(list(0, 0, 0), status::protocol);
}

TEST(packed_wire, words_are_whole_and_lie_at_multiples_of_their_size) {
  head const word{.what = action::update,
                  .kind = uint8_t(word_update::add),
                  .offset = 4088,
                  .block_size = 8,
                  .size = 8};
  auto const of = [&](const std::function<void(head &)> &change, size_t reply_size = 8,
                      std::span<const level> with = {}) {
    return told(changed(change, word), reply_size, with);
  };
  EXPECT_EQ(of([](head &) {}), status::ok);
  EXPECT_EQ(of(
                [](head &now) {
                  now.kind = uint8_t(word_update::swap);
                  now.block_size = 4;
                  now.size = 4;
                  now.offset = 12;
                },
                4),
            status::ok);
  EXPECT_EQ(of([](head &) {}, 0), status::protocol) << "nobody asks for an answer";
  EXPECT_EQ(of([](head &now) { now.kind = 3; }), status::protocol);
  EXPECT_EQ(of([](head &now) { now.kind = 0; }), status::protocol);
  EXPECT_EQ(of(
                [](head &now) {
                  now.block_size = 16;
                  now.size = 16;
                },
                16),
            status::protocol);
  EXPECT_EQ(of([](head &now) { now.size = 4; }, 4), status::protocol);
  EXPECT_EQ(of([](head &now) { now.offset = 4084; }), status::fault);
  EXPECT_EQ(of([](head &now) { now.offset = 4096; }), status::range);
  level const twice[] = {{1, 8}};
  EXPECT_EQ(of([](head &now) { now.level_count = 1; }, 8, twice), status::protocol);
}

// Requests with some bytes changed: those that pass stay in the heap and in their data.
TEST(packed_wire, damaged_requests_stay_in_the_heap) {
  std::mt19937 random{7};
  uint64_t const offsets[] = {0, 8, 4000};
  std::vector<std::byte> const sound[] = {
      bytes_of(good, levels),
      bytes_of(changed([](head &of) {
                 of.what = action::add;
                 of.kind = uint8_t(element::f32);
               }),
               levels),
      bytes_of({.what = action::put, .of = form::list, .block_size = 8, .size = 24, .count = 3}, {},
               offsets)};
  size_t passed = 0;
  for (int round = 0; round < 200'000; round++) {
    auto bytes = sound[size_t(round) % std::size(sound)];
    for (uint32_t i = random() % 3 + 1; i > 0; i--) {
      size_t const at = random() % (sizeof(head) + sizeof levels);
      bytes[std::min(at, bytes.size() - 1)] =
          std::byte(random() % 2 == 0 ? random() % 16 : random());
    }
    auto found = parse(bytes, 0, heap_size);
    if (!found.ok())
      continue;
    passed++;
    auto const &what = found.value();
    ASSERT_EQ(what.data.size(), what.asks.size);
    if (what.asks.of == form::list) {
      for (size_t i = 0; i < what.asks.count; i++)
        ASSERT_LE(what.offset_at(i), heap_size - what.asks.block_size);
      continue;
    }
    uint64_t size = 0;
    what.shape.for_each_run(what.asks.begin, what.asks.size, [&](const block_run &run) {
      size += run.size * run.count;
      ASSERT_LE(what.asks.offset + run.target + (run.count - 1) * run.target_stride + run.size,
                heap_size);
    });
    ASSERT_EQ(size, what.asks.size);
  }
  EXPECT_GT(passed, 1000u);
}

}  // namespace
}  // namespace tanada::comex::packed
