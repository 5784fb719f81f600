// The log on real files: round trips, files cut at every byte of the last record, and full file
// systems.
#include "products/poold/log/log.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backends/file/file_store.hpp"
#include "products/poold/log/reserve_file.hpp"
#include "products/poold/log/testing/format_1_log.hpp"
#include "products/poold/log/testing/log_user.hpp"

namespace tanada::pool {
namespace {

using names_map = std::map<std::string, uint64_t>;

class pool_log : public testing::Test {
 protected:
  void SetUp() override {
    bool const memory = std::filesystem::is_directory("/dev/shm");
    std::string pattern =
        std::string{memory ? "/dev/shm" : testing::TempDir()} + "/tanada-log-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    auto opened = backends::file_store_open();
    ASSERT_TRUE(opened.ok());
    store_ = std::move(opened).value();
    user_.emplace(*store_, seams::monotonic_clock());
  }
  void TearDown() override {
    user_.reset();
    store_.reset();
    if (mounted_)
      umount2(folder_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(folder_);
  }

  log_options options() const {
    log_options settings;
    settings.url = "file://" + folder_ + "/";
    settings.identity[3] = 7;
    settings.mark_delay_ns = ~uint64_t{0};
    return settings;
  }
  log_user &user() {
    return *user_;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto &entry : std::filesystem::directory_iterator{folder_})
      paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  static std::string contents(const std::string &path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
  }
  std::string contents_of_log() const {
    return contents(files().front());
  }
  static void contents_set(const std::string &path, const std::string &bytes) {
    std::ofstream{path, std::ios::binary | std::ios::trunc} << bytes;
  }

  std::string folder_;
  bool mounted_ = false;
  std::unique_ptr<seams::store> store_;
  std::optional<log_user> user_;
};

TEST_F(pool_log, what_is_committed_is_there_after_a_restart) {
  std::string const a = some_bytes(10'000, 1), b = some_bytes(4096, 2), c = some_bytes(1, 3),
                    nothing;
  ASSERT_EQ(user().open(options()), status::ok);
  EXPECT_EQ(user().commit({user().put("a", 1, a), user().put("b", 2, b)}), status::ok);
  EXPECT_EQ(user().commit({user().put("c", 3, c), user().put("none", 4, nothing)}), status::ok);
  EXPECT_EQ(user().commit({user().rename(3, "d"), user().of_kind(change_kind::flags, 2, "", 5)}),
            status::ok);
  EXPECT_EQ(user().commit({user().put("a", 5, b), user().remove(4)}), status::ok);
  auto const meta = user().log->find(5)->meta;
  for (uint32_t restart = 0; restart < 3; restart++) {
    ASSERT_EQ(user().open(options()), status::ok);
    EXPECT_EQ(user().names(), (names_map{{"a", 5}, {"b", 2}, {"d", 3}}));
    EXPECT_EQ(user().log->find(5)->meta, meta);
    EXPECT_EQ(user().log->find(2)->meta.flags, 5u);
    EXPECT_EQ(user().read(5) + user().read(2) + user().read(3), b + b + c);
    EXPECT_EQ(user().log->highest_version(), 5u);
    EXPECT_EQ(user().log->identity()[3], 7);
    EXPECT_EQ(user().log->drain(~uint64_t{0}), status::ok);
  }
}

TEST_F(pool_log, a_journal_keeps_where_the_bytes_are) {
  auto journal = options();
  journal.with_data = false;
  ASSERT_EQ(user().open(journal), status::ok);
  auto put = user().put("a", 1, some_bytes(10'000, 1));
  put.extents = {{4096, 9'000}, {1 << 20, 1'000}};
  EXPECT_EQ(user().commit({put}), status::ok);
  ASSERT_EQ(user().open(journal), status::ok);
  EXPECT_EQ(user().log->find(1)->extents, put.extents);
  EXPECT_EQ(user().log->find(1)->meta, put.meta);
  EXPECT_EQ(user().log->read(1, 0, {}, {}), status::no_entry);
  EXPECT_EQ(user().open(options()), status::invalid);
}

TEST_F(pool_log, parts_of_objects_are_read) {
  std::string const a = some_bytes(10'000, 1);
  ASSERT_EQ(user().open(options()), status::ok);
  ASSERT_EQ(user().commit({user().put("a", 1, a)}), status::ok);
  std::string first(100, '?'), second(500, '?');
  std::optional<status> outcome;
  auto const view = [](std::string &text) {
    return seams::store_buffer{reinterpret_cast<std::byte *>(text.data()), text.size()};
  };
  ASSERT_EQ(
      user().log->read(1, 4'000, {view(first), view(second)}, [&](status code) { outcome = code; }),
      status::ok);
  while (!outcome)
    user().log->poll();
  EXPECT_EQ(*outcome, status::ok);
  EXPECT_EQ(first + second, a.substr(4'000, 600));
  EXPECT_EQ(user().log->read(1, 9'600, {view(second)}, {}), status::range);
  EXPECT_EQ(user().log->read(1, ~uint64_t{0}, {view(second)}, {}), status::range);
  EXPECT_EQ(user().log->read(2, 0, {view(second)}, {}), status::no_entry);
}

TEST_F(pool_log, refuses_what_cannot_be) {
  auto small = options();
  small.queue_count_max = 2;
  small.size_max = 100'000;
  ASSERT_EQ(user().open(small), status::ok);
  std::string const bytes = some_bytes(100, 1), large = some_bytes(100'000, 2);
  auto const refused = [&](transaction changes) {
    return user().log->append(changes, [](status) { ADD_FAILURE(); });
  };
  auto wrong = user().put("a", 1, bytes);
  EXPECT_EQ(refused({}), status::invalid);
  EXPECT_EQ(refused({user().put("a", 0, bytes)}), status::invalid);
  EXPECT_EQ(refused({user().put("", 1, bytes)}), status::invalid);
  EXPECT_EQ(refused({user().put(std::string(4'097, 'x'), 1, bytes)}), status::too_big);
  EXPECT_EQ(refused({user().put(std::string("a\0b", 3), 1, bytes)}), status::too_big);
  EXPECT_EQ(refused({user().rename(1, "")}), status::invalid);
  EXPECT_EQ(refused({user().put("a", 1, large)}), status::too_big);
  wrong.meta.size++;
  EXPECT_EQ(refused({wrong}), status::invalid);
  wrong.meta.size--;
  wrong.meta.kind = checksum_kind::none;
  EXPECT_EQ(refused({wrong}), status::invalid);
  wrong = user().put("a", 1, bytes);
  wrong.extents = {{0, 100}};
  EXPECT_EQ(refused({wrong}), status::invalid);
  auto const first = user().begin({user().put("a", 1, bytes)}),
             second = user().begin({user().put("b", 2, bytes)});
  EXPECT_EQ(refused({user().put("c", 3, bytes)}), status::again);
  EXPECT_EQ(user().wait(first), status::ok);
  EXPECT_EQ(user().wait(second), status::ok);
  EXPECT_EQ(refused({user().put("c", 1, bytes)}), status::exists);
  EXPECT_EQ(user().commit({user().rename(9, "x"), user().remove(10)}), status::ok);  // unknown ones
  EXPECT_EQ(user().names(), (names_map{{"a", 1}, {"b", 2}}));
}

TEST_F(pool_log, another_pools_files_are_left_alone) {
  ASSERT_EQ(user().open(options()), status::ok);
  ASSERT_EQ(user().commit({user().put("a", 1, "x")}), status::ok);
  auto other_options = options();
  other_options.identity[3]++;
  EXPECT_EQ(user().open(other_options), status::invalid);
  other_options.identity = {};
  EXPECT_EQ(user().open(other_options), status::ok);
  EXPECT_EQ(user().log->identity()[3], 7);
  EXPECT_EQ(user().names(), (names_map{{"a", 1}}));
}

TEST_F(pool_log, a_pool_without_an_identity_draws_one) {
  auto nameless = options();
  nameless.identity = {};
  ASSERT_EQ(user().open(nameless), status::ok);
  auto const drawn = user().log->identity();
  EXPECT_NE(drawn, pool_identity{});
  ASSERT_EQ(user().commit({user().put("a", 1, "x")}), status::ok);
  ASSERT_EQ(user().open(nameless), status::ok);
  EXPECT_EQ(user().log->identity(), drawn);
  EXPECT_EQ(user().names(), (names_map{{"a", 1}}));
}

class pool_log_cut : public pool_log, public testing::WithParamInterface<size_t> {};

// The last record follows those of a and b, and no record marks it as synced. The simulation does
// this with zeros after the cut and with more objects. The last object's bytes lie in the head of
// its record, or after it.
TEST_P(pool_log_cut, at_every_byte_of_the_last_record) {
  std::string const a = some_bytes(5'000, 1), b = some_bytes(3'000, 2),
                    c = some_bytes(GetParam(), 3);
  ASSERT_EQ(user().open(options()), status::ok);
  ASSERT_EQ(user().commit({user().put("a", 1, a)}), status::ok);
  ASSERT_EQ(user().commit({user().put("b", 2, b), user().remove(1)}), status::ok);
  std::string const path = files().at(0), before = contents(path);
  ASSERT_EQ(user().commit({user().put("b", 3, c)}), status::ok);
  user().log.reset();
  std::string const whole = contents(path);
  ASSERT_EQ(whole.size(), before.size() + (GetParam() < 4'096 ? 1 : 3) * 4'096);
  for (size_t size = before.size(); size <= whole.size(); size++) {
    contents_set(path, whole.substr(0, size));
    ASSERT_EQ(user().open(options()), status::ok) << size;
    uint64_t const version = size == whole.size() ? 3 : 2;
    ASSERT_EQ(user().names(), (names_map{{"b", version}})) << size;
    ASSERT_EQ(user().read(version), version == 2 ? b : c) << size;
    if (size % 512 != 0)
      continue;
    ASSERT_EQ(user().commit({user().put("e", 9, a)}), status::ok);
    ASSERT_EQ(user().open(options()), status::ok);
    ASSERT_EQ(user().names(), (names_map{{"b", version}, {"e", 9}})) << size;
    user().log.reset();
    for (const auto &file : files())
      std::filesystem::remove(file);
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, pool_log_cut, testing::Values(2'000, 5'000));

TEST_F(pool_log, a_torn_tail_is_said_in_one_line) {
  if (std::getenv("TND_LOG") != nullptr)
    GTEST_SKIP() << "TND_LOG decides what is logged";
  ASSERT_EQ(user().open(options()), status::ok);
  ASSERT_EQ(user().commit({user().put("a", 1, some_bytes(5'000, 1))}), status::ok);
  ASSERT_EQ(user().commit({user().put("b", 2, some_bytes(5'000, 1))}), status::ok);
  user().log.reset();
  std::string const path = files().at(0), whole = contents(path);
  contents_set(path, whole.substr(0, whole.size() - 4'096));
  testing::internal::CaptureStderr();
  auto const code = user().open(options());
  std::string const output = testing::internal::GetCapturedStderr();
  ASSERT_EQ(code, status::ok);
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
  for (const std::string &part : {std::string{"log-0000000000000001.tnd"},
                                  std::string{"offset 16384"},
                                  std::string{"the file ends in its data"}}) {
    EXPECT_NE(output.find(part), std::string::npos) << output;
  }
}

TEST_F(pool_log, a_full_file_system_gives_no_space_and_goes_on_when_there_is_room) {
  if (mount("tanada", folder_.c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "no right to mount a small file system";
  mounted_ = true;
  auto small = options();
  small.file_size = 64 << 10;
  ASSERT_EQ(user().open(small), status::ok);
  std::string const bytes = some_bytes(20'000, 1);
  uint64_t version = 1;
  while (user().commit({user().put("name" + std::to_string(version), version, bytes)}) ==
         status::ok)
    ASSERT_LT(version++, 100u);
  EXPECT_EQ(user().commit({user().put("more", 200, bytes)}), status::no_space);
  names_map const held = user().names();
  EXPECT_EQ(held.size(), version - 1);
  for (const auto &[name, each] : held)
    EXPECT_EQ(user().read(each), bytes);
  ASSERT_EQ(mount("tanada", folder_.c_str(), "tmpfs", MS_REMOUNT, "size=1m"), 0);
  EXPECT_EQ(user().commit({user().put("more", 201, bytes)}), status::ok);
  ASSERT_EQ(user().open(small), status::ok);
  EXPECT_EQ(user().names().size(), held.size() + 1);
  for (const auto &[name, object_version] : user().names())
    EXPECT_EQ(user().read(object_version), bytes);
}

// Each object has its own file and is so small that a copy looks worthwhile, although it takes as
// many blocks.
TEST_F(pool_log, a_full_log_whose_copies_gain_no_room_refuses) {
  auto limited = options();
  limited.file_size = 32 << 10;
  limited.compact_above = 0;
  limited.size_max = 200 << 10;
  std::string const bytes = some_bytes(20'000, 1);
  ASSERT_EQ(user().open(limited), status::ok);
  std::shared_ptr<std::optional<status>> outcome;
  uint64_t version = 0;
  do {
    version++;
    outcome = user().begin({user().put("n" + std::to_string(version), version, bytes)});
    while (!*outcome && user().log->counters().moved_size < 10 * limited.size_max) {
      if (!user().log->poll())
        usleep(10);
    }
    ASSERT_TRUE(*outcome) << version << ": " << user().log->counters().moved_size
                          << " bytes were moved";
  } while (**outcome == status::ok && version < 20);
  EXPECT_EQ(**outcome, status::no_space);
  EXPECT_GE(version, 5u);
  EXPECT_EQ(user().commit({user().remove(1), user().remove(2)}), status::ok);
  EXPECT_EQ(user().commit({user().put("again", 100, bytes)}), status::ok);
}

class full_log : public pool_log {
 protected:
  void SetUp() override {
    pool_log::SetUp();
    if (mount("tanada", folder_.c_str(), "tmpfs", 0, "size=4m") != 0) {
      GTEST_SKIP() << "no right to mount a small file system";
    }
    mounted_ = true;
    settings_ = options();
    settings_.file_size = 256 << 10;
    settings_.retry_delay_ns = 0;
    reserve_.emplace(folder_, settings_.file_size * 3 / 2);
    settings_.reserve = &*reserve_;
  }
  void TearDown() override {
    user().log.reset();
    pool_log::TearDown();
  }

  // Put objects of this size until the file system is full. Returns their versions.
  std::vector<uint64_t> fill(size_t object_size) {
    bytes_ = some_bytes(object_size, 1);
    std::vector<uint64_t> versions;
    while (versions.size() < 2'000) {
      uint64_t const version = ++last_version_;
      auto const code =
          user().commit({user().put("name" + std::to_string(version), version, bytes_)});
      if (code == status::no_space)
        return versions;
      EXPECT_EQ(code, status::ok);
      versions.push_back(version);
    }
    ADD_FAILURE() << "4 MiB take " << versions.size() << " objects of " << object_size << " bytes";
    return versions;
  }
  status put_more() {
    uint64_t const version = ++last_version_;
    return user().commit({user().put("more", version, bytes_)});
  }

  log_options settings_;
  std::optional<reserve_file> reserve_;
  std::string bytes_;
  uint64_t last_version_ = 0;
};

TEST_F(full_log, a_full_file_system_is_emptied_by_removing_one_object_after_the_other) {
  for (size_t const object_size : {20'000, 100, 600'000}) {
    ASSERT_EQ(user().open(settings_), status::ok);
    auto const versions = fill(object_size);
    ASSERT_GE(versions.size(), 4u);
    for (uint64_t const version : versions) {
      ASSERT_EQ(user().commit({user().remove(version)}), status::ok)
          << version << " of " << versions.size();
    }
    EXPECT_EQ(put_more(), status::ok);
    ASSERT_EQ(user().open(settings_), status::ok);
    EXPECT_EQ(user().names(), (names_map{{"more", last_version_}}));
    EXPECT_EQ(user().commit({user().remove(last_version_)}), status::ok);
  }
}

TEST_F(full_log, a_full_file_system_takes_puts_again_when_half_of_the_objects_are_removed) {
  ASSERT_EQ(user().open(settings_), status::ok);
  auto const versions = fill(20'000);
  names_map rest;
  for (size_t i = 0; i < versions.size(); i++) {
    if (i % 2 == 0)
      rest["name" + std::to_string(versions[i])] = versions[i];
    if (i % 2 == 0)
      continue;
    ASSERT_EQ(user().commit({user().remove(versions[i])}), status::ok) << versions[i];
  }
  ASSERT_EQ(put_more(), status::ok);
  rest["more"] = last_version_;
  ASSERT_EQ(user().open(settings_), status::ok);
  EXPECT_EQ(user().names(), rest);
  for (auto const &[name, version] : rest)
    EXPECT_EQ(user().read(version), bytes_);
}

TEST_F(full_log, a_log_that_is_opened_on_a_full_file_system_takes_removals) {
  ASSERT_EQ(user().open(settings_), status::ok);
  auto const versions = fill(20'000);
  ASSERT_EQ(user().open(settings_), status::ok);
  EXPECT_EQ(put_more(), status::no_space);
  for (uint64_t const version : versions)
    ASSERT_EQ(user().commit({user().remove(version)}), status::ok) << version;
  EXPECT_EQ(put_more(), status::ok);
}

TEST_F(full_log, renames_and_flags_are_kept_while_the_file_system_is_full) {
  ASSERT_EQ(user().open(settings_), status::ok);
  auto const versions = fill(20'000);
  size_t late_count = 0;  // 1 if compaction makes space for this put
  auto const change = [&](uint64_t version) {
    auto const put = user().begin({user().put("late", ++last_version_, bytes_)});
    auto const renamed = user().begin({user().rename(version, "renamed")});
    auto const flagged = user().begin({user().of_kind(change_kind::flags, version, "", 5)});
    if (user().wait(put) == status::ok)
      late_count = 1;
    EXPECT_EQ(user().wait(renamed), status::ok);
    EXPECT_EQ(user().wait(flagged), status::ok);
  };
  change(versions[0]);
  change(versions[1]);
  ASSERT_EQ(user().open(settings_), status::ok);
  EXPECT_EQ(user().names().size(), versions.size() - 1 + late_count);
  EXPECT_EQ(user().names().at("renamed"), versions[1]);
  EXPECT_EQ(user().log->find(versions[1])->meta.flags, 5u);
}

// A log with 43 blocks of 4 KiB for puts.
class small_log : public pool_log {
 protected:
  void SetUp() override {
    pool_log::SetUp();
    limited_ = options();
    limited_.file_size = 32 << 10;
    limited_.size_max = 200 << 10;
    ASSERT_EQ(user().open(limited_), status::ok);
  }
  // Put an object whose record takes `block_count` blocks. Empty: the log kept writing without a
  // reply.
  std::optional<status> put(uint64_t version, uint64_t block_count) {
    std::string const bytes = some_bytes((block_count - 1) << 12, uint32_t(version));
    auto const outcome = user().begin({user().put("n" + std::to_string(version), version, bytes)});
    while (!*outcome && user().log->counters().sync_count < 200) {
      if (!user().log->poll())
        usleep(10);
    }
    return *outcome;
  }
  log_options limited_;
};

TEST_F(small_log, a_put_that_fits_with_the_header_of_its_file_is_taken) {
  ASSERT_EQ(put(1, 11), status::ok);
  ASSERT_EQ(user().log->counters().stored_size, 12u << 12);
  EXPECT_EQ(put(2, 31), status::no_space);
  EXPECT_EQ(put(3, 30), status::ok);
}

// A file that contains only a removal is unlinked once a mark is written. The mark may take the
// file that the put would have used.
TEST_F(small_log, a_put_is_answered_while_files_go_for_marks_in_files_of_their_own) {
  ASSERT_EQ(put(1, 11), status::ok);
  ASSERT_EQ(user().commit({user().remove(1)}), status::ok);
  EXPECT_EQ(put(2, 40), status::ok);
}

TEST_F(pool_log, groups_share_a_sync) {
  ASSERT_EQ(user().open(options()), status::ok);
  std::string const bytes = some_bytes(100, 1);
  std::vector<std::shared_ptr<std::optional<status>>> outcomes;
  for (uint64_t version = 1; version <= 500; version++) {
    outcomes.push_back(
        user().begin({user().put("name" + std::to_string(version), version, bytes)}));
  }
  for (const auto &object_version : outcomes)
    ASSERT_EQ(user().wait(object_version), status::ok);
  auto const counters = user().log->counters();
  EXPECT_EQ(counters.object_count, 500u);
  EXPECT_LE(counters.sync_count, 5u);
}

TEST_F(pool_log, small_objects_of_a_group_share_blocks) {
  ASSERT_EQ(user().open(options()), status::ok);
  ASSERT_EQ(user().commit({user().put("first", 1, "x")}), status::ok);
  uint64_t const before = user().log->counters().stored_size;
  constexpr uint64_t count = 1'000;
  std::vector<std::string> contents;
  for (uint64_t version = 2; version < 2 + count; version++)
    contents.push_back(some_bytes(64, uint32_t(version)));
  std::vector<std::shared_ptr<std::optional<status>>> outcomes;
  uint64_t put_size = 0;
  for (uint64_t version = 2; version < 2 + count; version++) {
    std::string const name = "name" + std::to_string(version);
    outcomes.push_back(user().begin({user().put(name, version, contents[version - 2])}));
    put_size += 64 + name.size();
  }
  for (const auto &outcome : outcomes)
    ASSERT_EQ(user().wait(outcome), status::ok);
  EXPECT_LE(user().log->counters().stored_size - before, 4 * put_size);
  ASSERT_EQ(user().open(options()), status::ok);
  for (uint64_t version = 2; version < 2 + count; version++)
    ASSERT_EQ(user().read(version), contents[version - 2]) << version;
}

TEST_F(pool_log, a_lone_small_object_takes_one_block) {
  ASSERT_EQ(user().open(options()), status::ok);
  ASSERT_EQ(user().commit({user().put("first", 1, "x")}), status::ok);
  uint64_t const before = user().log->counters().stored_size;
  ASSERT_EQ(user().commit({user().put("lone", 2, some_bytes(3'000, 1))}), status::ok);
  EXPECT_EQ(user().log->counters().stored_size - before, 4'096u);
}

TEST_F(pool_log, objects_of_one_transaction_of_any_size_come_back) {
  for (size_t const count : {1, 50, 1'000}) {
    ASSERT_EQ(user().open(options()), status::ok);
    std::vector<std::string> contents;
    for (size_t i = 0; i < count; i++)
      contents.push_back(some_bytes(i * 37 % 9'000, uint32_t(i)));
    uint64_t const first = user().log->highest_version() + 1;
    transaction changes;
    for (size_t i = 0; i < count; i++)
      changes.push_back(user().put("name" + std::to_string(i), first + i, contents[i]));
    ASSERT_EQ(user().commit(changes), status::ok);
    ASSERT_EQ(user().open(options()), status::ok);
    for (size_t i = 0; i < count; i++)
      ASSERT_EQ(user().read(first + i), contents[i]) << i;
  }
}

TEST_F(pool_log, a_damaged_byte_of_a_shared_block_costs_one_object) {
  ASSERT_EQ(user().open(options()), status::ok);
  std::vector<std::string> contents;
  for (uint32_t i = 1; i <= 20; i++)
    contents.push_back(some_bytes(64, i));
  std::vector<std::shared_ptr<std::optional<status>>> outcomes;
  for (uint64_t version = 1; version <= 20; version++) {
    outcomes.push_back(
        user().begin({user().put("n" + std::to_string(version), version, contents[version - 1])}));
  }
  for (const auto &outcome : outcomes)
    ASSERT_EQ(user().wait(outcome), status::ok);
  ASSERT_EQ(user().log->drain(~uint64_t{0}), status::ok);
  user().log.reset();
  std::string bytes = contents_of_log();
  size_t const position = bytes.find(contents[9]);
  ASSERT_NE(position, std::string::npos);
  bytes[position] = char(~bytes[position]);
  contents_set(files().front(), bytes);
  ASSERT_EQ(user().open(options()), status::ok);
  for (uint64_t version = 1; version <= 20; version++)
    EXPECT_EQ(user().read(version), version == 10 ? "?" : contents[version - 1]) << version;
}

// Objects as the daemon put them that wrote the file.
void expect_format_1_objects(log_user &user) {
  names_map const names = user.names();
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(user.read(names.at("renamed")), std::string(100, 'a'));
  EXPECT_EQ(user.read(names.at("large")), std::string(5'000, 'b'));
  EXPECT_EQ(user.read(names.at("empty")), "");
}

TEST_F(pool_log, a_log_of_format_1_is_read_and_continued) {
  auto settings = options();
  settings.identity = {};
  contents_set(folder_ + "/log-0000000000000001.tnd", format_1_log_bytes());
  ASSERT_EQ(user().open(settings), status::ok);
  expect_format_1_objects(user());
  uint64_t const version = user().log->highest_version() + 1;
  ASSERT_EQ(user().commit({user().put("new", version, "x")}), status::ok);
  ASSERT_EQ(user().commit({user().remove(version)}), status::ok);
  ASSERT_EQ(user().open(settings), status::ok);
  expect_format_1_objects(user());
}

TEST_F(pool_log, a_log_of_format_1_is_compacted) {
  auto settings = options();
  settings.identity = {};
  settings.compact_above = 0;
  contents_set(folder_ + "/log-0000000000000001.tnd", format_1_log_bytes());
  ASSERT_EQ(user().open(settings), status::ok);
  while (std::filesystem::exists(folder_ + "/log-0000000000000001.tnd"))
    user().log->poll();
  expect_format_1_objects(user());
  ASSERT_EQ(user().open(settings), status::ok);
  expect_format_1_objects(user());
}

TEST_F(pool_log, a_file_of_a_later_format_is_refused_and_left_as_it_is) {
  ASSERT_EQ(user().open(options()), status::ok);
  ASSERT_EQ(user().commit({user().put("a", 1, "x")}), status::ok);
  user().log.reset();
  std::string bytes = contents_of_log();
  bytes[16] = 3;  // stored_file_header::format
  uint64_t seed = 0;
  std::memcpy(&seed, options().identity.data(), sizeof seed);
  uint64_t const checksum = XXH3_64bits_withSeed(bytes.data() + 16, 72 - 16, seed);
  std::memcpy(bytes.data() + 8, &checksum, sizeof checksum);
  contents_set(files().front(), bytes);
  EXPECT_EQ(user().open(options()), status::invalid);
  EXPECT_EQ(contents_of_log(), bytes);
}

}  // namespace
}  // namespace tanada::pool
