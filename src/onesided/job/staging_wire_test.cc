// Frames and records of stagers: which of them are accepted.
#include "onesided/job/staging_wire.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "seams/fabric/fabric.hpp"

namespace tanada::onesided::staging {
namespace {

constexpr limits test_limits{.heap_size = 1'000,
                             .staging_size = 512,
                             .slot_size = 256,
                             .data_size_max = 100,
                             .shared_size = 800,
                             .direct_size = 400};

std::vector<std::byte> frame_of(std::span<const record> records, uint32_t pe = 1) {
  std::vector<std::byte> frame(sizeof(frame_header));
  for (auto entry : records) {
    size_t const position = frame.size();
    frame.resize(position + record_size(entry.data_size));
    std::memcpy(frame.data() + position, &entry, sizeof entry);
  }
  frame_header const head{
      .pe = pe, .size = uint32_t(frame.size()), .count = uint32_t(records.size())};
  std::memcpy(frame.data(), &head, sizeof head);
  return frame;
}

TEST(staging_wire, records_come_out_as_they_went_in) {
  record const records[] = {{.kind = record_kind::put, .data_size = 13, .id = 7, .size = 13},
                            {.kind = record_kind::done, .id = 8}};
  auto const frame = frame_of(records);
  ASSERT_EQ(frame_check(frame, 2), status::ok);
  frame_reader reader{frame};
  record entry;
  std::span<const std::byte> data;
  ASSERT_TRUE(reader.next(entry, data));
  EXPECT_EQ(entry.id, 7u);
  EXPECT_EQ(data.size(), 13u);
  ASSERT_TRUE(reader.next(entry, data));
  EXPECT_EQ(entry.kind, record_kind::done);
  EXPECT_FALSE(reader.next(entry, data));
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
    auto bad_frame = frame;
    std::memcpy(
        bad_frame.data() + sizeof(frame_header) + offsetof(record, data_size), &size, sizeof size);
    EXPECT_EQ(frame_check(bad_frame, 2), size <= 16 ? status::ok : status::protocol) << size;
  }
}

TEST(staging_wire, what_is_read_from_the_senders_heap_stays_in_it) {
  auto const put = [](uint64_t first, uint64_t size, const limits &within) {
    return request_check(
        {.kind = record_kind::put_direct, .offset = 0, .size = size, .first = first}, within);
  };
  EXPECT_EQ(put(400, 400, test_limits), status::ok);
  EXPECT_EQ(put(401, 400, test_limits), status::range);
  EXPECT_EQ(put(0, 401, test_limits), status::range);
  EXPECT_EQ(put(~uint64_t{0} - 100, 200, test_limits), status::range);
  auto unshared = test_limits;
  unshared.shared_size = 0;
  EXPECT_EQ(put(0, 1, unshared), status::range);
}

TEST(staging_wire, requests_stay_in_the_heap) {
  auto const update = [](uint64_t offset, seams::fabric_element element) {
    return request_check(
        {.kind = record_kind::update, .element = uint8_t(element), .offset = offset}, test_limits);
  };
  EXPECT_EQ(update(992, seams::fabric_element::u64), status::ok);
  EXPECT_EQ(update(996, seams::fabric_element::u32), status::ok);
  EXPECT_EQ(update(1'000, seams::fabric_element::u64), status::range);
  EXPECT_EQ(update(~uint64_t{0} - 7, seams::fabric_element::u64), status::range);
  EXPECT_EQ(update(4, seams::fabric_element::u64), status::fault);
  EXPECT_EQ(update(0, seams::fabric_element::f64), status::invalid);
  auto const get = [](uint64_t offset, uint64_t size, record_kind kind = record_kind::get) {
    return request_check({.kind = kind, .offset = offset, .size = size}, test_limits);
  };
  EXPECT_EQ(get(800, 200), status::ok);
  EXPECT_EQ(get(801, 200), status::range);
  EXPECT_EQ(get(0, 201), status::range) << "more than two records carry";
  EXPECT_EQ(get(~uint64_t{0}, 2), status::range);
  EXPECT_EQ(get(0, 0), status::invalid);
  EXPECT_EQ(get(744, 256, record_kind::get_staged), status::ok);
  EXPECT_EQ(get(0, 257, record_kind::get_staged), status::range) << "more than a slot";
  auto const put = [](uint64_t first, uint64_t size) {
    return request_check({.kind = record_kind::put_staged, .size = size, .first = first},
                         test_limits);
  };
  EXPECT_EQ(put(256, 256), status::ok);
  EXPECT_EQ(put(257, 256), status::range) << "outside of its own area";
  EXPECT_EQ(request_check({.kind = record_kind::put, .data_size = 8, .size = 9}, test_limits),
            status::invalid);
  EXPECT_EQ(request_check({.kind = record_kind::reply}, test_limits), status::invalid);
}

TEST(staging_wire, calls_stay_in_areas_and_slots) {
  auto const check = [](record_kind kind,
                        uint64_t size,
                        uint32_t data_size,
                        uint64_t first = 0,
                        uint8_t flags = 0) {
    return request_check(
        {.kind = kind, .flags = flags, .data_size = data_size, .size = size, .first = first},
        test_limits);
  };
  EXPECT_EQ(check(record_kind::active_message, 100, 100, 0, flag_fenced), status::ok);
  EXPECT_EQ(check(record_kind::active_message, 100, 100, 0, flag_returns_value), status::invalid);
  EXPECT_EQ(check(record_kind::active_message, 101, 101), status::range);
  EXPECT_EQ(check(record_kind::active_message, 100, 99), status::invalid);
  EXPECT_EQ(check(record_kind::active_message, 0, 0), status::invalid);
  EXPECT_EQ(check(record_kind::active_message_staged, 256, 0, 256), status::ok);
  EXPECT_EQ(check(record_kind::active_message_staged, 256, 0, 257), status::range)
      << "outside of its own area";
  EXPECT_EQ(check(record_kind::active_message_staged, 8, 0, ~uint64_t{0} - 3), status::range);
  EXPECT_EQ(check(record_kind::active_message_staged, 257, 0), status::range) << "more than a slot";
  EXPECT_EQ(check(record_kind::active_message_staged, 256, 8), status::invalid);
  EXPECT_EQ(check(record_kind::fetch, 200, 100), status::ok);
  EXPECT_EQ(check(record_kind::fetch, 201, 100), status::range) << "more than two records carry";
  EXPECT_EQ(check(record_kind::fetch, 200, 101), status::range);
  EXPECT_EQ(check(record_kind::fetch, 200, 0), status::invalid) << "an empty request";
  EXPECT_EQ(check(record_kind::fetch, 0, 100), status::invalid);
  EXPECT_EQ(check(record_kind::fetch_staged, 256, 100), status::ok);
  EXPECT_EQ(check(record_kind::fetch_staged, 257, 100), status::range);
}

TEST(staging_wire, statuses_travel) {
  EXPECT_EQ(status_decode(status_encode(status::device_lost)), status::device_lost);
  EXPECT_EQ(status_decode(1), status::protocol);
  EXPECT_EQ(status_decode(~uint64_t{0}), status::protocol);
}

}  // namespace
}  // namespace tanada::onesided::staging
