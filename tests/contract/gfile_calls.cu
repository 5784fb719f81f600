// Single calls of gfile: bad arguments, mapping, prefetch, faults, and the process's instance.
#include "gfile_support.cuh"

#include <fcntl.h>

namespace gfile_contract {

bool on_gpu() {
  return examples::on_gpu;
}

namespace {

using tanada::this_block;
using tanada::this_thread;
using tanada::this_warp;

// ---- bad arguments: the kernel stores the status of every call, the test compares it with a table

enum bad_call : u32 {
  open_empty,
  open_null,
  open_long,
  open_bad_flags,
  open_missing,
  open_unknown_scheme,
  open_null_fd,
  open_directory,
  read_closed,
  read_negative_fd,
  read_huge_fd,
  read_null,
  read_null_nothing,
  read_past_limit,
  read_write_only,
  write_read_only,
  write_closed,
  write_past_limit,
  write_overflow,
  write_null,
  close_closed,
  close_never,
  stat_closed,
  truncate_closed,
  truncate_read_only,
  truncate_past_limit,
  sync_closed,
  map_past_end,
  map_closed,
  unmap_null,
  unmap_middle,
  unmap_unpinned,
  prefetch_closed,
  unlink_missing,
  unlink_empty,
  bad_call_count
};

struct bad_task {
  text good, missing, unknown, directory, writable;
};

TND_KERNEL void call_badly(gfile_ref files, bad_task task, char *long_url, u8 *buffer, int *codes) {
  auto const set = [&](bad_call which, status code) {
    codes[which] = int(code);
  };
  int fd = -1, closed = -1, writer = -1;
  set(open_empty, gopen(files, "", O_RDONLY, &fd));
  set(open_null, gopen(files, nullptr, O_RDONLY, &fd));
  set(open_long, gopen(files, long_url, O_RDONLY, &fd));
  set(open_bad_flags, gopen(files, task.good.bytes, O_RDONLY | O_APPEND, &fd));
  set(open_missing, gopen(files, task.missing.bytes, O_RDONLY, &fd));
  set(open_unknown_scheme, gopen(files, task.unknown.bytes, O_RDONLY, &fd));
  set(open_null_fd, gopen(files, task.good.bytes, O_RDONLY, nullptr));
  set(open_directory, gopen(files, task.directory.bytes, O_RDONLY, &fd));
  status const opened = gopen(files, task.good.bytes, O_RDONLY, &fd);
  codes[bad_call_count] = int(opened);
  closed = fd;
  (void)gclose(files, fd);
  (void)gopen(files, task.good.bytes, O_RDONLY, &fd);
  (void)gopen(files, task.writable.bytes, O_WRONLY | O_CREAT, &writer);
  u64 const limit = u64(gpage_size(files)) << 36;
  set(read_closed, gread(files, closed, buffer, 0, 1).status);
  set(read_negative_fd, gread(files, -1, buffer, 0, 1).status);
  set(read_huge_fd, gread(files, 0x7fffffff, buffer, 0, 1).status);
  set(read_null, gread(files, fd, nullptr, 0, 1).status);
  set(read_null_nothing, gread(files, fd, nullptr, 0, 0).status);
  set(read_past_limit, gread(files, fd, buffer, limit + 1, 1).status);
  set(read_write_only, gread(files, writer, buffer, 0, 1).status);
  set(write_read_only, gwrite(files, fd, buffer, 0, 1).status);
  set(write_closed, gwrite(files, closed, buffer, 0, 1).status);
  set(write_past_limit, gwrite(files, writer, buffer, limit - 1, 2).status);
  set(write_overflow, gwrite(files, writer, buffer, ~u64{0} - 1, 8).status);
  set(write_null, gwrite(files, writer, nullptr, 0, 1).status);
  set(close_closed, gclose(files, closed));
  set(close_never, gclose(files, 12345678));
  set(stat_closed, gfstat(files, closed).status);
  set(truncate_closed, gftruncate(files, closed, 0));
  set(truncate_read_only, gftruncate(files, fd, 0));
  set(truncate_past_limit, gftruncate(files, writer, ~u64{0}));
  set(sync_closed, gfsync(files, closed));
  set(map_past_end, gmap(files, fd, 1u << 30).status);
  set(map_closed, gmap(files, closed, 0).status);
  set(unmap_null, gunmap(files, nullptr));
  tanada::gmap_result const page = gmap(files, fd, 0);
  set(unmap_middle, gunmap(files, page.bytes + 1));
  codes[bad_call_count + 1] = int(gunmap(files, page.bytes));
  set(unmap_unpinned, gunmap(files, page.bytes));
  set(prefetch_closed, gprefetch(files, closed, 0, 1));
  set(unlink_missing, gunlink(files, task.missing.bytes));
  set(unlink_empty, gunlink(files, ""));
  (void)gclose(files, fd);
  (void)gclose(files, writer);
}

TEST(gfile_calls, bad_arguments_return_the_documented_status) {
  std::string const file_prefix = store_prefixes()[1], prefix = store_prefixes()[0];
  instance on;
  run(on, write_file<this_block>, {prefix + "good", O_WRONLY | O_CREAT, 10'000, 10'000, 1}, 1, 32);
  bad_task const task{prefix + "good",
                      prefix + "missing",
                      std::string{"nosuch://x"},
                      file_prefix.substr(0, file_prefix.size() - 1),
                      prefix + "writable"};
  std::vector<char> long_url(2000, 'a');
  examples::device_array<char> url(long_url);
  examples::device_array<u8> buffer(64);
  examples::device_array<int> codes(bad_call_count + 2);
  tanada::simt::launch(dim3{1, 1, 1},
                       dim3{1, 1, 1},
                       call_badly,
                       on.ref(),
                       task,
                       url.data(),
                       buffer.data(),
                       codes.data());
  ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
  std::vector<int> const seen = codes.to_host();
  struct expectation {
    bad_call call;
    int code;
  };
  for (expectation const &want : std::initializer_list<expectation>{
           {open_empty, -EINVAL},        {open_null, -EFAULT},
           {open_long, -ENAMETOOLONG},   {open_bad_flags, -EINVAL},
           {open_missing, -ENOENT},      {open_unknown_scheme, -EINVAL},
           {open_null_fd, -EFAULT},      {open_directory, -EISDIR},
           {read_closed, -EBADF},        {read_negative_fd, -EBADF},
           {read_huge_fd, -EBADF},       {read_null, -EFAULT},
           {read_null_nothing, 0},       {read_past_limit, -EFBIG},
           {read_write_only, -EBADF},    {write_read_only, -EBADF},
           {write_closed, -EBADF},       {write_past_limit, -EFBIG},
           {write_overflow, -EFBIG},     {write_null, -EFAULT},
           {close_closed, -EBADF},       {close_never, -EBADF},
           {stat_closed, -EBADF},        {truncate_closed, -EBADF},
           {truncate_read_only, -EBADF}, {truncate_past_limit, -EFBIG},
           {sync_closed, -EBADF},        {map_past_end, -ERANGE},
           {map_closed, -EBADF},         {unmap_null, -EINVAL},
           {unmap_middle, -EINVAL},      {unmap_unpinned, -EINVAL},
           {prefetch_closed, -EBADF},    {unlink_missing, -ENOENT},
           {unlink_empty, -EINVAL}})
    EXPECT_EQ(seen[want.call], want.code)
        << "call " << want.call << ": " << tnd_status_name(seen[want.call]);
  EXPECT_EQ(seen[bad_call_count], TND_OK);
  EXPECT_EQ(seen[bad_call_count + 1], TND_OK);
  tnd_gfile_fault const fault = on.fault();  // the first fault is kept
  EXPECT_EQ(fault.status, -EINVAL);
  EXPECT_EQ(fault.site, u32(TND_GFILE_SITE_OPEN));
  EXPECT_EQ(fault.block, 0u);
}

TND_KERNEL void call_without_instance(int *code, u8 *buffer) {
  gfile_ref const none{};
  int fd = 0;
  code[0] = int(gopen(none, "x", O_RDONLY, &fd));
  code[1] = int(gread(none, 0, buffer, 0, 1).status);
  code[2] = int(gclose(none, 0));
}

TEST(gfile_calls, without_an_instance_say_so) {
  examples::device_array<int> codes(3);
  examples::device_array<u8> buffer(1);
  tanada::simt::launch(
      dim3{1, 1, 1}, dim3{1, 1, 1}, call_without_instance, codes.data(), buffer.data());
  examples::device_wait();
  EXPECT_EQ(codes.to_host(), std::vector<int>(3, -TND_ESTATE));
}

TND_KERNEL void do_nothing(int *code) {
  *code = 1;
}

TEST(gfile_calls, a_refused_launch_shows_at_the_wait_once) {
  if (!on_gpu())
    return;  // the host executor aborts the program instead
  instance on;
  examples::device_array<int> code(1);
  tanada::simt::launch(dim3{1, 1, 1}, dim3{4096, 1, 1}, do_nothing, code.data());
  EXPECT_EQ(on.wait(), -EINVAL);
  EXPECT_NE(std::string{tnd_last_message()}.find("refused"), std::string::npos)
      << tnd_last_message();
  EXPECT_EQ(on.wait(), TND_OK);
}

// ---- mapping

TND_KERNEL void map_pages(gfile_ref files, file_task task, verdict *to) {
  this_warp const warp{};
  int fd = -1;
  status const opened = gopen(warp, files, task.url.bytes, O_RDONLY, &fd);
  if (warp.rank() == 0)
    note(to, opened);
  u32 const page_size = gpage_size(files);
  for (u64 at = 0; at < task.size; at += page_size) {
    tanada::gmap_result const page = gmap(warp, files, fd, at + 5);
    if (page.status == status::busy) {
      if (warp.rank() == 0)
        (void)tanada::simt::device_atomic<u32>(to->done).fetch_add_relaxed(1);
      continue;
    }
    if (warp.rank() == 0)
      note(to, page.status);
    for (u64 i = warp.rank(); i < page.size; i += warp.size())
      if (page.bytes[i] != pattern(at + i, task.seed))
        (void)tanada::simt::device_atomic<u32>(to->bad_bytes).fetch_add_relaxed(1);
    warp.sync();
    if (at / page_size % 2 == 0 || task.flags == 0) {
      status const gone = gunmap(warp, files, page.bytes);
      if (warp.rank() == 0)
        note(to, gone);
    }
  }
  if (warp.rank() == 0)
    note(to, gclose(files, fd));
}

TEST(gfile_map, reads_in_place_and_says_busy_when_all_frames_are_pinned) {
  instance on{[](tnd_gfile_config &config) {
    config.device_tier_size = 2 * 4096;
  }};
  file_task task{store_prefixes()[0] + "map", O_WRONLY | O_CREAT, 10 * 4096 + 100, 4096, 8};
  run(on, write_file<this_block>, task, 1, 32);
  examples::device_array<verdict> to(1);
  task.flags = 0;
  tanada::simt::launch(dim3{1, 1, 1}, dim3{32, 1, 1}, map_pages, on.ref(), task, to.data());
  ASSERT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
  EXPECT_EQ(to.to_host()[0].bad_bytes, 0u);
  EXPECT_EQ(to.to_host()[0].done, 0u);
  task.flags = 1;  // every second page stays mapped: after two of them no frame is free
  tanada::simt::launch(
      dim3{1, 1, 1}, dim3{32, 1, 1}, map_pages, on.ref(20'000'000), task, to.data());
  ASSERT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(to.to_host()[0].failures, 0u);
  EXPECT_EQ(to.to_host()[0].bad_bytes, 0u);
  EXPECT_GT(to.to_host()[0].done, 0u);
  // While every frame is pinned, reads still work: they bypass the device tier.
  run(on, check_file<this_warp>, task, 2, 64);
  EXPECT_GT(on.statistics().uncached_transfers, 0u);
}

// gunmap() must not release the pin of a call that reads the page. The kernel sets such a pin
// directly.
TND_KERNEL void unmap_what_a_reader_has(gfile_ref files, text url, int *codes, u64 *pins) {
  int fd = -1;
  codes[0] = int(gopen(files, url.bytes, O_RDONLY, &fd));
  tanada::gmap_result const page = gmap(files, fd, 0);
  codes[1] = int(page.status);
  auto &state = tanada::gfile::device::state_of(files);
  auto const &table = state.device_table;
  u32 const frame = u32((page.bytes - state.device_frames) >> state.page_shift);
  table.pin(frame);
  codes[2] = int(gunmap(files, page.bytes));
  codes[3] = int(gunmap(files, page.bytes));
  *pins = tanada::tier::word::pins(table.load_word(frame));
  table.release(frame);
  codes[4] = int(gclose(files, fd));
}

TEST(gfile_map, a_page_that_only_readers_hold_is_not_unmapped) {
  instance on;
  file_task const task{store_prefixes()[0] + "readers", O_WRONLY | O_CREAT, 4096, 4096, 8};
  run(on, write_file<this_block>, task, 1, 32);
  examples::device_array<int> codes(5);
  examples::device_array<u64> pins(1);
  tanada::simt::launch(dim3{1, 1, 1},
                       dim3{1, 1, 1},
                       unmap_what_a_reader_has,
                       on.ref(),
                       task.url,
                       codes.data(),
                       pins.data());
  ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
  EXPECT_EQ(codes.to_host(), (std::vector<int>{TND_OK, TND_OK, TND_OK, -EINVAL, TND_OK}));
  EXPECT_EQ(pins.to_host()[0], 1u);
}

// ---- prefetch and its counters

TND_KERNEL void prefetch_file(gfile_ref files, file_task task, verdict *to) {
  int fd = -1;
  note(to, gopen(files, task.url.bytes, O_RDONLY, &fd));
  note(to, gprefetch(files, fd, 0, ~u64{0} >> 20));
  u8 byte;
  // This read keeps the file open until the pages are requested.
  note(to, gread(files, fd, &byte, task.size - 1, 1).status);
  note(to, gclose(files, fd));
}

TEST(gfile_prefetch, brings_pages_to_the_host_tier_where_kernels_find_them) {
  instance on{[](tnd_gfile_config &config) {
    config.device_tier_size = 4096;
  }};
  file_task const task{store_prefixes()[1] + "prefetch", O_WRONLY | O_CREAT, 100 * 4096, 4096, 8};
  {
    instance other;
    run(other, write_file<this_block>, task, 1, 32);
  }
  std::filesystem::last_write_time(
      task.url.bytes + 7, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  usleep(200'000);  // with a change time that is old enough, the cache survives the close
  examples::device_array<verdict> to(1);
  tanada::simt::launch(dim3{1, 1, 1}, dim3{1, 1, 1}, prefetch_file, on.ref(), task, to.data());
  ASSERT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
  u64 const misses = on.statistics().misses, hits = on.statistics().host_hits;
  run(on, check_file<this_block>, task, 2, 32);
  EXPECT_LE(on.statistics().misses - misses, 2u);
  EXPECT_GE(on.statistics().host_hits - hits, 90u);
}

// Each file is deleted, so that the next one reuses its number while the counters are read.
TND_KERNEL void make_and_delete(gfile_ref files, text url, u8 *bytes, u32 rounds, verdict *to) {
  for (u32 i = 0; i < rounds; i++) {
    int fd = -1;
    note(to, gopen(files, url.bytes, O_RDWR | O_CREAT, &fd));
    note(to, gwrite(files, fd, bytes, 0, 100).status);
    note(to, gread(files, fd, bytes, 0, 100).status);
    note(to, gclose(files, fd));
    note(to, gunlink(files, url.bytes));
  }
}

TEST(gfile_counters, are_read_while_kernels_run_and_files_come_and_go) {
  constexpr u32 rounds = 300;
  instance on;
  examples::device_array<u8> bytes(100);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(dim3{1, 1, 1},
                       dim3{1, 1, 1},
                       make_and_delete,
                       on.ref(),
                       text{store_prefixes()[0] + "brief"},
                       bytes.data(),
                       rounds,
                       to.data());
  u64 last = 0;
  tnd_status code = -ETIMEDOUT;
  while (code == -ETIMEDOUT) {
    u64 const now = on.statistics().write_size;
    EXPECT_GE(now, last);
    last = now;
    tnd_gfile_file files[4];
    u32 count = 0;
    ASSERT_EQ(tnd_gfile_get_files(on.get(), files, 4, &count), TND_OK);
    for (u32 i = 0; i < count && i < 4; i++)
      EXPECT_LE(files[i].write_size, rounds * 100);
    code = tnd_gfile_wait(on.get(), 1'000'000);
  }
  EXPECT_EQ(code, TND_OK);
  EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
  EXPECT_EQ(on.statistics().write_size, rounds * 100);
}

// ---- more files than fit

// Each thread opens, writes, reads and closes its files one after the other.
TND_KERNEL void use_many_files(gfile_ref files, text prefix, u32 count, verdict *to) {
  u32 length = 0;
  while (prefix.bytes[length] != 0)
    length++;
  for (u32 file = u32(tanada::simt::global_thread_rank()); file < count; file += 64) {
    u32 rest = file;
    for (u32 digit = 4; digit-- > 0; rest /= 10)
      prefix.bytes[length + digit] = char('0' + rest % 10);
    int fd = -1;
    u32 seen = 0;
    note(to, gopen(files, prefix.bytes, O_RDWR | O_CREAT, &fd));
    note(to, gwrite(files, fd, &file, 0, sizeof file).status);
    note(to, gread(files, fd, &seen, 0, sizeof seen).status);
    note(to, seen == file ? status::ok : status::io);
    note(to, gclose(files, fd));
  }
}

TEST(gfile_files, wait_for_others_to_be_closed_where_the_table_is_full) {
  for (u32 file_count : {3u, 16u, 100u}) {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.device = examples::gfile_device;
    config.file_count_max = file_count;
    tnd_gfile *on = nullptr;
    ASSERT_EQ(tnd_gfile_create(&config, &on), TND_OK) << tnd_last_message();
    tnd_gfile_ref const ref = tnd_gfile_get_ref(on);
    examples::device_array<verdict> to(1);
    text const prefix{store_prefixes()[1] + "many" + std::to_string(file_count) + "-"};
    tanada::simt::launch(dim3{2, 1, 1},
                         dim3{32, 1, 1},
                         use_many_files,
                         gfile_ref{ref.state, ref.timeout_ns},
                         prefix,
                         500u,
                         to.data());
    EXPECT_EQ(tnd_gfile_wait(on, 120'000'000'000ull), TND_OK) << tnd_last_message();
    EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
    EXPECT_EQ(tnd_gfile_destroy(on), TND_OK) << tnd_last_message();
  }
}

// Two files where the capacity is one: the second open fails at its deadline, and the fault names
// the file.
TND_KERNEL void open_two(gfile_ref files, text first, text second, int *codes) {
  int fd = -1, other = -1;
  codes[0] = int(gopen(files, first.bytes, O_RDWR | O_CREAT, &fd));
  codes[1] = int(gopen(files, second.bytes, O_RDWR | O_CREAT, &other));
  codes[2] = int(gclose(files, fd));
  codes[3] = int(gopen(files, second.bytes, O_RDWR | O_CREAT, &other));
  codes[4] = int(gclose(files, other));
}

TEST(gfile_files, that_stay_open_let_another_fail_at_its_deadline) {
  instance on{[](tnd_gfile_config &config) {
    config.file_count_max = 1;
  }};
  std::string const prefix = store_prefixes()[0] + "one-";
  examples::device_array<int> codes(5);
  tanada::simt::launch(dim3{1, 1, 1},
                       dim3{1, 1, 1},
                       open_two,
                       on.ref(200'000'000),
                       text{prefix + "a"},
                       text{prefix + "b"},
                       codes.data());
  ASSERT_EQ(on.wait(), TND_OK);
  EXPECT_NE(std::string{tnd_last_message()}.find("gopen of \"" + prefix + "b\" failed"),
            std::string::npos)
      << tnd_last_message();
  EXPECT_EQ(codes.to_host(), (std::vector<int>{0, -EMFILE, 0, 0, 0}));
  EXPECT_EQ(std::string{on.fault().url}, prefix + "b");
  EXPECT_EQ(on.fault().status, -EMFILE);
}

// ---- pages pinned at random

// Each warp maps scattered pages of its own file, and unmaps them at the end.
TND_KERNEL void pin_pages(
    gfile_ref files, file_task task, u32 pages, const u8 **pinned, verdict *to) {
  this_warp const warp{};
  u64 const me = group_rank<this_warp>();
  task.url.bytes[task.chunk_size] = char('a' + me);
  int fd = -1;
  status const opened = gopen(warp, files, task.url.bytes, O_RDONLY, &fd);
  if (warp.rank() == 0)
    note(to, opened);
  for (u32 i = 0; i < pages; i++) {
    u64 const page = (i * 37ull + me * 11) % (task.size / 4096);
    tanada::gmap_result const got = gmap(warp, files, fd, page * 4096);
    if (warp.rank() == 0)
      note(to, got.status);
    if (warp.rank() == 0 && got.status == status::ok &&
        got.bytes[9] != pattern(page * 4096 + 9, task.seed))
      to->bad_bytes++;
    if (warp.rank() == 0)
      pinned[me * pages + i] = got.bytes;
  }
  warp.sync();
  for (u32 i = 0; i < pages; i++) {
    status const gone = gunmap(warp, files, pinned[me * pages + i]);
    if (warp.rank() == 0)
      note(to, gone);
  }
}

TEST(gfile_map, pins_nine_tenths_of_the_tier_whatever_the_pages) {
  constexpr u32 warps = 4, frames = 256, pages = frames * 9 / 10 / warps;
  instance on{[](tnd_gfile_config &config) {
    config.device_tier_size = frames * 4096;
    config.host_tier_size = 4 * 1024 * 4096;
  }};
  std::string const prefix = store_prefixes()[0] + "pins-";
  file_task task{prefix, O_WRONLY | O_CREAT, 1024 * 4096, 4096, 3};
  for (u32 i = 0; i < warps; i++) {
    task.url = text{prefix + char('a' + i)};
    run(on, write_file<this_block>, task, 2, 32);
  }
  task.url = text{prefix};
  task.chunk_size = prefix.size();
  examples::device_array<verdict> to(1);
  examples::device_array<const u8 *> pinned(warps * pages);
  for (int round = 0; round < 3; round++) {
    tanada::simt::launch(dim3{1, 1, 1},
                         dim3{32 * warps, 1, 1},
                         pin_pages,
                         on.ref(),
                         task,
                         pages,
                         pinned.data(),
                         to.data());
    ASSERT_EQ(on.wait(), TND_OK);
    EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
    EXPECT_EQ(to.to_host()[0].bad_bytes, 0u);
  }
}

// ---- the process's instance and the paper's own form

TND_KERNEL void plus_kernel(text a, text b, text c, u8 *bytes, verdict *to) {
  int fd_a, fd_b, fd_c;
  note(to, gopen(a.bytes, O_RDONLY, &fd_a));
  note(to, gopen(b.bytes, O_RDONLY, &fd_b));
  note(to, gopen(c.bytes, O_WRONLY | O_CREAT, &fd_c));
  u64 const size = gfstat(fd_a).size;
  note(to, gread(fd_a, bytes, 0, gfstat(fd_a)).status);
  note(to, gread(fd_b, bytes + size, 0, gfstat(fd_b)).status);
  for (u64 i = 0; i < size; i++)
    bytes[i] = u8(bytes[i] + bytes[size + i]);
  note(to, gwrite(fd_c, bytes, 0, size).status);
  note(to, gclose(fd_a));
  note(to, gclose(fd_b));
  note(to, gclose(fd_c));
}

TND_KERNEL void check_sum(text c, u8 *bytes, u64 size, verdict *to) {
  int fd;
  note(to, gopen(c.bytes, O_RDONLY, &fd));
  if (gfstat(fd).size != size)
    note(to, status::range);
  note(to, gread(fd, bytes, 0, size).status);
  for (u64 i = 0; i < size; i++)
    if (bytes[i] != u8(pattern(i, 1) + pattern(i, 2)))
      to->bad_bytes++;
  note(to, gclose(fd));
}

TEST(gfile_seed, figure_four_runs_on_the_instance_of_ginitialize) {
  std::string const prefix = store_prefixes()[0] + "figure4";
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.page_size = 4096;
  ASSERT_EQ(ginitialize(&config), TND_OK) << tnd_last_message();
  constexpr u64 size = 9'000;
  {
    instance writer;  // a second instance besides the process's own
    run(writer, write_file<this_block>, {prefix + "a", O_WRONLY | O_CREAT, size, 1000, 1}, 2, 32);
    run(writer, write_file<this_block>, {prefix + "b", O_WRONLY | O_CREAT, size, 1000, 2}, 2, 32);
  }
  examples::device_array<u8> bytes(2 * size);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(dim3{1, 1, 1},
                       dim3{1, 1, 1},
                       plus_kernel,
                       text{prefix + "a"},
                       text{prefix + "b"},
                       text{prefix + "c"},
                       bytes.data(),
                       to.data());
  tanada::simt::launch(
      dim3{1, 1, 1}, dim3{1, 1, 1}, check_sum, text{prefix + "c"}, bytes.data(), size, to.data());
  EXPECT_EQ(ghandle(), TND_OK) << tnd_last_message();
  EXPECT_EQ(to.to_host()[0].failures, 0u) << tnd_status_name(int(to.to_host()[0].first_status));
  EXPECT_EQ(to.to_host()[0].bad_bytes, 0u);
  EXPECT_EQ(gfinalize(), TND_OK) << tnd_last_message();
}

// The end of the instance publishes the files that kernels left open.
TND_KERNEL void write_and_leave(gfile_ref files, text url, u8 *bytes, verdict *to) {
  int fd = -1;
  note(to, gopen(files, url.bytes, O_WRONLY | O_CREAT, &fd));
  note(to, gwrite(files, fd, bytes, 0, 5000).status);
}

TEST(gfile_end, publishes_what_kernels_left_open) {
  std::string const url = store_prefixes()[1] + "left";
  instance on;
  examples::device_array<u8> bytes(std::vector<u8>(5000, 0x5A));
  examples::device_array<verdict> to(1);
  tanada::simt::launch(
      dim3{1, 1, 1}, dim3{1, 1, 1}, write_and_leave, on.ref(), text{url}, bytes.data(), to.data());
  EXPECT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(on.destroy(), TND_OK);
  std::ifstream in{url.substr(7), std::ios::binary};
  std::string const content{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_EQ(content, std::string(5000, 0x5A));
}

}  // namespace
}  // namespace gfile_contract
