// Goal: objects leave memory only when the log has them and nobody uses them, before others are
// lost; their bytes are read from the log, also after removals, compaction, restarts and failures.
// Method: a catalog and its journal over a simulated store, with a pool of 4 MiB.
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/log.hpp"
#include "products/poold/cold_read.hpp"
#include "products/poold/testing/journal_fixture.hpp"
#include "products/poold/testing/manifest.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t one_object = mib, small_stripe = 4096;

class cold_objects : public journal_fixture {
 protected:
  cold_objects() {
    settings_.file_size = 2 * mib;
  }
  void SetUp() override {
    start();
  }
  void start() {
    durable_options keeping;
    keeping.is_tiered = true;
    keeping.size_max = settings_.size_max;
    catalog_options limits;
    limits.clock = &clock_;
    limits.has_all_stripes = true;
    open_log(keeping, limits);
    ASSERT_EQ(journal_->restore(*objects_), status::ok);
    space_ = objects_->open_namespace("s", true).value();
  }
  static char letter_of(const std::string &name) {
    return name.back();
  }
  status put(const std::string &name,
             uint32_t flags = 0,
             allocation mode = allocation::immediate,
             uint64_t size = one_object) {
    auto created = objects_->create_object(space_, size, flags, mode);
    if (!created.ok())
      return created.error();
    std::vector<iovec> parts;
    created.value()->append_parts(0, size, parts);
    for (const iovec &part : parts)
      std::memset(part.iov_base, letter_of(name), part.iov_len);
    return commit(created.value(), name);
  }
  status commit(const object_ref &target, const std::string &name) {
    return objects_->commit(target, name, 0, [](const info &) { return journal_callback{}; })
        .error();
  }
  void put_stripe(const wire::pool::striped_id &id, size_t index) {
    uint64_t const space =
        objects_->open_namespace(wire::pool::stripe_space_name("s", 0), true).value();
    auto const stripe = objects_->create_object(space, small_stripe, 0).value();
    ASSERT_EQ(commit(stripe, wire::pool::stripe_name(id, index)), status::ok);
    objects_->close_namespace(space, true, 1);
  }
  // An object of two stripes, which are there.
  void put_head(const std::string &name, const wire::pool::striped_id &id) {
    wire::pool::stripe_manifest manifest;
    manifest.id = id;
    manifest.size = 2 * small_stripe;
    manifest.stripe_size = small_stripe;
    manifest.partitions = {0, 0};
    object_ref const head = objects_->create_striped(space_, manifest.size, 0, id).value();
    write_manifest(*head, manifest);
    ASSERT_EQ(objects_->complete_striped(*head), status::ok);
    ASSERT_EQ(commit(head, name), status::ok);
  }
  bool is_cold(const std::string &name) {
    return objects_->open(space_, name, 0, false).value()->is_cold();
  }
  // The status of a read of all bytes, which are those of put().
  status read(const catalog::opened_object &source, const std::string &name) {
    if (source.reader == nullptr)
      return status::bad_state;
    std::vector<std::byte> bytes(source.object->metadata.size);
    auto const load = std::make_shared<cold_load>(
        source.reader, cold_load::target{{{bytes.data(), bytes.size()}}, nullptr}, [] {});
    load->start();
    run([&] { return load->is_done(); });
    bool const is_same = std::all_of(bytes.begin(), bytes.end(), [&](std::byte value) {
      return value == std::byte(letter_of(name));
    });
    return load->outcome() == status::ok && !is_same ? status::corrupt : load->outcome();
  }
  status read(const std::string &name) {
    return read(objects_->open_bytes(space_, name, 0).value(), name);
  }
  void run(const std::function<bool()> &is_done) {
    for (int i = 0; i < 100'000 && !is_done(); i++) {
      (void)journal_->progress();
      world_.advance(10'000);
    }
    ASSERT_TRUE(is_done());
  }
};

TEST_F(cold_objects, the_least_recently_used_ones_leave_memory_for_new_ones) {
  for (const char *name : {"a", "b", "c", "d"})
    ASSERT_EQ(put(name), status::ok);
  drain();
  ASSERT_TRUE(objects_->open(space_, "a", 0).ok());
  ASSERT_EQ(put("e"), status::ok);
  EXPECT_FALSE(is_cold("a"));
  EXPECT_TRUE(is_cold("b"));
  EXPECT_EQ(objects_->statistics_for(space_).used, 5 * one_object);
  EXPECT_EQ(objects_->stored_size(), 5 * one_object);
  EXPECT_EQ(objects_->statistics().cold_count, 1u);
  EXPECT_EQ(objects_->statistics().cold_size, one_object);
  EXPECT_LE(memory_->used(), memory_->capacity());
  EXPECT_EQ(read("b"), status::ok);
}

TEST_F(cold_objects, a_striped_one_is_logged_after_its_stripes) {
  put_stripe({1, 1}, 0);
  put_stripe({1, 1}, 1);
  put_head("a", {1, 1});
  drain();
  start();
  EXPECT_EQ(objects_->set_aside_incomplete(), 0u);
  EXPECT_EQ(objects_->open(space_, "a", 0).value()->client_metadata().size, 2 * small_stripe);
}

TEST_F(cold_objects, a_striped_one_is_not_logged_if_a_stripe_was_not) {
  ASSERT_EQ(put("a"), status::ok);
  put_stripe({1, 1}, 0);
  drain();
  fail_writes(true);
  put_stripe({1, 1}, 1);
  drain();
  fail_writes(false);
  put_head("a", {1, 1});
  drain();
  EXPECT_FALSE(journal_->condition().is_whole);
  start();
  EXPECT_EQ(objects_->set_aside_incomplete(), 0u);
  EXPECT_EQ(read("a"), status::ok);  // the version before
}

TEST_F(cold_objects, an_object_stays_while_it_is_written_used_or_pinned) {
  for (const char *name : {"a", "b", "c"})
    ASSERT_EQ(put(name), status::ok);
  ASSERT_EQ(put("d", flag_pinned), status::ok);
  EXPECT_EQ(put("e", 0, allocation::may_wait), status::again);
  drain();
  std::vector<object_ref> used;
  for (const char *name : {"a", "b", "c"})
    used.push_back(objects_->open(space_, name, 0).value());
  EXPECT_EQ(put("e", 0, allocation::may_wait), status::busy);
  EXPECT_EQ(put("e"), status::no_space);
  used.pop_back();
  EXPECT_EQ(put("e", 0, allocation::may_wait), status::ok);
  EXPECT_TRUE(is_cold("c"));
  EXPECT_FALSE(is_cold("d"));
}

TEST_F(cold_objects, evictable_ones_leave_memory_before_any_is_lost) {
  for (const char *name : {"a", "b", "c", "d"})
    ASSERT_EQ(put(name, flag_evictable), status::ok);
  drain();
  for (const char *name : {"e", "f", "g", "h"}) {
    ASSERT_EQ(put(name), status::ok);
    drain();
  }
  EXPECT_EQ(objects_->statistics().evictions, 0u);
  for (const char *name : {"a", "b", "c", "d"})
    EXPECT_EQ(read(name), status::ok);
}

TEST_F(cold_objects, a_full_log_evicts_what_may_be_evicted_and_then_refuses) {
  settings_.size_max = 10 * mib;
  start();
  ASSERT_EQ(put("a", flag_evictable), status::ok);
  for (int i = 0; i < 6; i++) {
    drain();
    ASSERT_EQ(put("k" + std::to_string(i)), status::ok);
  }
  drain();
  ASSERT_EQ(put("b"), status::ok);
  EXPECT_FALSE(objects_->open(space_, "a", 0).ok());
  drain();
  EXPECT_EQ(put("c"), status::no_space);
  EXPECT_NE(std::string{last_message()}.find("--log-size"), std::string::npos) << last_message();
}

TEST_F(cold_objects, an_object_beyond_memory_is_refused_with_the_limit) {
  EXPECT_EQ(put("a", 0, allocation::may_wait, 5 * mib), status::no_space);
  EXPECT_NE(std::string{last_message()}.find("memory of 4194304 bytes"), std::string::npos)
      << last_message();
}

TEST_F(cold_objects, a_restart_reads_only_pinned_ones) {
  for (const char *name : {"a", "b", "c"})
    ASSERT_EQ(put(name), status::ok);
  ASSERT_EQ(put("d", flag_pinned), status::ok);
  drain();
  start();
  EXPECT_EQ(objects_->statistics().cold_count, 3u);
  EXPECT_EQ(memory_->used(), one_object);
  EXPECT_EQ(objects_->statistics_for(space_).used, 4 * one_object);
  EXPECT_FALSE(is_cold("d"));
  for (const char *name : {"a", "b", "c"})
    EXPECT_EQ(read(name), status::ok);
}

TEST_F(cold_objects, a_reader_keeps_the_bytes_of_a_removed_object) {
  settings_.compact_above = mib;
  start();
  for (const char *name : {"a", "b", "c", "d", "e"}) {
    ASSERT_EQ(put(name), status::ok);
    drain();
  }
  auto const opened = objects_->open_bytes(space_, "a", 0).value();
  ASSERT_NE(opened.reader, nullptr);
  for (const char *name : {"a", "b", "c", "d"})
    ASSERT_EQ(objects_->remove(space_, name, {}), status::ok);
  drain();
  for (int i = 0; i < 2000; i++) {
    (void)journal_->progress();
    world_.advance(1'000'000);
  }
  EXPECT_EQ(read(opened, "a"), status::ok);
  EXPECT_EQ(objects_->statistics_for(space_).used, 2 * one_object);
  EXPECT_EQ(objects_->open(space_, "a", 0).error(), status::no_entry);
}

TEST_F(cold_objects, compaction_moves_them_and_needs_no_pool_memory) {
  settings_.compact_above = mib;
  start();
  for (int i = 0; i < 12; i++) {
    ASSERT_EQ(put("k" + std::to_string(i % 10)), status::ok);
    drain();
    if (i % 3 != 0) {
      ASSERT_EQ(put("x"), status::ok);
      drain();
    }
  }
  for (int i = 0; i < 3000; i++) {
    (void)journal_->progress();
    world_.advance(1'000'000);
  }
  for (int i = 0; i < 10; i++) {
    std::string const name = "k" + std::to_string(i);
    if (is_cold(name)) {
      EXPECT_EQ(read(name), status::ok) << name;
    }
  }
}

TEST_F(cold_objects, one_comes_back_to_memory_and_is_charged_once) {
  ASSERT_EQ(put("a"), status::ok);
  drain();
  start();
  auto const opened = objects_->open_bytes(space_, "a", 0).value();
  object_ref const resident =
      objects_->create_resident(opened.object, allocation::only_free).value();
  EXPECT_EQ(objects_->promote("a", opened.object, resident), resident);
  EXPECT_FALSE(is_cold("a"));
  EXPECT_EQ(objects_->statistics_for(space_).used, one_object);
  EXPECT_EQ(objects_->statistics().cold_count, 0u);
  // Another client that has read it as well gets the same instance.
  object_ref const second = objects_->create_resident(opened.object, allocation::immediate).value();
  EXPECT_EQ(objects_->promote("a", opened.object, second), resident);
}

TEST_F(cold_objects, a_failed_rename_does_not_lose_the_bytes_to_the_next_object_of_the_name) {
  for (const char *name : {"a", "b", "c", "d", "e"}) {
    ASSERT_EQ(put(name), status::ok);
    drain();
  }
  ASSERT_TRUE(is_cold("a"));
  fail_writes(true);
  ASSERT_EQ(objects_->rename(space_, "a", "z", 0, {}), status::ok);
  drain();
  fail_writes(false);
  ASSERT_EQ(put("a"), status::ok);
  drain();
  auto const opened = objects_->open_bytes(space_, "z", 0).value();
  EXPECT_EQ(read(opened, "a"), status::ok);
}

// ---- streams

// Gives parts of an object without a log, in the order that the test wants.
class scripted_reader final : public cold_reader {
 public:
  explicit scripted_reader(std::string bytes) : bytes_{std::move(bytes)} {
    pool::checksum sum{pool::checksum_kind::xxh3};
    sum.add(bytes_.data(), bytes_.size());
    expected_ = {pool::checksum_kind::xxh3, sum.value()};
  }
  void read(uint64_t offset,
            std::vector<seams::store_buffer> buffers,
            std::function<void(status)> done) override {
    requested_size += buffers.at(0).size;
    requests.push_back([this, offset, buffers, done](status code) {
      std::memcpy(buffers.at(0).addr, bytes_.data() + offset, buffers.at(0).size);
      done(code);
    });
  }
  logged_checksum checksum() const override {
    return expected_;
  }
  void damage() {
    bytes_.back() ^= 1;
  }

  std::vector<std::function<void(status)>> requests;
  uint64_t requested_size = 0;

 private:
  std::string bytes_;
  logged_checksum expected_;
};

std::string patterned_bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i++)
    bytes[i] = char(i * 7 + i / 251);
  return bytes;
}

// What a stream sends in pieces of `step` bytes, when its requests complete last to first.
result<std::string> sent_by(cold_stream &stream, scripted_reader &reader, uint64_t step) {
  std::string sent;
  while (!stream.is_at_end()) {
    for (auto requests = std::exchange(reader.requests, {}); !requests.empty();) {
      requests.back()(status::ok);
      requests.pop_back();
    }
    TND_TRY(stream.next_state());
    pool::part_list list;
    (void)stream.add_to(list, step);
    for (const iovec &part : list.parts())
      sent.append(static_cast<const char *>(part.iov_base), part.iov_len);
    if (stream.advance(list.size()) != 0)
      return status::protocol;
  }
  return sent;
}

TEST(cold_stream, sends_all_bytes_in_order_with_bounded_requests) {
  std::string const bytes = patterned_bytes(11 * mib + 77);
  auto const reader = std::make_shared<scripted_reader>(bytes);
  auto const budget = std::make_shared<read_budget>(16 * mib);
  auto stream =
      cold_stream::create({reader, {{0, bytes.size()}}, true}, budget, true, [] {}).value();
  stream->start();
  EXPECT_EQ(reader->requested_size, 4 * mib);
  EXPECT_EQ(budget->used(), 4 * mib);
  EXPECT_EQ(stream->next_state(), status::again);
  EXPECT_EQ(sent_by(*stream, *reader, 300'000).value(), bytes);
  stream.reset();
  EXPECT_EQ(budget->used(), 0u);
}

TEST(cold_stream, sends_ranges_and_reads_only_them) {
  std::string const bytes = patterned_bytes(8 * mib);
  std::vector<wire::pool::range> ranges;
  std::string expected;
  for (uint64_t i = 0; i < 1000; i++) {
    ranges.push_back({i * 8000, i % 100});
    expected += bytes.substr(i * 8000, i % 100);
  }
  auto const reader = std::make_shared<scripted_reader>(bytes);
  auto const stream = cold_stream::create({reader, ranges}, nullptr, true, [] {}).value();
  stream->start();
  EXPECT_EQ(sent_by(*stream, *reader, 1000).value(), expected);
  EXPECT_EQ(reader->requested_size, expected.size());
}

TEST(cold_stream, without_a_budget_reads_small_parts_or_waits) {
  std::string const bytes = patterned_bytes(mib);
  auto const reader = std::make_shared<scripted_reader>(bytes);
  auto const budget = std::make_shared<read_budget>(mib / 2);
  cold_stream::selection const source{reader, {{0, bytes.size()}}, true};
  EXPECT_EQ(cold_stream::create(source, budget, false, [] {}).error(), status::busy);
  auto const stream = cold_stream::create(source, budget, true, [] {}).value();
  stream->start();
  EXPECT_EQ(reader->requested_size, cold_stream::small_part_size);
  EXPECT_EQ(sent_by(*stream, *reader, 10'000).value(), bytes);
}

TEST(cold_stream, damage_is_an_error_before_the_last_byte_is_sent) {
  std::string const bytes = patterned_bytes(mib);
  auto const reader = std::make_shared<scripted_reader>(bytes);
  reader->damage();
  auto const stream =
      cold_stream::create({reader, {{0, bytes.size()}}, true}, nullptr, true, [] {}).value();
  stream->start();
  for (auto const &request : std::exchange(reader->requests, {}))
    request(status::ok);
  EXPECT_EQ(stream->check_window(), status::corrupt);
  std::string const longer = patterned_bytes(6 * mib);
  auto const long_reader = std::make_shared<scripted_reader>(longer);
  long_reader->damage();
  auto const long_stream =
      cold_stream::create({long_reader, {{0, longer.size()}}, true}, nullptr, true, [] {}).value();
  long_stream->start();
  EXPECT_EQ(sent_by(*long_stream, *long_reader, mib).error(), status::corrupt);
}

TEST(cold_stream, a_failed_request_is_the_streams_error) {
  auto const reader = std::make_shared<scripted_reader>(patterned_bytes(3 * mib));
  auto const stream =
      cold_stream::create({reader, {{0, 3 * mib}}, true}, nullptr, true, [] {}).value();
  stream->start();
  ASSERT_EQ(reader->requests.size(), 3u);
  reader->requests[0](status::ok);
  reader->requests[2](status::ok);
  EXPECT_FALSE(stream->is_window_read());
  reader->requests[1](status::io);
  EXPECT_TRUE(stream->is_window_read());
  EXPECT_EQ(stream->check_window(), status::io);
}

}  // namespace
}  // namespace tanada::poold
