// Goal: a Gfarm server that dies or hangs gives kernels a status within their timeout, and delays
// only what needs it. Run beside a Gfarm of its own, all data over TCP: gfarm.py run --remote. The
// tests end servers, hence their order: stalls first, then a gfsd that dies, then gfmd.
#include "faults_support.cuh"

namespace gfile_faults {
namespace {

constexpr u64 file_size = 8 << 20;
constexpr u64 timeout_ns = 3 * second_ns;
constexpr u64 slack_ns = second_ns;  // in addition to a timeout, for a loaded machine

// The process groups of a variable such as "12,34".
std::vector<pid_t> groups(const char *variable) {
  std::vector<pid_t> found;
  const char *at = std::getenv(variable);
  for (char *end = nullptr; at != nullptr && *at != '\0'; at = *end == ',' ? end + 1 : end)
    found.push_back(pid_t(std::strtol(at, &end, 10)));
  return found;
}

// Every process of a server is stopped during this object's lifetime.
class stopped {
 public:
  explicit stopped(pid_t group) : group_{group} {
    EXPECT_EQ(kill(-group_, SIGSTOP), 0);
  }
  ~stopped() {
    go_on();
  }
  void go_on() {
    EXPECT_EQ(group_ == 0 ? 0 : kill(-std::exchange(group_, 0), SIGCONT), 0);
  }

 private:
  pid_t group_;
};

class gfarm_fault : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new test_folder;
    put(folder->path + "/local", pattern_bytes(file_size, 7));
    for (int i = 0; i < 2; i++) {  // one replica each, on one gfsd each
      std::string const command = "gfreg -h 127.0.0." + std::to_string(i + 1) + " " + folder->path +
                                  "/local /on_gfsd" + std::to_string(i + 1);
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
  }
  static void TearDownTestSuite() {
    delete folder;
  }
  void SetUp() override {
    ASSERT_EQ(gfsd.size(), 2u) << "run it by: python3 tests/fixtures/gfarm.py run --remote -- ...";
    ASSERT_EQ(gfmd.size(), 1u);
  }

  void TearDown() override {
    examples::device_wait();
  }  // kernels that outlive their instance use memory of the test

  // One service thread: anything that blocks it blocks everything. Tiers that hold no file.
  static void small(tnd_gfile_config &config) {
    config.page_size = 65536;
    config.device_tier_size = 4 * 65536;
    config.host_tier_size = 64 * 65536;
    config.timeout_ns = timeout_ns;
  }

  inline static test_folder *folder = nullptr;
  std::vector<pid_t> const gfsd = groups("TND_TEST_GFSD_PIDS"), gfmd = groups("TND_TEST_GFMD_PID");
  reader first{.url = "gfarm:///on_gfsd1", .size = file_size, .seed = 7};
  reader second{.url = "gfarm:///on_gfsd2", .size = file_size, .seed = 7};
  reader local{.url = "file://" + folder->path + "/local", .size = file_size, .seed = 7};
  std::atomic<bool> stop{false};

  void start_readers(instance &on) {
    gfile_ref const files = on.ref();
    start(
        [this, files] {
          reader *const mine[] = {&first, &second, &local};
          mine[tanada::simt::block_rank()]->run(files, stop);
        },
        3);
  }
  void expect_all_read() {
    for (const reader *each : {&first, &second, &local})
      EXPECT_TRUE(await([&] { return each->read_count > 20; }, 5 * second_ns))
          << each->url << name(status(int(each->opened)));
  }
  // Files of other servers can still be read, promptly and without an error.
  void expect_read_on(const std::vector<reader *> &others) {
    for (reader *each : others) {
      u64 const count = each->read_count;
      EXPECT_TRUE(await([&] { return each->read_count > count + 20; }, 2 * second_ns)) << each->url;
      EXPECT_EQ(each->failure_count, 0u)
          << each->url << " " << name(status(int(each->first_failure)));
      EXPECT_EQ(each->bad_bytes, 0u) << each->url;
      EXPECT_LT(each->slowest_ns, 3 * second_ns) << each->url;
    }
  }
};

// First in the process: libgfarm connects to gfmd here, and gfmd does not answer.
TEST_F(gfarm_fault, a_gfmd_that_says_nothing_at_the_first_use_holds_up_nobody_else) {
  instance on{small};
  gfile_ref const files = on.ref(2 * second_ns);
  stopped gfmd_stopped{gfmd[0]};
  std::atomic<int> code{1};
  std::atomic<u64> took_ns{0};
  start(
      [&, files] {
        if (tanada::simt::block_rank() == 1)
          return local.run(files, stop);
        u64 const begin_ns = now_ns();
        int fd = -1;
        code = int(gopen(files, first.url.c_str(), O_RDONLY, &fd));
        took_ns = now_ns() - begin_ns;
      },
      2);
  EXPECT_TRUE(await([&] { return code != 1; }, 2 * second_ns + slack_ns));
  EXPECT_TRUE(int(code) < 0) << name(status(int(code)));
  EXPECT_GT(took_ns, second_ns);  // it did wait for gfmd
  expect_read_on({&local});
  gfmd_stopped.go_on();
  stop = true;
  EXPECT_EQ(on.wait(), TND_OK);
  stop = false;
  gfile_ref const patient = on.ref(10 * second_ns);
  start([this, patient] { first.run(patient, stop); });
  EXPECT_TRUE(await([&] { return first.read_count > 20; }, 10 * second_ns))
      << name(status(int(first.opened)));
  stop = true;
  EXPECT_EQ(on.wait(), TND_OK);
}

TEST_F(gfarm_fault, a_gfsd_that_stalls_times_out_and_goes_on_when_it_does) {
  instance on{small};
  start_readers(on);
  expect_all_read();
  stopped second_stopped{gfsd[1]};
  u64 const begin_ns = now_ns();
  EXPECT_TRUE(await([&] { return second.failure_count > 0; }, timeout_ns + slack_ns));
  EXPECT_EQ(status(int(second.first_failure)), status::timed_out)
      << name(status(int(second.first_failure)));
  EXPECT_GT(now_ns() - begin_ns, second_ns);
  expect_read_on({&first, &local});
  second_stopped.go_on();
  u64 const count = second.read_count;
  EXPECT_TRUE(await([&] { return second.read_count > count + 20; }, 10 * second_ns))
      << name(status(int(second.last_status)));
  expect_read_on({&first, &local});
  stop = true;
  EXPECT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(second.bad_bytes, 0u);
}

// Hundreds of requests per second that are not answered must not take all slots, frames and queues.
TEST_F(gfarm_fault, a_gfsd_that_stalls_under_many_requests_leaves_room_for_other_files) {
  instance on{small};
  gfile_ref const files = on.ref(), hasty = on.ref(second_ns / 4);
  std::atomic<u64> read_count{0}, late_count{0};
  auto const body = [&, files, hasty] {
    u32 const thread = tanada::simt::thread_rank_in_block();
    if (tanada::simt::block_rank() > 0) {
      if (thread == 0)
        (tanada::simt::block_rank() == 1 ? first : local).run(files, stop);
      return;
    }
    int fd = -1;
    if (gopen(files, second.url.c_str(), O_RDONLY, &fd) != status::ok)
      return;
    u8 byte;
    for (u64 at = thread * 77'777; !stop; at += 1'299'709) {
      status const code = gread(hasty, fd, &byte, at % file_size, 1).status;
      read_count += code == status::ok;
      late_count += code == status::timed_out;
    }
    (void)gclose(files, fd);
  };
  tanada::simt::launch(dim3{3, 1, 1}, dim3{256, 1, 1}, call_body<decltype(body)>, body);
  EXPECT_TRUE(
      await([&] { return first.read_count > 20 && local.read_count > 20 && read_count > 300; },
            5 * second_ns));
  stopped second_stopped{gfsd[1]};
  EXPECT_TRUE(await([&] { return late_count > 2500; }, 8 * second_ns)) << late_count;
  expect_read_on({&first, &local});
  second_stopped.go_on();
  stop = true;
  EXPECT_EQ(on.wait(), TND_OK);
}

TEST_F(gfarm_fault,
       the_end_of_an_instance_does_not_wait_longer_for_a_stalled_gfsd_than_its_timeout) {
  auto *const on = new instance{small};
  start_readers(*on);
  expect_all_read();
  stopped const second_stopped{gfsd[1]};
  EXPECT_TRUE(await([&] { return second.failure_count > 0; }, timeout_ns + slack_ns));
  stop = true;
  u64 const begin_ns = now_ns();
  EXPECT_EQ(status(on->destroy()), status::timed_out);
  EXPECT_LT(now_ns() - begin_ns, timeout_ns + slack_ns);
  delete on;
}

TEST_F(gfarm_fault, a_gfsd_that_dies_fails_its_files_and_no_others) {
  auto *const on = new instance{small};
  start_readers(*on);
  expect_all_read();
  EXPECT_EQ(kill(-gfsd[1], SIGKILL), 0);
  u64 const begin_ns = now_ns();
  EXPECT_TRUE(await([&] { return second.failure_count > 0; }, timeout_ns + slack_ns));
  EXPECT_LT(now_ns() - begin_ns, timeout_ns + slack_ns);
  expect_read_on({&first, &local});
  stop = true;
  u64 const end_ns = now_ns();
  status const code = status(on->destroy());
  EXPECT_TRUE(code == status::ok || code == status::timed_out) << name(code);
  EXPECT_LT(now_ns() - end_ns, timeout_ns + slack_ns);
  delete on;
}

TEST_F(gfarm_fault, a_gfmd_that_dies_fails_opens_and_closes_within_the_timeout) {
  auto *const on = new instance{small};
  gfile_ref const files = on->ref();
  start([this, files] { (tanada::simt::block_rank() == 0 ? first : local).run(files, stop); }, 2);
  EXPECT_TRUE(await([&] { return first.read_count > 20 && local.read_count > 20; }, 5 * second_ns));
  EXPECT_EQ(kill(-gfmd[0], SIGKILL), 0);
  expect_read_on({&first, &local});  // gfsd and the descriptor need no gfmd
  stop = true;
  u64 begin_ns = now_ns();
  EXPECT_EQ(on->wait(), TND_OK);  // the close included
  EXPECT_LT(now_ns() - begin_ns, timeout_ns + slack_ns);
  status opened, opened_local;
  begin_ns = now_ns();
  EXPECT_EQ(perform(*on,
                    [&, files] {
                      int fd = -1;
                      opened = gopen(files, "gfarm:///new", O_RDWR | O_CREAT, &fd);
                      opened_local = gopen(files, local.url.c_str(), O_RDONLY, &fd);
                    }),
            TND_OK);
  EXPECT_NE(opened, status::ok);
  EXPECT_EQ(opened_local, status::ok) << name(opened_local);
  EXPECT_LT(now_ns() - begin_ns, timeout_ns + slack_ns);
  begin_ns = now_ns();
  (void)on->destroy();
  EXPECT_LT(now_ns() - begin_ns, timeout_ns + slack_ns);
  delete on;
}

}  // namespace
}  // namespace gfile_faults
