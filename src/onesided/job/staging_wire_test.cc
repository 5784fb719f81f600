#include "onesided/job/staging_wire.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "seams/fabric/fabric.hpp"

namespace tanada::pgas::staging {
namespace {

constexpr limits of{.heap_size = 1'000,
                    .area_size = 512,
                    .slot_size = 256,
                    .data_size_max = 100,
                    .shared_size = 800,
                    .direct_size = 400};

std::vector<std::byte> frame_of(std::span<const record> records, uint32_t pe = 1) {
  std::vector<std::byte> made(sizeof(frame_head));
  for (auto each : records) {
    size_t const at = made.size();
    made.resize(at + room_for(each.data_size));
    std::memcpy(made.data() + at, &each, sizeof each);
  }
  frame_head const head{.pe = pe, .size = uint32_t(made.size()), .count = uint32_t(records.size())};
  std::memcpy(made.data(), &head, sizeof head);
  return made;
}

TEST(staging_wire, records_come_out_as_they_went_in) {
  record const records[] = {{.kind = record_kind::put, .data_size = 13, .id = 7, .size = 13},
                            {.kind = record_kind::done, .id = 8}};
  auto const frame = frame_of(records);
  ASSERT_EQ(frame_check(frame, 2), status::ok);
  frame_reader reader{frame};
  record each;
  std::span<const std::byte> data;
  ASSERT_TRUE(reader.next(each, data));
  EXPECT_EQ(each.id, 7u);
  EXPECT_EQ(data.size(), 13u);
  ASSERT_TRUE(reader.next(each, data));
  EXPECT_EQ(each.kind, record_kind::done);
  EXPECT_FALSE(reader.next(each, data));
}

TEST(staging_wire, what_is_no_frame_is_refused) {
  record const good{.kind = record_kind::put, .data_size = 13, .size = 13};
  auto const frame = frame_of({&good, 1});
  for (size_t size = 0; size < frame.size(); size++)
    EXPECT_EQ(frame_check({frame.data(), size}, 2), status::protocol) << size;
  EXPECT_EQ(frame_check(frame, 1), status::protocol) << "there is no such PE";
  record bad = good;
  bad.kind = record_kind{14};
  EXPECT_EQ(frame_check(frame_of({&bad, 1}), 2), status::protocol);
  // Lengths that would wrap around.
  for (uint32_t const size : {14u, 17u, 0xFFFFFFF0u, 0xFFFFFFFFu}) {
    auto lies = frame;
    std::memcpy(lies.data() + sizeof(frame_head) + offsetof(record, data_size), &size, sizeof size);
    EXPECT_EQ(frame_check(lies, 2), size <= 16 ? status::ok : status::protocol) << size;
  }
}

TEST(staging_wire, what_is_read_from_the_senders_heap_stays_in_it) {
  auto const put = [](uint64_t first, uint64_t size, const limits &within) {
    return request_check(
        {.kind = record_kind::put_direct, .offset = 0, .size = size, .first = first}, within);
  };
  EXPECT_EQ(put(400, 400, of), status::ok);
  EXPECT_EQ(put(401, 400, of), status::range);
  EXPECT_EQ(put(0, 401, of), status::range);
  EXPECT_EQ(put(~uint64_t{0} - 100, 200, of), status::range);
  auto none = of;
  none.shared_size = 0;
  EXPECT_EQ(put(0, 1, none), status::range);
}

TEST(staging_wire, requests_stay_in_the_heap) {
  auto const update = [](uint64_t offset, port::fabric_element element) {
    return request_check(
        {.kind = record_kind::update, .element = uint8_t(element), .offset = offset}, of);
  };
  EXPECT_EQ(update(992, port::fabric_element::u64), status::ok);
  EXPECT_EQ(update(996, port::fabric_element::u32), status::ok);
  EXPECT_EQ(update(1'000, port::fabric_element::u64), status::range);
  EXPECT_EQ(update(~uint64_t{0} - 7, port::fabric_element::u64), status::range);
  EXPECT_EQ(update(4, port::fabric_element::u64), status::fault);
  EXPECT_EQ(update(0, port::fabric_element::f64), status::invalid);
  auto const get = [](uint64_t offset, uint64_t size, record_kind kind = record_kind::get) {
    return request_check({.kind = kind, .offset = offset, .size = size}, of);
  };
  EXPECT_EQ(get(800, 200), status::ok);
  EXPECT_EQ(get(801, 200), status::range);
  EXPECT_EQ(get(0, 201), status::range) << "more than two records bring";
  EXPECT_EQ(get(~uint64_t{0}, 2), status::range);
  EXPECT_EQ(get(0, 0), status::invalid);
  EXPECT_EQ(get(744, 256, record_kind::get_staged), status::ok);
  EXPECT_EQ(get(0, 257, record_kind::get_staged), status::range) << "more than a slot";
  auto const put = [](uint64_t first, uint64_t size) {
    return request_check({.kind = record_kind::put_staged, .size = size, .first = first}, of);
  };
  EXPECT_EQ(put(256, 256), status::ok);
  EXPECT_EQ(put(257, 256), status::range) << "outside of its own area";
  EXPECT_EQ(request_check({.kind = record_kind::put, .data_size = 8, .size = 9}, of),
            status::invalid);
  EXPECT_EQ(request_check({.kind = record_kind::reply}, of), status::invalid);
}

TEST(staging_wire, calls_stay_in_areas_and_slots) {
  auto const told = [](record_kind kind, uint64_t size, uint32_t data_size, uint64_t first = 0,
                       uint8_t flags = 0) {
    return request_check(
        {.kind = kind, .flags = flags, .data_size = data_size, .size = size, .first = first}, of);
  };
  EXPECT_EQ(told(record_kind::call, 100, 100, 0, flag_fenced), status::ok);
  EXPECT_EQ(told(record_kind::call, 100, 100, 0, flag_wants_value), status::invalid);
  EXPECT_EQ(told(record_kind::call, 101, 101), status::range);
  EXPECT_EQ(told(record_kind::call, 100, 99), status::invalid);
  EXPECT_EQ(told(record_kind::call, 0, 0), status::invalid);
  EXPECT_EQ(told(record_kind::call_staged, 256, 0, 256), status::ok);
  EXPECT_EQ(told(record_kind::call_staged, 256, 0, 257), status::range)
      << "outside of its own area";
  EXPECT_EQ(told(record_kind::call_staged, 8, 0, ~uint64_t{0} - 3), status::range);
  EXPECT_EQ(told(record_kind::call_staged, 257, 0), status::range) << "more than a slot";
  EXPECT_EQ(told(record_kind::call_staged, 256, 8), status::invalid);
  EXPECT_EQ(told(record_kind::fetch, 200, 100), status::ok);
  EXPECT_EQ(told(record_kind::fetch, 201, 100), status::range) << "more than two records bring";
  EXPECT_EQ(told(record_kind::fetch, 200, 101), status::range);
  EXPECT_EQ(told(record_kind::fetch, 200, 0), status::invalid) << "it asks for nothing";
  EXPECT_EQ(told(record_kind::fetch, 0, 100), status::invalid);
  EXPECT_EQ(told(record_kind::fetch_staged, 256, 100), status::ok);
  EXPECT_EQ(told(record_kind::fetch_staged, 257, 100), status::range);
}

TEST(staging_wire, statuses_travel) {
  EXPECT_EQ(status_decode(status_encode(status::device_lost)), status::device_lost);
  EXPECT_EQ(status_decode(1), status::protocol);
  EXPECT_EQ(status_decode(~uint64_t{0}), status::protocol);
}

}  // namespace
}  // namespace tanada::pgas::staging
