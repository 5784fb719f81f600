// Goal: after a failure of the log, a rename still moves an object that the log has under an old
// name, even while the removal of that old name is being completed. A log that lost a removal can
// be restored. Objects of a file are restored however they grew, and damaged ones are kept aside.
// Method: run the journal over a simulated store that fails for a while, then restore the store's
// contents with a new journal.
#include "products/poold/durable.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "core/base/log.hpp"
#include "products/poold/testing/journal_fixture.hpp"

namespace tanada::poold {
namespace {

class pool_durable : public journal_fixture {
 protected:
  pool_durable() {
    settings_.group_size_max = 1;  // one transaction at a time
  }
  void SetUp() override {
    start();
  }

  void open() {
    open_log({}, limits_);
  }
  void start() {
    open();
    ASSERT_EQ(journal_->restore(*objects_), status::ok);
    space_ = objects_->open_namespace("s", false).value();
  }
  journal_callback record_outcome() {
    return [this](status code) {
      outcomes_.push_back(code);
    };
  }
  void put(const std::string &name) {
    auto object = objects_->create_object(space_, 100, 0).value();
    ASSERT_TRUE(
        objects_->commit(object, name, 0, [&](const info &) { return record_outcome(); }).ok());
  }
  void rename(const std::string &name, const std::string &new_name) {
    ASSERT_EQ(objects_->rename(space_, name, new_name, 0, record_outcome()), status::ok);
  }
  void remove(const std::string &name) {
    ASSERT_EQ(objects_->remove(space_, name, record_outcome()), status::ok);
  }
  // As another server of a cluster passes it on.
  void apply(change::kind type, const std::string &name, uint64_t version) {
    change update;
    update.type = type;
    update.name = name;
    if (type == change::kind::put) {
      update.object = objects_->create_restored(space_, 100, 0).value();
      update.object->metadata.size = 100;
      update.object->metadata.version = version;
    }
    auto const no_check = [] {
      return status::ok;
    };
    ASSERT_EQ(objects_->apply(space_, no_check, {std::move(update)}, record_outcome()), status::ok);
  }
  void rewrite() {
    for (int round = 0; round < 2; round++) {
      objects_->rewrite(journal_->unwritten_places(100), {});
      drain();
    }
  }
  std::vector<std::string> names() {
    std::vector<std::string> listed;
    objects_->list(space_, {}, [&](const std::string &name, const info *) {
      listed.push_back(name);
      return true;
    });
    return listed;
  }
  using outcomes = std::vector<status>;

  catalog_options limits_;
  outcomes outcomes_;
};

TEST_F(pool_durable, what_failed_is_written_again_until_the_log_is_whole) {
  put("kept");
  put("renamed");
  put("removed");
  drain();
  EXPECT_TRUE(journal_->condition().is_whole);
  fail_writes(true);
  put("new");
  drain();
  rename("renamed", "other");
  drain();
  remove("removed");
  drain();
  EXPECT_EQ(journal_->condition().cause, status::io);
  rewrite();
  EXPECT_FALSE(journal_->condition().is_whole) << "the log still fails";
  fail_writes(false);
  rewrite();
  EXPECT_TRUE(journal_->condition().is_whole);
  EXPECT_TRUE(journal_->unwritten_places(100).empty());
  start();
  EXPECT_EQ(names(), (std::vector<std::string>{"kept", "new", "other"}));
}

TEST_F(pool_durable, flags_that_failed_are_written_again) {
  put("a");
  drain();
  fail_writes(true);
  ASSERT_EQ(objects_->set_flags(space_, "a", flag_evictable, {}), status::ok);
  drain();
  fail_writes(false);
  rewrite();
  start();
  EXPECT_EQ(objects_->open(space_, "a", 0).value()->flags & flags_of_objects, flag_evictable);
}

TEST_F(pool_durable, a_change_that_changes_nothing_is_durable_after_those_before_it) {
  apply(change::kind::put, "a", 5);
  apply(change::kind::remove, "a", 5);
  apply(change::kind::remove, "a", 5);
  drain();
  EXPECT_EQ(outcomes_, (outcomes{status::ok, status::ok, status::ok}));
  start();
  EXPECT_TRUE(names().empty());
}

TEST_F(pool_durable, what_a_failed_log_has_under_an_old_name_goes_with_its_removal) {
  put("a");
  drain();
  fail_writes(true);
  rename("a", "b");
  drain();
  put("a");
  drain();
  fail_writes(false);
  EXPECT_EQ(std::exchange(outcomes_, {}), (outcomes{status::ok, status::io, status::io}));
  remove("a");
  drain();
  EXPECT_EQ(outcomes_, outcomes{status::ok});
  start();
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(pool_durable, a_rename_on_its_way_saves_it_from_that_removal) {
  put("a");
  put("c");
  drain();
  fail_writes(true);
  rename("a", "b");
  drain();
  put("a");
  drain();
  fail_writes(false);
  outcomes_.clear();
  remove("a");
  rename("b", "c");
  drain();
  EXPECT_EQ(outcomes_, (outcomes{status::ok, status::ok}));
  EXPECT_EQ(names(), std::vector<std::string>{"c"});
  start();
  EXPECT_EQ(names(), std::vector<std::string>{"c"});
}

TEST_F(pool_durable, an_object_that_was_given_up_and_comes_again_is_there_after_a_restart) {
  apply(change::kind::put, "a", 7);
  drain();
  apply(change::kind::remove, "a", 7);
  apply(change::kind::put, "a", 7);
  drain();
  apply(change::kind::put, "a", 7);
  apply(change::kind::put, "a", 7);
  drain();
  EXPECT_EQ(outcomes_, outcomes(5, status::ok));
  start();
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  apply(change::kind::put, "a", 7);
  apply(change::kind::remove, "a", 7);
  drain();
  start();
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(pool_durable, an_object_that_comes_under_a_new_name_survives_the_removal_of_the_old_one) {
  apply(change::kind::put, "a", 7);
  apply(change::kind::put, "b", 7);
  apply(change::kind::remove, "a", 7);
  drain();
  rename("b", "c");
  drain();
  EXPECT_EQ(outcomes_, outcomes(4, status::ok));
  start();
  EXPECT_EQ(names(), std::vector<std::string>{"c"});
  remove("c");
  drain();
  start();
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(pool_durable, a_restart_keeps_all_namespaces_with_objects_and_no_others) {
  room_.capacity = 32 * mib;
  start();
  for (const char *name : {"a", "b", "c", "d", "emptied"}) {
    space_ = objects_->open_namespace(name, true).value();
    put("object");
    drain();
  }
  remove("object");
  drain();
  limits_.namespace_count_max = 2;
  start();
  EXPECT_EQ(objects_->all_namespaces().size(), 4u);
  EXPECT_FALSE(objects_->open_namespace("new", true).ok());
  for (const char *name : {"a", "b", "c", "d"}) {
    space_ = objects_->open_namespace(name, true).value();
    EXPECT_EQ(names(), std::vector<std::string>{"object"}) << name;
  }
}

TEST_F(pool_durable, many_small_namespaces_come_back_with_another_segment_size) {
  room_.capacity = 16 * mib;
  start();
  auto const name_of = [](uint64_t i) {
    return "space" + std::to_string(i);
  };
  constexpr uint64_t count = 200;
  for (uint64_t i = 0; i < count; i++) {
    space_ = objects_->open_namespace(name_of(i), true).value();
    put("object");
    drain();
  }
  for (uint64_t const segment_size : {8 * mib, 2 * mib, 16 * mib}) {
    room_.segment_size = segment_size;
    start();
    for (uint64_t i = 0; i < count; i++) {
      space_ = objects_->open_namespace(name_of(i), true).value();
      ASSERT_EQ(names(), std::vector<std::string>{"object"}) << name_of(i);
    }
  }
}

// A namespace releases the unused parts of its segments, otherwise a full pool could not restart.
TEST_F(pool_durable, a_full_pool_comes_back_whatever_the_order_of_its_objects) {
  room_.capacity = 16 * mib;
  start();
  uint64_t const ids[] = {objects_->open_namespace("a", true).value(),
                          objects_->open_namespace("b", true).value()};
  size_t made_count = 0;
  for (uint64_t const size : {uint64_t{300'000}, uint64_t{60'000}}) {
    for (;; made_count++) {
      auto object = objects_->create_object(ids[made_count % 2], size, 0);
      if (!object.ok())
        break;
      std::string const name = std::to_string(made_count);
      auto const done_of = [&](const info &) {
        return record_outcome();
      };
      ASSERT_TRUE(objects_->commit(object.value(), name, 0, done_of).ok());
      drain();
    }
  }
  for (uint64_t const segment_size : {16 * mib, 2 * mib, 8 * mib}) {
    room_.segment_size = segment_size;
    start();
    EXPECT_EQ(objects_->statistics().object_count, made_count) << segment_size;
  }
}

// Objects stay in the backing file, and the log has their ranges. An empty file has zeros there.
TEST_F(pool_durable, of_two_objects_in_the_same_place_one_comes_back_and_the_other_is_kept_aside) {
  objects_.reset();
  journal_.reset();
  settings_.with_data = false;
  {
    auto log = pool::durable_log::open(store_, clock_, settings_).value();
    std::vector<std::byte> const zeros(128);
    pool::checksum sum{pool::checksum_kind::crc32c};
    sum.add(zeros.data(), zeros.size());
    for (uint64_t i = 0; i < 3; i++) {
      pool::change put;
      put.meta = {
          "s", "n" + std::to_string(i), 10 + i, zeros.size(), 0, 0, sum.kind(), sum.value()};
      put.extents = {{i == 2 ? 4096 : i * 64, zeros.size()}};
      ASSERT_EQ(log->append({put}, record_outcome()), status::ok);
    }
    ASSERT_EQ(log->drain(clock_.now_ns() + 1'000'000'000), status::ok);
  }
  EXPECT_EQ(outcomes_, outcomes(3, status::ok));
  start();
  EXPECT_EQ(names().size(), 3u);
  size_t whole_count = 0;
  for (const std::string &name : names())
    whole_count += objects_->open(space_, name, 0).value()->is_intact();
  EXPECT_EQ(whole_count, 2u);
}

// A put is logged with the flags of its commit. Later changes of flags are separate log entries.
TEST_F(pool_durable, a_put_on_its_way_to_the_log_has_the_flags_of_its_commit) {
  auto object = objects_->create_object(space_, 100, flag_evictable).value();
  auto const fail_what_follows = [this](status code) {
    outcomes_.push_back(code);
    fail_writes(true);
  };
  ASSERT_TRUE(
      objects_->commit(object, "a", 0, [&](const info &) { return fail_what_follows; }).ok());
  for (const char *const name : {"b", "c"})
    put(name);  // written before the first callback
  ASSERT_EQ(objects_->set_flags(space_, "a", flag_pinned, record_outcome()), status::ok);
  object.reset();
  drain();
  ASSERT_EQ(outcomes_.size(), 4u);
  EXPECT_EQ(outcomes_.front(), status::ok);
  EXPECT_EQ(outcomes_.back(), status::io);
  fail_writes(false);
  start();
  EXPECT_EQ(objects_->open(space_, "a", 0).value()->flags & flags_of_objects, flag_evictable);
}

// With a backing file, whose bytes stay across restarts.
class pool_durable_file : public pool_durable {
 protected:
  pool_durable_file() {
    settings_.with_data = false;
    room_.file = testing::TempDir() + "tanada_durable_" + std::to_string(getpid());
  }
  ~pool_durable_file() override {
    unlink(room_.file.c_str());
  }

  static std::string contents(uint64_t size, uint64_t seed) {
    sim::prng random{seed};
    std::string bytes(size, 0);
    for (char &letter : bytes)
      letter = char(random.next());
    return bytes;
  }
  static void write(object &target, uint64_t offset, std::string_view bytes) {
    std::vector<iovec> parts;
    target.append_parts(offset, bytes.size(), parts);
    for (const iovec &part : parts) {
      std::memcpy(part.iov_base, bytes.data(), part.iov_len);
      bytes.remove_prefix(part.iov_len);
    }
  }
  void commit(const object_ref &object, const std::string &name) {
    ASSERT_TRUE(
        objects_->commit(object, name, 0, [&](const info &) { return record_outcome(); }).ok());
  }
  void put_bytes(const std::string &name, std::string_view bytes) {
    auto object = objects_->create_object(space_, bytes.size(), 0).value();
    write(*object, 0, bytes);
    commit(object, name);
  }
  std::string bytes_of(const std::string &name) {
    auto object = objects_->open(space_, name, 0);
    if (!object.ok())
      return "nothing has the name";
    if (!object.value()->is_intact())
      return "damaged";
    std::vector<iovec> parts;
    object.value()->append_parts(0, object.value()->metadata.size, parts);
    std::string bytes;
    for (const iovec &part : parts)
      bytes.append(static_cast<const char *>(part.iov_base), part.iov_len);
    return bytes;
  }
  // As the writers of uncommitted objects would.
  void write_all_free() {
    std::vector<object_ref> others;
    for (uint64_t size = memory_->capacity(); size >= 64;) {
      auto filler = objects_->create_object(space_, size, 0);
      if (!filler.ok()) {
        size /= 2;
        continue;
      }
      write(*filler.value(), 0, contents(size, 9));
      others.push_back(std::move(filler).value());
    }
    EXPECT_FALSE(others.empty());
  }
  void scribble(const std::string &name) {
    std::vector<iovec> parts;
    objects_->open(space_, name, 0).value()->append_parts(0, 1, parts);
    *static_cast<char *>(parts[0].iov_base) ^= 1;
  }
};

// Memory is aligned to 64 bytes below 64 KiB, and to pages from there on. An object that grows has
// both.
TEST_F(pool_durable_file, objects_that_grew_in_steps_of_any_size_come_back) {
  room_.capacity = 32 * mib;
  start();
  std::map<std::string, std::string> expected;
  uint64_t number = 0;
  for (uint64_t const step : {97u, 1000u, 5000u, 40'000u, 65'535u, 65'537u, 100'000u}) {
    for (bool const is_alone : {true, false}) {
      std::string const name = std::to_string(step) + (is_alone ? " alone" : " among others");
      std::string const bytes = contents(2 * step < 100'000 ? 100'000 : 250'001, ++number);
      auto object = objects_->create_object(space_, number % 3 == 0 ? step / 2 : 0, 0).value();
      for (uint64_t offset = 0; offset < bytes.size(); offset += step) {
        uint64_t const size = std::min<uint64_t>(step, bytes.size() - offset);
        ASSERT_EQ(objects_->grow(*object, std::max(object->metadata.size, offset + size)),
                  status::ok);
        write(*object, offset, std::string_view{bytes}.substr(offset, size));
        if (is_alone)
          continue;
        std::string const other_name = name + " " + std::to_string(offset);
        expected[other_name] = contents(1 + offset % 300, offset);
        put_bytes(other_name, expected[other_name]);
      }
      commit(object, name);
      drain();
      expected[name] = bytes;
    }
  }
  start();
  for (auto const &[name, bytes] : expected)
    EXPECT_TRUE(bytes_of(name) == bytes) << name;
  EXPECT_EQ(names().size(), expected.size());
}

TEST_F(pool_durable_file, a_pool_opens_with_another_segment_size) {
  room_.capacity = 16 * mib;
  start();
  std::map<std::string, std::string> expected;
  for (uint64_t i = 0; i < 12; i++) {
    std::string const name = std::to_string(i);
    space_ = objects_->open_namespace(i % 2 == 0 ? "s" : "t", true).value();
    expected[name] = contents(100'000 * i + 1, i);
    put_bytes(name, expected[name]);
  }
  drain();
  for (uint64_t const segment_size : {4 * mib, 2 * mib, 8 * mib}) {
    room_.segment_size = segment_size;
    start();
    for (uint64_t i = 0; i < 12; i++) {
      space_ = objects_->open_namespace(i % 2 == 0 ? "s" : "t", true).value();
      EXPECT_TRUE(bytes_of(std::to_string(i)) == expected[std::to_string(i)])
          << i << " at " << segment_size;
    }
  }
}

TEST_F(pool_durable_file, a_damaged_object_is_kept_aside_until_it_is_replaced_or_removed) {
  for (const char *name : {"replaced", "removed", "renamed", "good"})
    put_bytes(name, contents(70'000, 5));
  drain();
  for (const char *name : {"replaced", "removed", "renamed"})
    scribble(name);
  uint64_t const used = memory_->used();
  for (int life = 0; life < 2; life++) {
    start();
    EXPECT_EQ(names().size(), 4u);
    for (const char *name : {"replaced", "removed", "renamed"})
      EXPECT_EQ(bytes_of(name), "damaged") << name;
    EXPECT_EQ(bytes_of("good"), contents(70'000, 5));
    EXPECT_LE(memory_->used(), used) << "its memory is not reused, and it has no other";
    EXPECT_GE(memory_->used(), uint64_t{4 * 70'000});
  }
  put_bytes("replaced", contents(70'001, 6));
  remove("removed");
  rename("renamed", "other");
  drain();
  start();
  EXPECT_EQ(bytes_of("replaced"), contents(70'001, 6));
  EXPECT_EQ(names(), (std::vector<std::string>{"good", "other", "replaced"}));
  EXPECT_EQ(bytes_of("other"), "damaged");
}

TEST_F(pool_durable_file, a_version_is_kept_while_the_log_has_no_later_one) {
  put_bytes("a", contents(100'000, 1));
  put_bytes("removed", contents(100'000, 2));
  drain();
  fail_writes(true);
  put_bytes("a", contents(100'000, 3));
  remove("removed");
  drain();
  EXPECT_EQ(outcomes_.back(), status::io);
  write_all_free();
  fail_writes(false);
  start();
  EXPECT_EQ(bytes_of("a"), contents(100'000, 1));
  EXPECT_EQ(bytes_of("removed"), contents(100'000, 2));
  remove("a");
  remove("removed");
  drain();
  EXPECT_EQ(memory_->used(), 0u);
}

TEST_F(pool_durable_file, a_version_is_kept_when_what_was_renamed_over_it_is_not_in_the_log) {
  put_bytes("b", contents(100'000, 1));
  drain();
  fail_writes(true);
  put_bytes("a", contents(100'000, 2));
  drain();
  fail_writes(false);
  rename("a", "b");
  drain();
  EXPECT_EQ(outcomes_, (outcomes{status::ok, status::io, status::io}));
  write_all_free();
  start();
  EXPECT_EQ(bytes_of("b"), contents(100'000, 1));
  remove("b");
  drain();
  EXPECT_EQ(memory_->used(), 0u);
}

TEST_F(pool_durable_file, a_version_on_its_way_to_the_log_is_kept_when_a_later_one_fails_before) {
  auto first = objects_->create_object(space_, 2 * mib, 0).value();
  auto lost = objects_->create_object(space_, 2 * mib, 0).value();
  first.reset();
  ASSERT_EQ(memory_->file_offset(lost->pieces().front()), 2 * mib)
      << "in the part of the file that is cut off below";
  put_bytes("other", contents(100'000, 1));
  put_bytes("a", contents(100'000, 2));
  commit(lost, "a");
  ASSERT_EQ(truncate(room_.file.c_str(), 2 * mib), 0);
  drain();
  EXPECT_EQ(outcomes_, (outcomes{status::io, status::ok, status::ok}));
  write_all_free();
  lost.reset();  // before its memory
  start();
  EXPECT_EQ(bytes_of("a"), contents(100'000, 2));
}

// Otherwise its memory would be free at once, and a restart could find the object with other bytes.
TEST_F(pool_durable_file, an_object_is_dropped_for_room_only_once_the_log_has_it_as_evictable) {
  put_bytes("a", contents(2 * mib, 1));
  drain();
  fail_writes(true);
  ASSERT_EQ(objects_->set_flags(space_, "a", flag_evictable, record_outcome()), status::ok);
  drain();
  EXPECT_EQ(objects_->create_object(space_, 3 * mib, 0).error(), status::no_space);
  fail_writes(false);
  ASSERT_EQ(objects_->set_flags(space_, "a", flag_evictable, record_outcome()), status::ok);
  drain();
  EXPECT_TRUE(objects_->create_object(space_, 3 * mib, 0).ok());
}

// If a failed write cannot be cut off, a restart may find it, so the object must not be evicted.
TEST_F(pool_durable_file,
       an_object_is_not_dropped_for_room_while_the_log_may_have_it_as_not_evictable) {
  auto object = objects_->create_object(space_, 2 * mib, flag_evictable).value();
  write(*object, 0, contents(2 * mib, 1));
  commit(object, "a");
  object.reset();
  drain();
  sim::store_faults faults;
  for (auto const kind : {seams::store_op_kind::sync, seams::store_op_kind::truncate})
    faults.errors[size_t(kind)] = {100, status::io};
  store_.faults_set(faults);
  ASSERT_EQ(objects_->set_flags(space_, "a", 0, record_outcome()), status::ok);
  drain();
  fail_writes(true);
  ASSERT_EQ(objects_->set_flags(space_, "a", flag_evictable, record_outcome()), status::ok);
  drain();
  EXPECT_EQ(outcomes_, (outcomes{status::ok, status::io, status::io}));
  EXPECT_EQ(objects_->create_object(space_, 3 * mib, 0).error(), status::no_space);
  write_all_free();
  fail_writes(false);
  start();
  EXPECT_TRUE(bytes_of("a") == contents(2 * mib, 1)) << "other bytes, or damaged";
  EXPECT_EQ(objects_->open(space_, "a", 0).value()->flags & flags_of_objects, 0u)
      << "the log did not have what failed";
  ASSERT_EQ(objects_->set_flags(space_, "a", flag_evictable, record_outcome()), status::ok);
  drain();
  EXPECT_TRUE(objects_->create_object(space_, 3 * mib, 0).ok());
}

TEST_F(pool_durable_file, a_smaller_pool_is_refused_with_the_size_that_it_needs) {
  put_bytes("a", contents(3 * mib, 1));
  drain();
  objects_.reset();
  journal_.reset();
  memory_.reset();
  room_.capacity = 2 * mib;
  open();
  EXPECT_EQ(journal_->restore(*objects_), status::no_space);
  EXPECT_NE(std::string{last_message()}.find("start with --size 3145728 or more"),
            std::string::npos)
      << last_message();
  room_.capacity = 4 * mib;
  start();
  EXPECT_EQ(bytes_of("a"), contents(3 * mib, 1));
}

}  // namespace
}  // namespace tanada::poold
