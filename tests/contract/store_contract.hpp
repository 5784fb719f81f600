// tests/contract/store_contract.hpp: what every store must do, one operation at a time. Binaries
// include store_contract_queues.hpp, which has the rest.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "contract/store_subject.hpp"
#include "seams/store/store_listing.hpp"

namespace tanada::contract {

class store_contract : public testing::TestWithParam<store_case> {
 protected:
  void SetUp() override {
    subject_ = GetParam().make();
    ASSERT_NE(subject_, nullptr);
    driver_ = std::make_unique<store_driver>(*subject_);
  }
  void TearDown() override {
    driver_.reset();
    subject_.reset();
  }

  store_driver &driver() {
    return *driver_;
  }
  std::string url(const std::string &name) {
    return subject_->url(name);
  }

  // A closed file with these bytes.
  void fill(const std::string &name, const std::string &text) {
    auto const file =
        driver().must_open(url(name), {.write = true, .create = true, .truncate = true});
    auto const done = driver().write(file, 0, text);
    EXPECT_EQ(done.code, status::ok);
    EXPECT_EQ(done.size, text.size());
    EXPECT_EQ(driver().close(file).code, status::ok);
  }
  std::string contents(const std::string &name) {
    auto const opened = driver().open(url(name), store_read_only);
    EXPECT_EQ(opened.code, status::ok);
    auto text = driver().read(opened.file, 0, size_t(opened.stat.size) + 100);
    EXPECT_EQ(driver().close(opened.file).code, status::ok);
    return text;
  }

  std::unique_ptr<store_subject> subject_;
  std::unique_ptr<store_driver> driver_;
};

TEST_P(store_contract, names_are_synced) {
  fill("a", "hello");
  EXPECT_EQ(driver().on_name(seams::store_op_kind::sync_names, url("a")).code, status::ok);
  EXPECT_EQ(driver().on_name(seams::store_op_kind::unlink, url("a")).code, status::ok);
  EXPECT_EQ(driver().on_name(seams::store_op_kind::sync_names, url("a")).code, status::ok);
}

TEST_P(store_contract, writes_and_reads_back) {
  auto const file = driver().must_open(url("a"), store_make);
  auto const done = driver().write(file, 0, "hello, world");
  EXPECT_EQ(done.code, status::ok);
  EXPECT_EQ(done.size, 12u);
  EXPECT_EQ(driver().read(file, 0, 12), "hello, world");
  EXPECT_EQ(driver().read(file, 7, 3), "wor");
  auto const closed = driver().close(file);
  EXPECT_EQ(closed.code, status::ok);
  EXPECT_EQ(contents("a"), "hello, world");
}

TEST_P(store_contract, open_flags) {
  EXPECT_EQ(driver().open(url("a"), store_read_only).code, status::no_entry);
  EXPECT_EQ(driver().open(url("a"), store_update).code, status::no_entry);
  fill("a", "12345");
  EXPECT_EQ(driver().open(url("a"), {.write = true, .create = true, .exclusive = true}).code,
            status::exists);
  auto const kept = driver().open(url("a"), {.write = true, .create = true});
  EXPECT_EQ(kept.stat.size, 5u);
  EXPECT_EQ(driver().close(kept.file).code, status::ok);
  auto const emptied = driver().open(url("a"), {.write = true, .truncate = true});
  EXPECT_EQ(emptied.code, status::ok);
  EXPECT_EQ(emptied.stat.size, 0u);
  EXPECT_EQ(driver().close(emptied.file).code, status::ok);
  EXPECT_EQ(contents("a"), "");
  auto const made = driver().open(url("b"), {.write = true, .create = true, .exclusive = true});
  EXPECT_EQ(made.code, status::ok);
  EXPECT_EQ(driver().close(made.file).code, status::ok);
}

TEST_P(store_contract, malformed_operations_are_refused_at_post) {
  auto const refused = [&](seams::store_op op) {
    EXPECT_EQ(driver().queue->post(std::move(op)), status::invalid);
    EXPECT_EQ(driver().queue->pending_count(), 0u);
  };
  seams::store_op open;
  open.kind = seams::store_op_kind::open;
  open.url = url("a");
  refused(open);  // neither read nor write
  open.open_flags = {.read = true, .create = true};
  refused(open);
  open.open_flags = {.read = true, .write = true, .exclusive = true};
  refused(open);
  open.open_flags = store_read_only;
  open.url = "nosuch://x";
  refused(open);
  open.url = "";
  refused(open);
  open.url = url(std::string{"a\0b", 3});
  refused(open);
  seams::store_op read;
  read.file = 1;
  read.buffers = {{nullptr, 10}};
  refused(read);
  std::byte one;
  read.buffers = {{&one, 1}};
  read.offset = ~uint64_t{0};
  refused(read);
  seams::store_op truncate;
  truncate.kind = seams::store_op_kind::truncate;
  truncate.size = ~uint64_t{0};
  refused(truncate);
}

TEST_P(store_contract, handles_are_checked) {
  for (auto const kind : {seams::store_op_kind::close,
                          seams::store_op_kind::stat,
                          seams::store_op_kind::truncate,
                          seams::store_op_kind::sync}) {
    EXPECT_EQ(driver().on_file(kind, seams::no_store_file).code, status::bad_file);
    EXPECT_EQ(driver().on_file(kind, 987654).code, status::bad_file);
  }
  EXPECT_EQ(driver().read(seams::no_store_file, 0, 1, status::bad_file), "");
  EXPECT_EQ(driver().write(seams::no_store_file, 0, "x").code, status::bad_file);
  fill("a", "12345");
  auto const file = driver().must_open(url("a"), store_read_only);
  EXPECT_EQ(driver().write(file, 0, "x").code, status::bad_file);
  EXPECT_EQ(driver().on_file(seams::store_op_kind::truncate, file, 1).code, status::bad_file);
  EXPECT_EQ(driver().on_file(seams::store_op_kind::sync, file).code, status::ok);
  EXPECT_EQ(driver().close(file).code, status::ok);
  EXPECT_EQ(driver().close(file).code, status::bad_file);
  EXPECT_EQ(driver().read(file, 0, 1, status::bad_file), "");
  EXPECT_EQ(contents("a"), "12345");
}

TEST_P(store_contract, reads_are_short_at_the_end_only) {
  fill("a", "0123456789");
  auto const file = driver().must_open(url("a"), store_read_only);
  EXPECT_EQ(driver().read(file, 4, 100), "456789");
  EXPECT_EQ(driver().read(file, 10, 100), "");
  EXPECT_EQ(driver().read(file, 1'000'000, 100), "");
  EXPECT_EQ(driver().read(file, 3, 0), "");
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, scatters_and_gathers) {
  auto text = store_pattern(10'000, 1);
  auto const file = driver().must_open(url("a"), store_make);
  std::vector<seams::store_buffer> pieces;
  auto *at = reinterpret_cast<std::byte *>(text.data());
  for (size_t size : {1u, 0u, 4096u, 3u, 5900u}) {
    pieces.push_back({at, size});
    at += size;
  }
  auto const written = driver().transfer(seams::store_op_kind::write, file, 5, pieces);
  EXPECT_EQ(written.code, status::ok);
  EXPECT_EQ(written.size, 10'000u);
  std::string back(12'000, '?');
  at = reinterpret_cast<std::byte *>(back.data());
  auto const read =
      driver().transfer(seams::store_op_kind::read,
                        file,
                        0,
                        {{at, 2}, {at + 2, 3}, {at + 5, 7000}, {at + 7005, 0}, {at + 7005, 4995}});
  EXPECT_EQ(read.code, status::ok);
  EXPECT_EQ(read.size, 10'005u);
  EXPECT_EQ(back.substr(0, 5), std::string(5, '\0'));
  EXPECT_EQ(back.substr(5, 10'000), text);
  EXPECT_EQ(back.substr(10'005), std::string(1995, '?'));
  EXPECT_EQ(driver().close(file).code, status::ok);
}

// Small and large buffers in turn, and more small ones than a store may read together.
TEST_P(store_contract, buffers_apart_get_their_own_bytes) {
  constexpr size_t gap = 16;
  std::vector<size_t> sizes{1, 4096, 300'000, 100'000, 70'000};
  for (size_t i = 0; i < 20; i++)
    sizes.push_back(65'536 + i);
  sizes.insert(sizes.end(), {1'200'000, 5, 4096, 4096});
  size_t const total = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  auto const text = store_pattern(total - 5000, 7);  // it ends in the last buffer but one
  fill("a", text);
  std::string back(total + gap * sizes.size(), '?'), expected;
  std::vector<seams::store_buffer> pieces;
  for (size_t const size : sizes) {
    pieces.push_back({reinterpret_cast<std::byte *>(back.data()) + expected.size(), size});
    size_t const begin = expected.size() - gap * (pieces.size() - 1);
    std::string const part = begin < text.size() ? text.substr(begin, size) : std::string{};
    expected += part + std::string(size - part.size() + gap, '?');
  }
  auto const file = driver().open(url("a"), store_read_only).file;
  auto const read = driver().transfer(seams::store_op_kind::read, file, 0, pieces);
  EXPECT_EQ(read.code, status::ok);
  EXPECT_EQ(read.size, text.size());
  EXPECT_TRUE(back == expected);
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, thousands_of_buffers_in_one_operation) {
  auto text = store_pattern(3000 * 7, 2);
  std::vector<seams::store_buffer> pieces;
  for (size_t i = 0; i < 3000; i++)
    pieces.push_back({reinterpret_cast<std::byte *>(text.data()) + i * 7, 7});
  auto const file = driver().must_open(url("a"), store_make);
  EXPECT_EQ(driver().transfer(seams::store_op_kind::write, file, 0, pieces).size, text.size());
  auto const expected = text;
  std::fill(text.begin(), text.end(), '?');
  EXPECT_EQ(driver().transfer(seams::store_op_kind::read, file, 0, pieces).size, text.size());
  EXPECT_EQ(text, expected);
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, big_aligned_transfers) {
  constexpr size_t size = 6 << 20;
  auto const text = store_pattern(size + 1000, 3);
  fill("a", text);
  auto const opened = driver().open(url("a"), store_read_only);
  EXPECT_EQ(opened.stat.size, size + 1000);
  std::unique_ptr<std::byte, void (*)(void *)> const memory{
      static_cast<std::byte *>(std::aligned_alloc(4096, size + 4096)), std::free};
  auto const read =
      driver().transfer(seams::store_op_kind::read,
                        opened.file,
                        0,
                        {{memory.get(), size / 2}, {memory.get() + size / 2, size / 2 + 4096}});
  EXPECT_EQ(read.code, status::ok);
  ASSERT_EQ(read.size, size + 1000);
  EXPECT_EQ(std::memcmp(memory.get(), text.data(), size + 1000), 0);
  auto const later = driver().transfer(
      seams::store_op_kind::read, opened.file, 1 << 20, {{memory.get(), 2 << 20}});
  EXPECT_EQ(later.size, size_t{2} << 20);
  EXPECT_EQ(std::memcmp(memory.get(), text.data() + (1 << 20), 2 << 20), 0);
  EXPECT_EQ(driver().close(opened.file).code, status::ok);
}

TEST_P(store_contract, holes_read_as_zeros) {
  auto const file = driver().must_open(url("a"), store_make);
  EXPECT_EQ(driver().write(file, 1'000'000, "end").code, status::ok);
  EXPECT_EQ(driver().stat(file).size, 1'000'003u);
  EXPECT_EQ(driver().read(file, 0, 2'000'000), std::string(1'000'000, '\0') + "end");
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, truncate_cuts_and_extends_with_zeros) {
  auto const file = driver().must_open(url("a"), store_make);
  EXPECT_EQ(driver().write(file, 0, std::string(300'000, 'x')).code, status::ok);
  EXPECT_EQ(driver().on_file(seams::store_op_kind::truncate, file, 10).code, status::ok);
  EXPECT_EQ(driver().stat(file).size, 10u);
  EXPECT_EQ(driver().on_file(seams::store_op_kind::truncate, file, 290'000).code, status::ok);
  EXPECT_EQ(driver().stat(file).size, 290'000u);
  EXPECT_EQ(driver().read(file, 0, 400'000), std::string(10, 'x') + std::string(289'990, '\0'));
  EXPECT_EQ(driver().on_file(seams::store_op_kind::truncate, file, 0).code, status::ok);
  EXPECT_EQ(driver().read(file, 0, 10), "");
  EXPECT_EQ(driver().close(file).code, status::ok);
  EXPECT_EQ(contents("a"), "");
}

TEST_P(store_contract, sync_and_close_publish) {
  auto const file = driver().must_open(url("a"), store_make);
  EXPECT_EQ(driver().write(file, 0, "published").code, status::ok);
  EXPECT_EQ(driver().on_file(seams::store_op_kind::sync, file).code, status::ok);
  EXPECT_EQ(driver().close(file).code, status::ok);
  auto const opened = driver().open(url("a"), store_read_only);
  EXPECT_EQ(opened.stat.size, 9u);
  EXPECT_EQ(driver().close(opened.file).code, status::ok);
}

TEST_P(store_contract, unlink_removes_the_name_and_not_the_open_file) {
  fill("a", "still here");
  auto const file = driver().must_open(url("a"), store_read_only);
  EXPECT_EQ(driver().on_name(seams::store_op_kind::unlink, url("a")).code, status::ok);
  EXPECT_EQ(driver().on_name(seams::store_op_kind::unlink, url("a")).code, status::no_entry);
  EXPECT_EQ(driver().open(url("a"), store_read_only).code, status::no_entry);
  EXPECT_EQ(driver().read(file, 0, 100), "still here");
  EXPECT_EQ(driver().close(file).code, status::ok);
}

TEST_P(store_contract, versions_tell_every_change) {
  std::set<uint64_t> seen;
  auto const settle = [&] {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    for (;;) {
      auto const opened = driver().open(url("a"), store_read_only);
      EXPECT_EQ(driver().close(opened.file).code, status::ok);
      if (opened.stat.is_version_stable)
        return opened.stat.version;
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "the version does not settle";
        return opened.stat.version;
      }
      subject_->idle();
    }
  };
  fill("a", "one");
  EXPECT_TRUE(seen.insert(settle()).second);
  auto const same = settle();
  EXPECT_TRUE(seen.contains(same)) << "it changed though nobody wrote";
  auto file = driver().must_open(url("a"), store_update);
  EXPECT_EQ(driver().write(file, 0, "two").code, status::ok);  // of the same size
  EXPECT_EQ(driver().close(file).code, status::ok);
  EXPECT_TRUE(seen.insert(settle()).second);
  file = driver().must_open(url("a"), store_update);
  EXPECT_EQ(driver().on_file(seams::store_op_kind::truncate, file, 2).code, status::ok);
  EXPECT_EQ(driver().close(file).code, status::ok);
  EXPECT_TRUE(seen.insert(settle()).second);
  EXPECT_EQ(driver().on_name(seams::store_op_kind::unlink, url("a")).code, status::ok);
  fill("a", "tw");  // created again with the same bytes
  EXPECT_TRUE(seen.insert(settle()).second);
}

// Reads that would wait stay undone.
TEST_P(store_contract, reads_of_many_ranges_at_once) {
  std::string text;
  for (int i = 0; text.size() < 10'000; i++)
    text += std::to_string(i) + ' ';
  fill("ranges", text);
  auto const file = driver().must_open(url("ranges"), {.read = true});
  std::vector<std::string> buffers;
  std::vector<seams::store_read> reads;
  size_t const size = text.size();
  for (size_t const offset : {size_t{9'000}, size_t{0}, size_t{5'001}, size - 7, size + 100})
    reads.push_back({offset, {}});
  for (size_t i = 0; i < reads.size(); i++)
    buffers.emplace_back(100, '?');
  for (size_t i = 0; i < reads.size(); i++)
    reads[i].buffer = {reinterpret_cast<std::byte *>(buffers[i].data()), buffers[i].size()};
  driver().queue->try_read_each(file, reads);
  for (size_t i = 0; i < reads.size(); i++) {
    if (!reads[i].is_done)
      continue;
    EXPECT_EQ(reads[i].code, status::ok);
    std::string const expected =
        reads[i].offset < text.size() ? text.substr(reads[i].offset, 100) : std::string{};
    EXPECT_EQ(buffers[i].substr(0, reads[i].size), expected) << "at " << reads[i].offset;
  }
  EXPECT_EQ(driver().close(file).code, status::ok);
  for (seams::store_read &read : reads)
    read.is_done = false;
  driver().queue->try_read_each(file, reads);
  for (seams::store_read const &read : reads)
    EXPECT_TRUE(!read.is_done || read.code != status::ok) << "the file is closed";
}

TEST_P(store_contract, lists_a_folder_with_sizes) {
  std::string const folder = url("");
  seams::store_list_limits limits{
      .deadline_ns = seams::deadline_after(subject_->time().now_ns(), 30'000'000'000),
      .entry_count_max = 3,
      .has_sizes = true};
  if (!folder.ends_with('/'))
    GTEST_SKIP() << "the subject's files are in no folder";
  auto const list = [&] {
    auto listed = seams::store_list(subject_->store(), subject_->time(), folder, limits);
    return listed.ok() ? std::move(listed).value() : std::vector<seams::store_entry>{};
  };
  EXPECT_TRUE(list().empty());
  fill("size_b", "12345");
  fill("size_a", "");
  auto const entries = list();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].url, url("size_a"));
  EXPECT_EQ(entries[0].size, 0u);
  EXPECT_EQ(entries[1].url, url("size_b"));
  EXPECT_EQ(entries[1].size, 5u);
  EXPECT_FALSE(entries[1].is_folder);
  limits.has_sizes = false;
  EXPECT_EQ(list()[1].size, seams::store_size_unknown);
  limits.entry_count_max = 1;
  auto const refused = seams::store_list(subject_->store(), subject_->time(), folder, limits);
  EXPECT_EQ(refused.ok() ? status::ok : refused.error(), status::overflow);
}

TEST_P(store_contract, lists_names_one_level_deep) {
  EXPECT_TRUE(driver().on_name(seams::store_op_kind::list, url("")).names.empty());
  for (auto const *name : {"list_b", "list_a", "other"})
    fill(name, "x");
  auto const all = driver().on_name(seams::store_op_kind::list, url(""));
  EXPECT_EQ(all.code, status::ok);
  EXPECT_EQ(all.names, (std::vector<std::string>{url("list_a"), url("list_b"), url("other")}));
  auto const some = driver().on_name(seams::store_op_kind::list, url("list_"));
  EXPECT_EQ(some.names, (std::vector<std::string>{url("list_a"), url("list_b")}));
  auto const none = driver().on_name(seams::store_op_kind::list, url("nothing/below"));
  EXPECT_EQ(none.code, status::ok);
  EXPECT_TRUE(none.names.empty());
}

}  // namespace tanada::contract
