// gfile as its users meet it: kernels against real stores, on the host executor and, compiled by
// nvcc, on a GPU.
#include "gfile_support.cuh"

#include <fcntl.h>

namespace gfile_contract {
namespace {

using tanada::this_block;
using tanada::this_thread;
using tanada::this_warp;

constexpr int create_flags = O_RDWR | O_CREAT | O_TRUNC;

struct tiers {
  u32 page_size;
  u64 device_pages, host_pages;
  u32 replacement;
};

class round_trip : public testing::TestWithParam<tiers> {};

template <class Group>
void write_and_check(
    instance &on, const std::string &url, u64 size, u64 chunk_size, u32 blocks, u32 threads) {
  file_task const task{url, O_WRONLY | O_CREAT, size, chunk_size, 17};
  run(on, write_file<Group>, task, blocks, threads);
  run(on, check_file<Group>, task, blocks, threads);
}

TEST_P(round_trip, of_every_group_through_tiers_of_every_size) {
  static tiers shape;
  shape = GetParam();
  for (const std::string &prefix : store_prefixes()) {
    instance on{[](tnd_gfile_config &config) {
      config.page_size = shape.page_size;
      config.device_tier_size = shape.device_pages * shape.page_size;
      config.host_tier_size = shape.host_pages * shape.page_size;
      config.replacement = shape.replacement;
      config.service_threads = 2;
    }};
    u64 const size = u64(shape.page_size) * (shape.page_size > 65536 ? 2 : 11) + 1234;
    write_and_check<this_block>(on, prefix + "block", size, 3000, 8, 64);
    write_and_check<this_warp>(on, prefix + "warp", size, shape.page_size, 4, 64);
    write_and_check<this_thread>(on, prefix + "thread", size, shape.page_size / 2 + 5, 2, 16);
  }
}

INSTANTIATE_TEST_SUITE_P(sizes,
                         round_trip,
                         testing::Values(tiers{4096, 1, 1, TND_GFILE_FIFO},
                                         tiers{4096, 1, 64, TND_GFILE_LRU},
                                         tiers{4096, 64, 1, TND_GFILE_CLOCK},
                                         tiers{4096, 4, 4, TND_GFILE_LRU},
                                         tiers{4096, 5, 17, TND_GFILE_CLOCK},
                                         tiers{65536, 8, 16, TND_GFILE_FIFO},
                                         tiers{2u << 20, 2, 3, TND_GFILE_LRU}));

TEST(gfile_progress, sixty_four_blocks_on_four_frames_finish) {
  for (u32 policy : {TND_GFILE_FIFO, TND_GFILE_LRU, TND_GFILE_CLOCK}) {
    static u32 replacement;
    replacement = policy;
    instance on{[](tnd_gfile_config &config) {
      config.device_tier_size = 4 * 4096;
      config.host_tier_size = 4 * 4096;
      config.replacement = replacement;
    }};
    file_task const task{store_prefixes()[0] + "many", create_flags, 200 * 4096 + 9, 9000, 3};
    run(on,
        write_file<this_block>,
        {task.url, O_WRONLY | O_CREAT, task.size, task.chunk_size, 3},
        64,
        32);
    run(on, check_file<this_block>, task, 64, 32);
    EXPECT_GT(on.statistics().uncached_transfers + on.statistics().evictions, 0u);
  }
}

// ---- ranges: any offset, any alignment of the buffer

struct range_task {
  file_task file;
  u64 seed;
  u32 rounds;
};

template <class Group>
TND_KERNEL void read_ranges(gfile_ref files, range_task task, u8 *scratch, verdict *to) {
  Group const group{};
  u64 state = task.seed + group_rank<Group>() * 0x9E3779B97F4A7C15ull + 1;
  u8 *const mine = scratch + group_rank<Group>() * (task.file.chunk_size + 64);
  int fd = -1;
  status const opened = gopen(group, files, task.file.url.bytes, O_RDONLY, &fd);
  if (group.rank() == 0)
    note(to, opened);
  if (opened != status::ok)
    return;
  for (u32 round = 0; round < task.rounds; round++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    u64 const offset = (state >> 20) % (task.file.size + 100),
              size = (state >> 33) % task.file.chunk_size;
    u8 *const buffer = mine + (state >> 60);
    for (u64 i = group.rank(); i < size + 1; i += group.size())
      buffer[i] = 0xEE;
    group.sync();
    tanada::gio_result const read = gread(group, files, fd, buffer, offset, size);
    u64 const rest = offset >= task.file.size ? 0 : task.file.size - offset;
    if (group.rank() == 0)
      note(to, read.size == (size < rest ? size : rest) ? read.status : status::range);
    for (u64 i = group.rank(); i < read.size; i += group.size())
      if (buffer[i] != pattern(offset + i, task.file.seed))
        (void)tanada::simt::device_atomic<u32>(to->bad_bytes).fetch_add_relaxed(1);
    // Nothing is written past the bytes that were read.
    if (group.rank() == 0 && buffer[read.size] != 0xEE)
      note(to, status::fault);
    group.sync();
  }
  status const closed = gclose(group, files, fd);
  if (group.rank() == 0)
    note(to, closed);
}

TEST(gfile_ranges, any_offset_and_any_alignment) {
  for (const std::string &prefix : store_prefixes()) {
    instance on;
    file_task const task{prefix + "ranges", O_WRONLY | O_CREAT, 300'000, 10'000, 5};
    run(on, write_file<this_block>, task, 4, 64);
    u32 const blocks = 6, threads = 64;
    examples::device_array<u8> scratch(blocks * threads * (task.chunk_size + 64));
    examples::device_array<verdict> to(1);
    auto const launch = [&](auto kernel, u32 rounds) {
      tanada::simt::launch(dim3{blocks, 1, 1},
                           dim3{threads, 1, 1},
                           kernel,
                           on.ref(),
                           range_task{task, 99, rounds},
                           scratch.data(),
                           to.data());
      ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
    };
    launch(read_ranges<this_block>, 60);
    launch(read_ranges<this_warp>, 60);
    launch(read_ranges<this_thread>, 3);
    verdict const seen = to.to_host()[0];
    EXPECT_EQ(seen.failures, 0u) << tnd_status_name(int(seen.first_status));
    EXPECT_EQ(seen.bad_bytes, 0u);
  }
}

// Threads write records of 23 bytes into an existing file: pages are read, merged and shared by
// many writers.
TND_KERNEL void write_records(gfile_ref files, file_task task, verdict *to) {
  int fd = -1;
  note(to, gopen(files, task.url.bytes, O_WRONLY, &fd));
  u64 const rank = tanada::simt::global_thread_rank();
  u8 record[23];
  for (u32 i = 0; i < sizeof record; i++)
    record[i] = pattern(rank * 46 + i, task.seed + 1);
  note(to, gwrite(files, fd, record, rank * 46, sizeof record).status);
  note(to, gclose(files, fd));
}

TND_KERNEL void check_records(gfile_ref files, file_task task, verdict *to) {
  int fd = -1;
  note(to, gopen(files, task.url.bytes, O_RDONLY, &fd));
  u64 const rank = tanada::simt::global_thread_rank();
  u8 bytes[46];
  note(to, gread(files, fd, bytes, rank * 46, sizeof bytes).status);
  for (u32 i = 0; i < 46; i++) {
    u64 const at = rank * 46 + i;
    if (bytes[i] != pattern(at, i < 23 ? task.seed + 1 : task.seed))
      (void)tanada::simt::device_atomic<u32>(to->bad_bytes).fetch_add_relaxed(1);
  }
  note(to, gclose(files, fd));
}

TEST(gfile_ranges, small_writes_by_many_threads_keep_what_lies_between) {
  for (const std::string &prefix : store_prefixes()) {
    u32 const blocks = 8, threads = 64;
    file_task const task{
        prefix + "records", O_WRONLY | O_CREAT, u64(blocks) * threads * 46, 4096, 40};
    {
      instance on;
      run(on, write_file<this_block>, task, 2, 64);
    }
    for (int fresh = 0; fresh < 2; fresh++) {  // with a cold cache, and as it then is
      instance on{[](tnd_gfile_config &config) {
        config.host_tier_size = 3 * 4096;
      }};
      examples::device_array<verdict> to(1);
      tanada::simt::launch(
          dim3{blocks, 1, 1}, dim3{threads, 1, 1}, write_records, on.ref(), task, to.data());
      tanada::simt::launch(
          dim3{blocks, 1, 1}, dim3{threads, 1, 1}, check_records, on.ref(), task, to.data());
      ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
      verdict const seen = to.to_host()[0];
      EXPECT_EQ(seen.failures, 0u) << tnd_status_name(int(seen.first_status));
      EXPECT_EQ(seen.bad_bytes, 0u) << prefix;
    }
  }
}

// ---- open and close

TND_KERNEL void open_by_all(gfile_ref files, text url, u32 *fds, verdict *to) {
  int fd = -1;
  note(to, gopen(files, url.bytes, O_RDONLY, &fd));
  fds[tanada::simt::global_thread_rank()] = u32(fd);
  u8 byte = 0;
  note(to, gread(files, fd, &byte, 1000, 1).status);
  if (byte != pattern(1000, 2))
    note(to, status::corrupt);
  note(to, gclose(files, fd));
}

TEST(gfile_open, many_threads_share_one_host_open) {
  instance on;
  file_task const task{store_prefixes()[0] + "shared", create_flags, 5000, 5000, 2};
  run(on, write_file<this_block>, task, 1, 32);
  u64 const before = on.statistics().requests;
  examples::device_array<u32> fds(32 * 64);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(
      dim3{32, 1, 1}, dim3{64, 1, 1}, open_by_all, on.ref(), task.url, fds.data(), to.data());
  ASSERT_EQ(on.wait(), TND_OK);
  verdict const seen = to.to_host()[0];
  EXPECT_EQ(seen.failures, 0u) << tnd_status_name(int(seen.first_status));
  // 2,048 opens, reads and closes; a block that starts late may find the file closed and open it
  // again.
  EXPECT_LT(on.statistics().requests - before, 300u);
}

TND_KERNEL void create_exclusively(gfile_ref files, text url, u32 *winners, verdict *to) {
  int fd = -1;
  status const code = gopen(files, url.bytes, O_WRONLY | O_CREAT | O_EXCL, &fd);
  if (code == status::ok) {
    (void)tanada::simt::device_atomic<u32>(*winners).fetch_add_relaxed(1);
    note(to, gclose(files, fd));
  } else if (code != status::exists) {
    note(to, code);
  }
}

TEST(gfile_open, exclusive_creation_has_one_winner) {
  for (const std::string &prefix : store_prefixes()) {
    instance on;
    examples::device_array<u32> winners(1);
    examples::device_array<verdict> to(1);
    tanada::simt::launch(dim3{4, 1, 1},
                         dim3{32, 1, 1},
                         create_exclusively,
                         on.ref(),
                         text{prefix + "exclusive"},
                         winners.data(),
                         to.data());
    ASSERT_EQ(on.wait(), TND_OK);
    EXPECT_EQ(winners.to_host()[0], 1u) << prefix;
    EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
  }
}

// ---- never stale

struct change_task {
  text url;
  u32 old_seed, new_seed;
};

// One block: truncate, extend, delete, create again; what is read is always what the file holds
// now.
TND_KERNEL void change_and_read(gfile_ref files, change_task task, u8 *buffer, verdict *to) {
  this_block const block{};
  auto const check = [&](bool right) {
    if (!right && block.rank() == 0)
      note(to, status::corrupt);
  };
  auto const expect_read = [&](int fd, u64 offset, u64 size, u32 seed, bool zeros) {
    tanada::gio_result const read = gread(block, files, fd, buffer, offset, size);
    check(read.status == status::ok && read.size == size);
    for (u64 i = 0; i < read.size; i++)
      if (buffer[i] != (zeros ? 0 : pattern(offset + i, seed)))
        check(false);
    block.sync();
  };
  auto const put = [&](int fd, u64 size, u32 seed) {
    for (u64 i = block.rank(); i < size; i += block.size())
      buffer[i] = pattern(i, seed);
    block.sync();
    check(gwrite(block, files, fd, buffer, 0, size).status == status::ok);
  };
  int fd = -1;
  check(gopen(block, files, task.url.bytes, create_flags, &fd) == status::ok);
  put(fd, 20'000, task.old_seed);
  expect_read(fd, 0, 20'000, task.old_seed, false);
  check(gftruncate(block, files, fd, 9'000) == status::ok);
  check(gfstat(block, files, fd).size == 9'000);
  expect_read(fd, 0, 9'000, task.old_seed, false);
  check(gread(block, files, fd, buffer, 9'000, 100).size == 0);
  check(gftruncate(block, files, fd, 30'000) == status::ok);
  expect_read(fd, 9'000, 21'000, 0, true);
  check(gclose(block, files, fd) == status::ok);
  check(gread(block, files, fd, buffer, 0, 1).status == status::bad_file);
  check(gunlink(block, files, task.url.bytes) == status::ok);
  check(gopen(block, files, task.url.bytes, O_RDONLY, &fd) == status::no_entry);
  check(gunlink(block, files, task.url.bytes) == status::no_entry);
  check(gopen(block, files, task.url.bytes, O_RDWR | O_CREAT, &fd) == status::ok);
  check(gfstat(block, files, fd).size == 0);
  put(fd, 20'000, task.new_seed);
  check(gfsync(block, files, fd) == status::ok);
  expect_read(fd, 0, 20'000, task.new_seed, false);
  // Another descriptor with other rights sees the same file.
  int reader = -1;
  check(gopen(block, files, task.url.bytes, O_RDONLY, &reader) == status::ok);
  expect_read(reader, 0, 20'000, task.new_seed, false);
  check(gfstat(block, files, reader).size == 20'000);
  check(gwrite(block, files, reader, buffer, 0, 1).status == status::bad_file);
  check(gclose(block, files, fd) == status::ok);
  expect_read(reader, 100, 5'000, task.new_seed, false);
  check(gclose(block, files, reader) == status::ok);
  check(gopen(block, files, task.url.bytes, O_WRONLY | O_TRUNC, &fd) == status::ok);
  check(gfstat(block, files, fd).size == 0);
  check(gclose(block, files, fd) == status::ok);
}

TEST(gfile_changes, truncated_deleted_and_recreated_files_are_never_stale) {
  for (const std::string &prefix : store_prefixes())
    for (u32 host_pages : {2u, 64u}) {
      static u32 pages;
      pages = host_pages;
      instance on{[](tnd_gfile_config &config) {
        config.host_tier_size = pages * 4096;
      }};
      examples::device_array<u8> buffer(32'000);
      examples::device_array<verdict> to(1);
      tanada::simt::launch(dim3{1, 1, 1},
                           dim3{32, 1, 1},
                           change_and_read,
                           on.ref(),
                           change_task{prefix + "change" + std::to_string(host_pages), 1, 77},
                           buffer.data(),
                           to.data());
      ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
      EXPECT_EQ(to.to_host()[0].failures, 0u) << prefix << " fault site " << on.fault().site << " "
                                              << tnd_status_name(on.fault().status);
    }
}

TEST(gfile_changes, made_by_others_are_seen_at_the_next_open) {
  std::string const url = store_prefixes()[1] + "outside", path = url.substr(7);
  instance on;
  for (u32 seed : {1u, 2u, 3u, 4u}) {
    std::ofstream out{path, std::ios::binary | std::ios::trunc};
    for (u64 i = 0; i < 40'000; i++)
      out.put(char(pattern(i, seed)));
    out.close();
    run(on, check_file<this_block>, {url, O_RDONLY, 40'000, 7'000, seed}, 3, 32);
  }
}

TND_KERNEL void open_and_leave(gfile_ref files, text url, verdict *to) {
  int fd = -1;
  u8 byte = 0;
  note(to, gopen(files, url.bytes, O_RDONLY, &fd));
  note(to, gread(files, fd, &byte, 0, 1).status);
}

TND_KERNEL void check_by_writer(gfile_ref files, file_task task, verdict *to) {
  int fd = -1;
  u8 byte = 0;
  note(to, gopen(files, task.url.bytes, O_RDWR, &fd));
  if (gfstat(files, fd).size != task.size)
    note(to, status::range);
  for (u64 at = 0; at < task.size; at += 97) {
    note(to, gread(files, fd, &byte, at, 1).status);
    to->bad_bytes += byte != pattern(at, task.seed);
  }
  note(to, gclose(files, fd));
}

TEST(gfile_changes, made_by_others_are_seen_by_an_open_for_writing_beside_a_reader) {
  std::string const url = store_prefixes()[1] + "beside", path = url.substr(7);
  auto const put = [&](u64 size, u32 seed) {
    std::ofstream out{path, std::ios::binary | std::ios::trunc};
    for (u64 i = 0; i < size; i++)
      out.put(char(pattern(i, seed)));
  };
  instance on;
  examples::device_array<verdict> to(1);
  put(5'000, 1);
  tanada::simt::launch(
      dim3{1, 1, 1}, dim3{1, 1, 1}, open_and_leave, on.ref(), text{url}, to.data());
  ASSERT_EQ(on.wait(), TND_OK);
  put(9'000, 2);
  tanada::simt::launch(dim3{1, 1, 1},
                       dim3{1, 1, 1},
                       check_by_writer,
                       on.ref(),
                       file_task{url, 0, 9'000, 0, 2},
                       to.data());
  ASSERT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
  EXPECT_EQ(to.to_host()[0].bad_bytes, 0u);
}

// One block writes and reads back the same bytes; another changes the file's size all the while,
// above them.
TND_KERNEL void read_own_writes(gfile_ref files, text url, u32 rounds, u32 *stop, verdict *to) {
  int fd = -1;
  note(to, gopen(files, url.bytes, O_RDWR | O_CREAT, &fd));
  if (tanada::simt::block_rank() == 0) {
    for (u64 i = 1; i <= rounds; i++) {
      u64 seen = 0;
      note(to, gwrite(files, fd, &i, 0, sizeof i).status);
      note(to, gread(files, fd, &seen, 0, sizeof seen).status);
      to->bad_bytes += seen != i;
    }
    tanada::simt::device_atomic<u32>(*stop).store_release(1);
  }
  for (u64 i = 1; tanada::simt::device_atomic<u32>(*stop).load_acquire() == 0; i++) {
    if (tanada::simt::block_rank() == 1)
      note(to, gftruncate(files, fd, 65536 + i));
    u64 any;
    note(to, gread(files, fd, &any, 0, sizeof any).status);
  }
  note(to, gclose(files, fd));
}

TEST(gfile_changes, a_thread_reads_what_it_wrote_while_others_truncate) {
  instance on;
  examples::device_array<u32> stop(1);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(dim3{4, 1, 1},
                       dim3{1, 1, 1},
                       read_own_writes,
                       on.ref(),
                       text{store_prefixes()[0] + "own"},
                       500u,
                       stop.data(),
                       to.data());
  ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
  EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
  EXPECT_EQ(to.to_host()[0].bad_bytes, 0u);
}

TEST(gfile_changes, what_kernels_wrote_is_in_the_file_after_the_close) {
  std::string const url = store_prefixes()[1] + "published", path = url.substr(7);
  instance on;
  run(on, write_file<this_warp>, {url, O_WRONLY | O_CREAT, 70'001, 5'000, 9}, 2, 64);
  std::ifstream in{path, std::ios::binary};
  std::string const bytes{std::istreambuf_iterator<char>{in}, {}};
  ASSERT_EQ(bytes.size(), 70'001u);
  for (u64 i = 0; i < bytes.size(); i++)
    ASSERT_EQ(u8(bytes[i]), pattern(i, 9)) << i;
}

}  // namespace
}  // namespace gfile_contract
