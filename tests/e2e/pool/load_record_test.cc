// The record of a cluster's clients finds what is wrong.
#include "load_record.hpp"

#include <gtest/gtest.h>

namespace tanada::test {
namespace {

struct load_record_test : testing::Test {
  void finish(const load_call &call, const load_outcome &outcome) {
    record.end(0, record.begin(0, call), call, outcome);
  }
  static load_call put(value_id value) {
    return {operation_kind::put, {name}, {value}, false};
  }
  static load_call get() {
    return {operation_kind::get, {name}, {}, false};
  }
  static load_outcome value(value_id id) {
    return {TND_OK, {{name, observation::value(id)}}, 0};
  }

  static inline const std::string name = "load0/plain0";
  load_record record{1, 1};
};

TEST_F(load_record_test, accepts_what_is_right) {
  value_id const first = record.next_value(false);
  finish(put(first), {TND_OK, {}, 7});
  finish(get(), {TND_OK, {{name, observation::present()}}, 7});
  finish(get(), value(first));
  finish({operation_kind::remove, {name}, {}, false}, {TND_OK});
  finish(get(), {-ENOENT});
  EXPECT_EQ(record.check_history({}), "");
  EXPECT_TRUE(record.take_problems().empty());
}

TEST_F(load_record_test, counts_acknowledged_objects) {
  finish(put(record.next_value(false)), {TND_OK});
  finish(put(record.next_value(false)), {-TND_EPEER});
  finish(get(), {TND_OK, {{name, observation::present()}}, 7});
  EXPECT_EQ(record.take_acknowledged_count(), 1u);
  EXPECT_EQ(record.take_acknowledged_count(), 0u);
}

TEST_F(load_record_test, finds_an_acknowledged_object_that_is_lost) {
  finish(put(record.next_value(false)), {TND_OK});
  finish(get(), {-ENOENT});
  EXPECT_NE(record.check_history({}), "");
}

TEST_F(load_record_test, finds_an_object_that_is_old_after_a_check) {
  value_id const first = record.next_value(false), second = record.next_value(false);
  finish(put(first), {TND_OK});
  finish(put(second), {TND_OK});
  EXPECT_EQ(record.check_history({{name, observation::value(second)}}), "");
  finish(get(), value(first));
  EXPECT_NE(record.check_history({}), "");
}

TEST_F(load_record_test, accepts_any_end_of_a_call_without_an_answer) {
  value_id const first = record.next_value(false), second = record.next_value(false);
  finish(put(first), {-TND_EPEER});
  finish(get(), {-ENOENT});
  finish(put(second), {-ETIMEDOUT});
  finish(get(), value(second));
  EXPECT_EQ(record.check_history({}), "");
  EXPECT_TRUE(record.take_problems().empty());
}

TEST_F(load_record_test, finds_a_version_that_is_assigned_or_read_after_a_higher_one) {
  finish(put(record.next_value(false)), {TND_OK, {}, 7});
  finish(put(record.next_value(false)), {TND_OK, {}, 7});
  EXPECT_EQ(record.take_problems().size(), 1u);
  finish(get(), {TND_OK, {{name, observation::present()}}, 6});
  EXPECT_EQ(record.take_problems().size(), 1u);
}

TEST_F(load_record_test, finds_bytes_that_nobody_put) {
  value_id const value = record.next_value(true);
  std::vector<char> bytes = load_contents(value);
  EXPECT_EQ(record.value_of(name, bytes.data(), bytes.size()), value);
  bytes.back() ^= 1;
  EXPECT_EQ(record.value_of(name, bytes.data(), bytes.size()), load_record::value_unknown);
  EXPECT_EQ(record.value_of(name, bytes.data(), 3), load_record::value_unknown);
  EXPECT_EQ(record.take_problems().size(), 2u);
}

TEST_F(load_record_test, finds_a_status_that_is_not_documented) {
  finish(put(record.next_value(false)), {-ENOENT});
  finish(put(record.next_value(false)), {-ENOSPC});
  finish(get(), {-EIO});
  EXPECT_EQ(record.take_problems().size(), 3u);
  record.allow({-ENOSPC});
  finish(put(record.next_value(false)), {-ENOSPC});
  EXPECT_TRUE(record.take_problems().empty());
  finish(get(), {-ENOSPC});
  EXPECT_EQ(record.take_problems().size(), 1u);
}

TEST_F(load_record_test, has_the_longest_time_without_an_answer) {
  finish(put(record.next_value(false)), {TND_OK});
  finish(put(record.next_value(false)), {-TND_EPEER});
  load_summary const summary = record.summary();
  EXPECT_EQ(summary.change_count, 1u);
  EXPECT_EQ(summary.failure_counts.at("put: TND_EPEER"), 1u);
  EXPECT_GT(summary.read_gap_ns, summary.change_gap_ns);
  record.mark();
  EXPECT_EQ(record.summary().change_count, 0u);
}

}  // namespace
}  // namespace tanada::test
