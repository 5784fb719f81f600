// Goal: whatever real file systems do to files while kernels use them is reported as the documented
// status, promptly, once, and only for those files.
#include "faults_support.cuh"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace gfile_faults {
namespace {

constexpr u64 full_size = 1 << 20;  // the capacity of the tests' file systems
constexpr u64 wanted_size = 2 << 20;
constexpr u64 chunk_size = 64 << 10;

// ---- no space: a full file system, and the process's limit on file sizes

struct limit {
  const char *name;
  status expected;
  bool (*set)(const std::string &folder, u64 size);
  void (*unset)(const std::string &folder);
};

bool mount_small(const std::string &folder, u64 size) {
  std::string const option = "size=" + std::to_string(size);
  unsigned long const flags = std::filesystem::exists(folder + "/mounted") ? MS_REMOUNT : 0;
  if (mount("tmpfs", folder.c_str(), "tmpfs", flags, option.c_str()) != 0)
    return false;
  put(folder + "/mounted", "");
  return true;
}

bool limit_file_size(const std::string &, u64 size) {
  rlimit const limit{size, RLIM_INFINITY};
  return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

constexpr limit full_file_system{
    "full", status::no_space, mount_small, [](const std::string &folder) {
      EXPECT_EQ(umount2(folder.c_str(), MNT_DETACH), 0);
    }};
constexpr limit largest_file{
    "largest_file", status::too_big, limit_file_size, [](const std::string &) {
      EXPECT_TRUE(limit_file_size("", RLIM_INFINITY));
    }};

// Mounting needs a privileged user; the limit on files does not.
std::vector<limit> limits() {
  test_folder const probe;
  if (!mount_small(probe.path, full_size))
    return {largest_file};
  full_file_system.unset(probe.path);
  return {full_file_system, largest_file};
}

class no_room : public testing::TestWithParam<limit> {
 protected:
  no_room() {
    EXPECT_TRUE(GetParam().set(folder.path, full_size));
  }
  ~no_room() override {
    GetParam().unset(folder.path);
  }
  void make_room() {
    ASSERT_TRUE(GetParam().set(folder.path, 8 * wanted_size));
  }

  // Kernel side: writes the whole file; failed writes return the reason.
  status write_all(gfile_ref files, int fd) {
    status first = status::ok;
    for (u64 at = 0; at < wanted_size; at += chunk_size) {
      status const code = gwrite(files, fd, bytes.data() + at, at, chunk_size).status;
      if (first == status::ok)
        first = code;
    }
    return first;
  }

  test_folder folder;
  std::string const url = "file://" + folder.path + "/big";
  std::string bytes = pattern_bytes(wanted_size, 3);
  instance on{[](tnd_gfile_config &config) {
    config.host_tier_size = 1024 * 4096;
  }};
};

TEST_P(no_room, is_said_once_by_gfsync_and_ends_when_there_is_room) {
  gfile_ref const files = on.ref();
  test_folder const elsewhere;
  std::string const other_url = "file://" + elsewhere.path + "/other";
  int fd = -1;
  status opened, written, synced, synced_again, other = status::ok;
  tnd_status const waited = perform(
      on,
      [&, files] {
        if (tanada::simt::block_rank() == 1) {  // another file, meanwhile
          int mine = -1;
          other = gopen(files, other_url.c_str(), O_RDWR | O_CREAT, &mine);
          for (u64 at = 0; at < 200'000 && other == status::ok; at += 1000)
            other = gwrite(files, mine, bytes.data() + at, at, 1000).status;
          status const closed = gclose(files, mine);
          if (other == status::ok)
            other = closed;
          return;
        }
        opened = gopen(files, url.c_str(), O_RDWR | O_CREAT, &fd);
        written = write_all(files, fd);
        synced = gfsync(files, fd);
        synced_again = gfsync(files, fd);
      },
      2);
  EXPECT_EQ(waited, TND_OK);
  EXPECT_EQ(opened, status::ok) << name(opened);
  EXPECT_TRUE(written == status::ok || written == GetParam().expected) << name(written);
  EXPECT_EQ(synced, GetParam().expected) << name(synced);
  EXPECT_EQ(synced_again, status::ok) << name(synced_again);
  EXPECT_EQ(other, status::ok) << name(other);
  EXPECT_EQ(content(elsewhere.path + "/other"), bytes.substr(0, 200'000));

  make_room();
  status closed;
  EXPECT_EQ(perform(on,
                    [&, files] {
                      written = write_all(files, fd);
                      synced = gfsync(files, fd);
                      closed = gclose(files, fd);
                    }),
            TND_OK);
  EXPECT_EQ(written, status::ok) << name(written);
  EXPECT_EQ(synced, status::ok) << name(synced);
  EXPECT_EQ(closed, status::ok) << name(closed);
  EXPECT_EQ(content(folder.path + "/big"), bytes);
}

TEST_P(no_room, is_said_by_the_close) {
  gfile_ref const files = on.ref();
  status closed, opened_again, closed_again;
  EXPECT_EQ(perform(on,
                    [&, files] {
                      int fd = -1;
                      (void)gopen(files, url.c_str(), O_WRONLY | O_CREAT, &fd);
                      (void)write_all(files, fd);
                      closed = gclose(files, fd);
                      opened_again = gopen(files, url.c_str(), O_WRONLY | O_CREAT, &fd);
                      closed_again = gclose(files, fd);
                    }),
            TND_OK);
  EXPECT_EQ(closed, GetParam().expected) << name(closed);
  EXPECT_EQ(opened_again, status::ok) << name(opened_again);
  EXPECT_EQ(closed_again, status::ok) << name(closed_again);
}

// Once the descriptor is released, another file may have it, so the fault is recorded before.
TEST(gfile_file, whose_close_fails_is_named_by_the_fault) {
  test_folder const folder;
  std::string const url = "file://" + folder.path + "/large";
  std::string const page = pattern_bytes(4096, 3);
  instance on;
  gfile_ref const files = on.ref();
  ASSERT_TRUE(limit_file_size("", full_size));
  status opened, written, closed;
  int fd = -1;
  EXPECT_EQ(perform(on,
                    [&, files] {
                      opened = gopen(files, url.c_str(), O_WRONLY | O_CREAT, &fd);
                      written = gwrite(files, fd, page.data(), full_size, page.size()).status;
                      closed = gclose(files, fd);
                    }),
            TND_OK);
  EXPECT_TRUE(limit_file_size("", RLIM_INFINITY));
  EXPECT_EQ(opened, status::ok) << name(opened);
  EXPECT_EQ(written, status::ok) << name(written);
  EXPECT_EQ(closed, status::too_big) << name(closed);
  tnd_gfile_fault const fault = on.fault();
  EXPECT_EQ(fault.status, -EFBIG);
  EXPECT_EQ(fault.site, u32(TND_GFILE_SITE_CLOSE));
  EXPECT_EQ(fault.words[0], u64(fd));
  EXPECT_EQ(std::string{fault.url}, url);
}

TEST_P(no_room, is_said_by_the_host_when_no_kernel_asks) {
  gfile_ref const files = on.ref();
  status opened;
  tnd_status first = perform(on, [&, files] {
    int fd = -1;
    opened = gopen(files, url.c_str(), O_WRONLY | O_CREAT, &fd);
    (void)write_all(files, fd);
  });
  EXPECT_EQ(opened, status::ok) << name(opened);
  EXPECT_TRUE(await(
      [&] {
        if (first == TND_OK)
          first = on.wait();
        return first != TND_OK;
      },
      5 * second_ns));
  EXPECT_EQ(status(first), GetParam().expected) << tnd_status_name(first);
  // Nothing is left to report once the last one was.
  EXPECT_TRUE(await(
      [&, quiet = 0]() mutable {
        quiet = on.wait() == TND_OK ? quiet + 1 : 0;
        return quiet > 20;
      },
      5 * second_ns));
}

TEST_P(no_room, is_said_at_the_latest_by_the_end) {
  auto *const last = new instance{[](tnd_gfile_config &config) {
    config.host_tier_size = 1024 * 4096;
  }};
  gfile_ref const files = last->ref();
  start([this, files] {
    int fd = -1;
    (void)gopen(files, url.c_str(), O_WRONLY | O_CREAT, &fd);
    (void)write_all(files, fd);
  });
  EXPECT_EQ(status(last->destroy()), GetParam().expected);
  delete last;
}

std::string limit_name(const testing::TestParamInfo<limit> &one) {
  return one.param.name;
}

INSTANTIATE_TEST_SUITE_P(limits, no_room, testing::ValuesIn(limits()), limit_name);

// Whether a write past the limit raises SIGXFSZ in the posting thread or in one of the kernel's
// depends on the file system. It must not end the process.
TEST(gfile_file, service_threads_take_no_signals) {
  auto const threads = [] {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator{"/proc/self/task"})
      found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  };
  std::vector<std::string> const before = threads();
  instance const on{[](tnd_gfile_config &config) {
    config.service_threads = 3;
  }};
  u32 count = 0;
  for (const std::string &thread : threads()) {
    if (std::binary_search(before.begin(), before.end(), thread))
      continue;
    std::string const text = content(thread + "/status"), key = "\nSigBlk:";
    u64 const blocked = std::strtoull(text.c_str() + text.find(key) + key.size(), nullptr, 16);
    for (int number : {SIGXFSZ, SIGPIPE, SIGINT, SIGTERM, SIGALRM})
      EXPECT_NE(blocked >> (number - 1) & 1, 0u) << thread << " signal " << number;
    count++;
  }
  EXPECT_GE(count, 3u);
}

// ---- files that others change

TEST(gfile_file, cut_by_somebody_else_gives_io_where_bytes_are_missing) {
  test_folder const folder;
  std::string const path = folder.path + "/cut";
  put(path, pattern_bytes(64 * 4096, 5));
  instance on{[](tnd_gfile_config &config) {
    config.device_tier_size = 4 * 4096;
    config.host_tier_size = 4 * 4096;
  }};
  gfile_ref const files = on.ref();
  std::vector<u8> buffer(8 * 4096);
  int fd = -1;
  status first = status::io;
  EXPECT_EQ(perform(on,
                    [&, files] {
                      if (gopen(files, path.c_str(), O_RDONLY, &fd) == status::ok)
                        first = gread(files, fd, buffer.data(), 0, 4096).status;
                    }),
            TND_OK);
  EXPECT_EQ(first, status::ok) << name(first);
  ASSERT_EQ(truncate(path.c_str(), 4 * 4096 + 100), 0);
  tanada::gio_result far{}, across{};
  tanada::gstat_result size{};
  status closed, opened;
  EXPECT_EQ(perform(on,
                    [&, files] {
                      far = gread(files, fd, buffer.data(), 40 * 4096, 4096);
                      across = gread(files, fd, buffer.data(), 3 * 4096, 3 * 4096);
                      closed = gclose(files, fd);
                      opened = gopen(files, path.c_str(), O_RDONLY, &fd);
                      size = gfstat(files, fd);
                      (void)gclose(files, fd);
                    }),
            TND_OK);
  EXPECT_EQ(far.status, status::io) << name(far.status);
  EXPECT_EQ(far.size, 0u);
  EXPECT_EQ(across.status, status::io) << name(across.status);
  EXPECT_EQ(across.size, 4096u);
  EXPECT_EQ(closed, status::ok) << name(closed);
  EXPECT_EQ(opened, status::ok) << name(opened);
  EXPECT_EQ(size.size, 4 * 4096u + 100);
  EXPECT_EQ(on.fault().status, -EIO);
  EXPECT_EQ(on.fault().site, u32(TND_GFILE_SITE_READ));
}

TEST(gfile_file, replaced_while_open_is_the_old_one_until_it_is_opened_again) {
  test_folder const folder;
  std::string const path = folder.path + "/file";
  put(path, pattern_bytes(64 * 4096, 5));
  instance on{[](tnd_gfile_config &config) {
    config.device_tier_size = 4 * 4096;
    config.host_tier_size = 4 * 4096;
  }};
  reader before{.url = path, .size = 64 * 4096, .seed = 5},
      after{.url = path, .size = 10 * 4096, .seed = 6};
  std::atomic<bool> stop{false};
  gfile_ref const files = on.ref();
  start([&, files] { before.run(files, stop); });
  EXPECT_TRUE(await([&] { return before.read_count > 30; }, 10 * second_ns));
  put(path + ".new", pattern_bytes(10 * 4096, 6));
  std::filesystem::rename(path + ".new", path);
  u64 const count = before.read_count;
  EXPECT_TRUE(await([&] { return before.read_count > count + 60; }, 10 * second_ns));
  stop = true;
  EXPECT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(before.failure_count, 0u);
  EXPECT_EQ(before.bad_bytes, 0u);
  stop = false;
  start([&, files] { after.run(files, stop); });
  EXPECT_TRUE(await([&] { return after.read_count > 60; }, 10 * second_ns));
  stop = true;
  EXPECT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(after.failure_count + after.bad_bytes, 0u);
}

// ---- not a file, or not accessible

struct open_case {
  std::string url;
  int flags;
  status expected;
};

void expect_opens(const std::vector<open_case> &cases, u64 limit_ns) {
  instance on;
  gfile_ref const files = on.ref();
  for (const open_case &each : cases) {
    status code;
    u64 const begin_ns = now_ns();
    EXPECT_EQ(perform(on,
                      [&, files] {
                        int fd = -1;
                        code = gopen(files, each.url.c_str(), each.flags, &fd);
                      }),
              TND_OK);
    EXPECT_EQ(code, each.expected) << each.url << " flags " << each.flags << ": " << name(code);
    EXPECT_LT(now_ns() - begin_ns, limit_ns) << each.url;
  }
  u64 const begin_ns = now_ns();
  EXPECT_EQ(on.destroy(), TND_OK) << tnd_last_message();
  EXPECT_LT(now_ns() - begin_ns, limit_ns);
}

TEST(gfile_file, what_is_no_file_is_refused_at_once) {
  test_folder const folder;
  std::string const fifo = folder.path + "/fifo", socket_path = folder.path + "/socket";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  socket_path.copy(addr.sun_path, sizeof addr.sun_path - 1);
  int const listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&addr), sizeof addr), 0);
  put(folder.path + "/plain", "text");
  expect_opens({{fifo, O_RDONLY, status::not_supported},
                {fifo, O_WRONLY, status::not_supported},
                {fifo, O_RDWR | O_CREAT | O_TRUNC, status::not_supported},
                {"/dev/zero", O_RDONLY, status::not_supported},
                {"file:///dev/full", O_WRONLY, status::not_supported},
                {socket_path, O_RDONLY, status::not_supported},
                {folder.path, O_RDONLY, status::is_directory},
                {folder.path, O_RDWR | O_CREAT, status::is_directory},
                {folder.path + "/none/file", O_WRONLY | O_CREAT, status::no_entry},
                {folder.path + "/plain/file", O_RDONLY, status(-ENOTDIR)},
                {folder.path + "/plain", O_RDONLY, status::ok}},
               second_ns);
  close(listener);
}

// As another user if this one may do everything.
struct unprivileged {
  bool const root = geteuid() == 0;
  unprivileged() {
    EXPECT_EQ(root ? seteuid(65534) : 0, 0);
  }
  ~unprivileged() {
    EXPECT_EQ(root ? seteuid(0) : 0, 0);
  }
};

TEST(gfile_file, without_the_right_to_it_is_access) {
  test_folder const folder;
  put(folder.path + "/secret", "text");
  put(folder.path + "/readable", "text");
  ASSERT_EQ(chmod((folder.path + "/secret").c_str(), 0), 0);
  ASSERT_EQ(chmod((folder.path + "/readable").c_str(), 0444), 0);
  ASSERT_EQ(chmod(folder.path.c_str(), 0555), 0);
  unprivileged const other;
  expect_opens({{folder.path + "/secret", O_RDONLY, status::access},
                {folder.path + "/readable", O_WRONLY, status::access},
                {folder.path + "/readable", O_RDONLY, status::ok},
                {folder.path + "/new", O_WRONLY | O_CREAT, status::access}},
               second_ns);
}

}  // namespace
}  // namespace gfile_faults
