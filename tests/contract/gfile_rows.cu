// gread_rows: rows of a file by their numbers, for each kind of group.
#include "gfile_support.cuh"

#include <fcntl.h>

namespace gfile_contract {
namespace {

using tanada::this_block;
using tanada::this_thread;
using tanada::this_warp;

struct rows_task {
  text url;
  u64 count, row_size;
  u32 seed;
};

// Each group gathers the whole list to memory of its own.
template <class Group>
TND_KERNEL void check_rows(
    gfile_ref files, rows_task task, const u64 *rows, u8 *buffer, verdict *to) {
  Group const group{};
  u64 const total = task.count * task.row_size;
  u8 *const mine = buffer + group_rank<Group>() * total;
  int fd = -1;
  status const opened = gopen(group, files, task.url.bytes, O_RDONLY, &fd);
  if (group.rank() == 0)
    note(to, opened);
  if (opened != status::ok)
    return;
  tanada::gio_result const read =
      gread_rows(group, files, fd, mine, rows, task.count, task.row_size);
  if (group.rank() == 0)
    note(to, read.status == status::ok && read.size != total ? status::range : read.status);
  for (u64 i = group.rank(); i < read.size; i += group.size()) {
    u64 const offset = rows[i / task.row_size] * task.row_size + i % task.row_size;
    if (mine[i] != pattern(offset, task.seed))
      (void)tanada::simt::device_atomic<u32>(to->bad_bytes).fetch_add_relaxed(1);
  }
  group.sync();
  status const closed = gclose(group, files, fd);
  if (group.rank() == 0)
    note(to, closed);
}

// Numbers below `limit` that repeat; a third of them lie close together.
std::vector<u64> some_rows(u64 count, u64 limit) {
  std::vector<u64> rows(count);
  u64 state = 12345;
  for (u64 i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    rows[i] = i % 3 == 2 ? (rows[i - 1] + 1) % limit : (state >> 33) % limit;
  }
  return rows;
}

template <class Group>
void expect_rows(
    instance &on, const rows_task &task, const std::vector<u64> &rows, u32 blocks, u32 threads) {
  u64 const group_size = std::is_same_v<Group, this_thread> ? 1
                         : std::is_same_v<Group, this_warp> ? 32
                                                            : threads;
  u64 const groups = blocks * ((threads + group_size - 1) / group_size);
  examples::device_array<u64> list(rows);
  examples::device_array<u8> buffer(groups * task.count * task.row_size);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(dim3{blocks, 1, 1},
                       dim3{threads, 1, 1},
                       check_rows<Group>,
                       on.ref(),
                       task,
                       list.data(),
                       buffer.data(),
                       to.data());
  ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
  verdict const result = to.to_host()[0];
  EXPECT_EQ(result.failures, 0u) << "first: " << tnd_status_name(int(result.first_status)) << " on "
                                 << task.url.bytes << ", rows of " << task.row_size;
  EXPECT_EQ(result.bad_bytes, 0u) << task.url.bytes << ", rows of " << task.row_size;
}

constexpr u64 file_size = 1'000'003;

void write_rows_file(instance &on, const std::string &url, u32 seed) {
  run(on, write_file<this_block>, {url, O_WRONLY | O_CREAT, file_size, 65536, seed}, 2, 64);
}

TEST(gfile_rows, come_in_the_order_of_the_list) {
  for (const std::string &prefix : store_prefixes())
    for (u64 const row_size : {4ull, 256ull, 1000ull, 4096ull, 10'000ull}) {
      instance on;
      std::string const url = prefix + "rows";
      write_rows_file(on, url, 3);
      u64 const limit = file_size / row_size;
      expect_rows<this_block>(on, {url, 200, row_size, 3}, some_rows(200, limit), 3, 96);
      expect_rows<this_warp>(on, {url, 70, row_size, 3}, some_rows(70, limit), 2, 64);
      expect_rows<this_thread>(on, {url, 9, row_size, 3}, some_rows(9, limit), 1, 8);
    }
}

// The last warp of a block is not whole, and there are fewer rows than warps.
TEST(gfile_rows, groups_and_lists_of_odd_sizes) {
  instance on;
  std::string const url = store_prefixes()[0] + "odd-rows";
  write_rows_file(on, url, 4);
  for (u32 const threads : {1u, 33u, 100u, 256u})
    for (u64 const count : {0ull, 1ull, 2ull, 31ull, 33ull, 65ull})
      expect_rows<this_block>(on, {url, count, 512, 4}, some_rows(count, 1900), 2, threads);
}

// More rows are requested than the tiers have pages.
TEST(gfile_rows, tiers_may_be_smaller_than_a_call) {
  instance on{[](tnd_gfile_config &config) {
    config.device_tier_size = 16 * 4096;
    config.host_tier_size = 32 * 4096;
  }};
  for (const std::string &prefix : store_prefixes()) {
    std::string const url = prefix + "small-tiers";
    write_rows_file(on, url, 5);
    expect_rows<this_block>(on, {url, 500, 1024, 5}, some_rows(500, 970), 4, 128);
    expect_rows<this_warp>(on, {url, 100, 9000, 5}, some_rows(100, 110), 4, 64);
  }
}

TEST(gfile_rows, of_one_page_are_read_once) {
  instance on;
  std::string const url = store_prefixes()[0] + "one-page";
  {
    instance writer;
    write_rows_file(writer, url, 6);
  }
  std::vector<u64> rows(400);
  for (u64 i = 0; i < rows.size(); i++)
    rows[i] = 64 + i * 7 % 64;  // of the pages 4 to 7
  expect_rows<this_block>(on, {url, rows.size(), 256, 6}, rows, 1, 256);
  EXPECT_LE(on.statistics().store_read_size, 64u * 4096) << "with what is read ahead";
  EXPECT_GE(on.statistics().device_hits, rows.size() / 2);
}

// Of files whose bytes are in memory, a warp requests the pages of many rows together, and the
// pages come into the device tier.
TEST(gfile_rows, of_many_pages_are_requested_together) {
  std::vector<u64> rows(192);
  for (u64 i = 0; i < rows.size(); i++)
    rows[i] = i * 37 % 244;
  for (u32 i = 0; i < 2; i++) {
    std::string const url = store_prefixes()[i] + "many-pages";
    {
      instance writer;
      write_rows_file(writer, url, 9);
    }
    instance on{[](tnd_gfile_config &config) {
      config.device_tier_size = 1024 * 4096;
    }};
    rows_task const task{url, rows.size(), 4096, 9};
    expect_rows<this_block>(on, task, rows, 1, 96);
    u64 const requests = on.statistics().requests;
    EXPECT_LE(requests, rows.size() / 32 + 8) << url;
    EXPECT_EQ(on.statistics().misses, rows.size()) << url;
    if (i != 0)
      continue;  // the file is so new that its version is not trusted: its pages are read again
    expect_rows<this_block>(on, task, rows, 1, 96);
    EXPECT_LE(on.statistics().requests, requests + 4) << url;
  }
}

// A page at the end of the file is not whole, and rows lie across pages.
TEST(gfile_rows, of_many_pages_to_the_end_of_the_file) {
  instance on{[](tnd_gfile_config &config) {
    config.page_size = 8192;
  }};
  for (u32 i = 0; i < 2; i++) {
    std::string const url = store_prefixes()[i] + "last-pages";
    write_rows_file(on, url, 10);
    for (u64 const row_size : {1ull, 999ull, 8192ull, 30'000ull, 500'000ull}) {
      u64 const limit = file_size / row_size;
      std::vector<u64> rows(40);
      for (u64 k = 0; k < rows.size(); k++)
        rows[k] = limit - 1 - k * k % limit;
      expect_rows<this_warp>(on, {url, rows.size(), row_size, 10}, rows, 2, 64);
    }
  }
}

// Small rows of a mapped file are copied from its own pages. What is read often comes into the
// device tier.
TEST(gfile_rows, of_mapped_files) {
  memory_file const memory{300'001, 8};
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // see gfile_mapped
  instance on;
  file_task const task{memory.url(), O_RDONLY, 300'001, 9000, 8};
  ASSERT_EQ(read_until(on, task, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
  u64 const misses = on.statistics().misses, mapped_copies = on.statistics().mapped_copies;
  for (u64 const row_size : {100ull, 1000ull, 4096ull, 9000ull})
    expect_rows<this_block>(
        on, {memory.url(), 300, row_size, 8}, some_rows(300, 300'001 / row_size), 2, 96);
  expect_rows<this_warp>(on, {memory.url(), 50, 1000, 8}, some_rows(50, 300), 1, 64);
  EXPECT_EQ(on.statistics().misses, misses);
  EXPECT_GT(on.statistics().mapped_copies, mapped_copies);
  u64 const hits = on.statistics().device_hits;
  expect_rows<this_block>(on, {memory.url(), 2000, 1024, 8}, some_rows(2000, 8), 1, 96);
  EXPECT_GT(on.statistics().device_hits - hits, 1000u) << "of 2 pages";
}

enum rows_call : u32 {
  past_end,
  half_row,
  huge_number,
  no_size,
  no_list,
  no_buffer,
  nothing,
  too_large,
  closed_file,
  after_all,
  rows_call_count
};

template <class Group>
TND_KERNEL void call_rows_badly(
    gfile_ref files, rows_task task, u64 *rows, u8 *buffer, int *codes) {
  Group const group{};
  auto const set = [&](rows_call which, tanada::gio_result result) {
    bool const has_size = (result.status == status::ok) == (result.size != 0) || which == nothing;
    if (group.rank() == 0)
      codes[which] = has_size ? int(result.status) : -1;
  };
  // The list is [good..., bad]: a row past the end, the last one, which is not whole, and a number
  // whose offset overflows.
  u64 const last = task.count - 1;
  int fd = -1;
  (void)gopen(group, files, task.url.bytes, O_RDONLY, &fd);
  u64 const bad[] = {file_size / task.row_size + 5, file_size / task.row_size, ~u64{0} / 2};
  for (u32 i = 0; i < 3; i++) {
    group.sync();
    if (group.rank() == 0)
      rows[last] = bad[i];
    group.sync();
    set(rows_call(past_end + i),
        gread_rows(group, files, fd, buffer, rows, task.count, task.row_size));
  }
  set(no_size, gread_rows(group, files, fd, buffer, rows, last, 0));
  set(no_list, gread_rows(group, files, fd, buffer, nullptr, last, task.row_size));
  set(no_buffer, gread_rows(group, files, fd, nullptr, rows, last, task.row_size));
  set(nothing, gread_rows(group, files, fd, buffer, rows, 0, task.row_size));
  set(too_large, gread_rows(group, files, fd, buffer, rows, last, ~u64{0} / 2));
  (void)gclose(group, files, fd);
  set(closed_file, gread_rows(group, files, fd, buffer, rows, last, task.row_size));
  (void)gopen(group, files, task.url.bytes, O_RDONLY, &fd);
  set(after_all, gread_rows(group, files, fd, buffer, rows, last, task.row_size));
  (void)gclose(group, files, fd);
}

template <class Group>
void expect_bad_rows(u32 threads) {
  instance on;
  std::string const url = store_prefixes()[0] + "bad-rows";
  write_rows_file(on, url, 7);
  constexpr u64 count = 101, row_size = 1000;
  examples::device_array<u64> list(some_rows(count, file_size / row_size));
  examples::device_array<u8> buffer(count * row_size);
  examples::device_array<int> codes(rows_call_count);
  tanada::simt::launch(dim3{1, 1, 1},
                       dim3{threads, 1, 1},
                       call_rows_badly<Group>,
                       on.ref(),
                       rows_task{url, count, row_size, 7},
                       list.data(),
                       buffer.data(),
                       codes.data());
  ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
  std::vector<int> const results = codes.to_host();
  auto const expect = [&](rows_call which, status code) {
    EXPECT_EQ(results[which], int(code)) << which << ": " << tnd_status_name(results[which]);
  };
  expect(past_end, status::range);
  expect(half_row, status::range);
  expect(huge_number, status::range);
  expect(no_size, status::invalid);
  expect(no_list, status::fault);
  expect(no_buffer, status::fault);
  expect(nothing, status::ok);
  expect(too_large, status::invalid);
  expect(closed_file, status::bad_file);
  expect(after_all, status::ok);
  tnd_gfile_fault const first = on.fault();
  EXPECT_EQ(first.status, tnd_status(int(status::range)));
  EXPECT_EQ(first.words[1], (file_size / row_size + 5) * row_size) << "the row's offset";
  EXPECT_STREQ(first.url, url.c_str());
}

TEST(gfile_rows, bad_arguments_return_the_documented_status) {
  expect_bad_rows<this_block>(160);
  expect_bad_rows<this_warp>(32);
  expect_bad_rows<this_thread>(1);
}

// A gread_rows after a gwrite returns what was written, also of pages that were resident.
TEST(gfile_rows, show_what_was_written_before) {
  instance on;
  std::string const url = store_prefixes()[1] + "written-rows";
  for (u32 seed = 1; seed < 6; seed++) {
    write_rows_file(on, url, seed);
    expect_rows<this_block>(on, {url, 300, 512, seed}, some_rows(300, 1950), 2, 128);
  }
}

}  // namespace
}  // namespace gfile_contract
