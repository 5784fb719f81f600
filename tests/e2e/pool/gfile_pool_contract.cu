// gfile on a pool of the same node: kernels read the pool's own pages, whatever happens to the
// object, the pool and the connection.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tanada/pool.h>

#include "../../contract/gfile_support.cuh"

namespace gfile_contract {
bool on_gpu() {
  return examples::on_gpu;
}

namespace {

using tanada::this_block;
using tanada::this_warp;

void put_object(const std::string &space_url, const std::string &name, u64 size, u32 seed) {
  std::vector<u8> bytes(size);
  for (u64 i = 0; i < size; i++)
    bytes[i] = pattern(i, seed);
  tnd_pool *pool = nullptr;
  ASSERT_EQ(tnd_pool_connect(space_url.c_str(), nullptr, &pool), TND_OK) << tnd_last_message();
  EXPECT_EQ(tnd_pool_put(pool, name.c_str(), bytes.data(), size, 0, nullptr), TND_OK)
      << tnd_last_message();
  tnd_pool_disconnect(pool);
}

// The daemon beside this program, in DRAM, as a process that can be killed.
class pool_process {
 public:
  explicit pool_process(std::vector<std::string> options = {})
      : options_{std::move(options)},
        folder_{(std::filesystem::temp_directory_path() / "tanada-pool-XXXXXX").string()} {
    if (mkdtemp(folder_.data()) == nullptr)
      std::abort();
    start();
  }
  ~pool_process() {
    kill();
    std::filesystem::remove_all(folder_);
  }
  pool_process(const pool_process &) = delete;

  // On its previous port, if it had one.
  void start() {
    std::string const port_file = folder_ + "/port", port = std::to_string(port_),
                      log = folder_ + "/log";
    std::string const program =
        std::filesystem::read_symlink("/proc/self/exe").replace_filename("tanada-poold").string();
    std::filesystem::remove(port_file);
    std::vector<std::string> words{program,
                                   "--port",
                                   port,
                                   "--port-file",
                                   port_file,
                                   "--size",
                                   "64MiB",
                                   "--segment-size",
                                   "2MiB"};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (std::freopen(log.c_str(), "a", stderr) == nullptr ||
          std::freopen(log.c_str(), "a", stdout) == nullptr)
        _exit(126);
      execv(program.c_str(), arguments.data());
      _exit(127);
    }
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (!std::filesystem::exists(port_file)) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "no daemon: " << program;
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    std::ifstream{port_file} >> port_;
  }
  void kill() {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::string url(const std::string &name) const {
    return "pool://127.0.0.1:" + std::to_string(port_) + "/test/" + name;
  }

  void put(const std::string &name, u64 size, u32 seed) {
    put_object(url(""), name, size, seed);
  }
  void remove(const std::string &name) {
    tnd_pool *pool = nullptr;
    ASSERT_EQ(tnd_pool_connect(url("").c_str(), nullptr, &pool), TND_OK) << tnd_last_message();
    EXPECT_EQ(tnd_pool_remove(pool, name.c_str(), 0), TND_OK) << tnd_last_message();
    tnd_pool_disconnect(pool);
  }

 private:
  std::vector<std::string> const options_;
  std::string folder_;
  int port_ = 0;
  pid_t pid_ = -1;
};

// An object of one segment, and of several.
constexpr u64 some = 300'001, much = 7'000'001;

TEST(gfile_pool, kernels_read_the_pools_own_pages) {
  pool_process pool;
  for (u64 size : {some, much}) {
    pool.put("a", size, 5);
    instance on;
    file_task const task{pool.url("a"), O_RDONLY, size, 9000, 5};
    tnd_gfile_file const mapped = read_until(on, task, TND_GFILE_PATH_MAPPED);
    ASSERT_EQ(mapped.path, u32(TND_GFILE_PATH_MAPPED)) << mapped.reason;
    EXPECT_STREQ(mapped.reason, "");
    // Larger than the device tier: nothing goes through the host tier, and no page is requested
    // from the host.
    tnd_gfile_statistics const before = on.statistics();
    run(on, check_file<this_warp>, task, 2, 64);
    tnd_gfile_statistics const after = on.statistics();
    EXPECT_GE(after.mapped_copies, before.mapped_copies + size / 4096 - 64);
    EXPECT_EQ(after.misses, before.misses);
    EXPECT_EQ(after.host_hits, before.host_hits);
    EXPECT_EQ(after.store_read_size, before.store_read_size);
  }
}

// A file that stays open from one kernel to the next.
struct open_file {
  int fd;
  status code;
  u32 bad_bytes;
};

TND_KERNEL void check_open_file(gfile_ref files, file_task task, u8 *scratch, open_file *of) {
  this_block const block{};
  int fd = of->fd;
  block.sync();
  status const opened = fd < 0 ? gopen(block, files, task.url.bytes, O_RDONLY, &fd) : status::ok;
  if (block.rank() == 0)
    *of = {opened == status::ok ? fd : -1, opened, 0};
  for (u64 at = 0; opened == status::ok && at < task.size; at += task.chunk_size) {
    u64 const size = task.chunk_size < task.size - at ? task.chunk_size : task.size - at;
    tanada::gio_result const read = gread(block, files, fd, scratch, at, size);
    if (block.rank() == 0 && (read.status != status::ok || read.size != size))
      of->code = status::io;
    block.sync();
    for (u64 i = block.rank(); i < size; i += block.size())
      if (scratch[i] != pattern(at + i, task.seed))
        (void)tanada::simt::device_atomic<u32>(of->bad_bytes).fetch_add_relaxed(1);
    block.sync();
  }
}

class mapped_object : public testing::Test {
 protected:
  void SetUp() override {
    pool_.put("a", task_.size, task_.seed);
    ASSERT_EQ(read_until(on_, task_, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED))
        << file_of(on_, task_.url.bytes)->reason;
    check();
  }
  // All of it through the descriptor of the first call, and none of it by the host.
  void check() {
    tnd_gfile_statistics const before = on_.statistics();
    tanada::simt::launch(dim3{1, 1, 1},
                         dim3{32, 1, 1},
                         check_open_file,
                         on_.ref(),
                         task_,
                         scratch_.data(),
                         file_.data());
    ASSERT_EQ(on_.wait(), TND_OK) << tnd_last_message();
    open_file const seen = file_.to_host()[0];
    EXPECT_EQ(seen.code, status::ok);
    EXPECT_EQ(seen.bad_bytes, 0u);
    EXPECT_GT(on_.statistics().mapped_copies, before.mapped_copies);
    EXPECT_EQ(on_.statistics().misses, before.misses);
  }

  pool_process pool_;
  instance on_;
  file_task task_{pool_.url("a"), O_RDONLY, much, 9000, 5};
  examples::device_array<u8> scratch_{9000};
  examples::device_array<open_file> file_{std::vector<open_file>{{-1, status::ok, 0}}};
};

// The pool has space for nine such objects, of which others take all except the mapping's.
TEST_F(mapped_object, stays_when_it_is_replaced_and_removed) {
  pool_.put("a", much, 6);
  check();
  pool_.remove("a");
  for (u32 i = 0; i < 7; i++)
    pool_.put("other" + std::to_string(i), much, 20 + i);
  check();
}

TEST_F(mapped_object, is_mapped_anew_when_it_was_replaced) {
  pool_.put("a", some, 6);
  check();
  instance other;
  file_task const now{pool_.url("a"), O_RDONLY, some, 9000, 6};
  EXPECT_EQ(read_until(other, now, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
}

TEST_F(mapped_object, stays_when_the_daemon_is_killed) {
  pool_.kill();
  check();
  pool_.start();
  check();
}

struct small_object : testing::Test {
  void SetUp() override {
    pool.put("a", some, task.seed);
    ASSERT_NO_FATAL_FAILURE(is_mapped());
  }
  void is_mapped() {
    ASSERT_EQ(read_until(on, task, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED))
        << file_of(on, task.url.bytes)->reason;
  }

  pool_process pool;
  instance on;
  file_task task{pool.url("a"), O_RDONLY, some, 9000, 5};
};

// The new pool continues the version numbers of the old one.
TEST_F(small_object, of_a_pool_begun_anew_is_not_taken_for_that_of_the_old_one) {
  pool.kill();
  pool.start();
  task.seed = 7;
  pool.put("a", some, task.seed);
  is_mapped();
}

TEST_F(small_object, is_committed_and_mapped_again_when_kernels_have_written_it) {
  task.seed = 6;
  task.flags = O_WRONLY;
  run(on, write_file<this_block>, task, 4, 32);
  EXPECT_EQ(file_of(on, task.url.bytes)->path, u32(TND_GFILE_PATH_STAGED));
  is_mapped();
}

// test_cluster_clients.py runs it on a cluster.
TEST(gfile_cluster, kernels_read_and_write_objects_of_all_servers) {
  const char *const url = std::getenv("TANADA_TEST_POOL_URL");
  if (url == nullptr)
    GTEST_SKIP() << "TANADA_TEST_POOL_URL is not set";
  for (u64 size : {some, much}) {
    put_object(url, "read", size, 5);
    instance on;
    file_task task{std::string{url} + "/read", O_RDONLY, size, 9000, 5};
    run(on, check_file<this_block>, task, 2, 32);
    EXPECT_EQ(file_of(on, task.url.bytes)->path, u32(TND_GFILE_PATH_STAGED));
    task = {std::string{url} + "/written", O_WRONLY | O_CREAT, size, 9000, 6};
    run(on, write_file<this_block>, task, 4, 32);
    instance other;
    task.flags = O_RDONLY;
    run(other, check_file<this_block>, task, 2, 32);
  }
}

TEST(gfile_pool, without_shared_memory_pages_are_staged) {
  setenv("TND_POOL_SHARED_MEMORY", "0", 1);
  {
    pool_process pool;
    pool.put("a", some, 5);
    instance on;
    file_task const task{pool.url("a"), O_RDONLY, some, 9000, 5};
    run(on, check_file<this_block>, task, 2, 32);
    run(on, check_file<this_warp>, task, 2, 64);
    tnd_gfile_file const seen = *file_of(on, task.url.bytes);
    EXPECT_EQ(seen.path, u32(TND_GFILE_PATH_STAGED));
    EXPECT_NE(std::string{seen.reason}.find("no shared memory with the pool"), std::string::npos)
        << seen.reason;
    EXPECT_EQ(seen.mapped_copies, 0u);
  }
  unsetenv("TND_POOL_SHARED_MEMORY");
}

// ---- the direct window, which the pool writes into over a fabric

const char *from_environment(const char *name, const char *otherwise) {
  const char *const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// A pool that is far away, by any provider of the fabric.
class far_pool : public testing::TestWithParam<u64> {  // pages in the window
 protected:
  far_pool() {
    setenv("TND_POOL_SHARED_MEMORY", "0", 1);
    setenv("TND_POOL_FABRIC", provider_, 1);
    const char *const node = from_environment("TND_TEST_FABRIC_NODE", "127.0.0.1");
    // Not every kernel reports the user of a connection, for a pool without keys.
    pool_ = std::make_unique<pool_process>(
        std::vector<std::string>{"--open", "--fabric", provider_, "--fabric-node", node});
  }
  ~far_pool() override {
    unsetenv("TND_POOL_FABRIC");
    unsetenv("TND_POOL_SHARED_MEMORY");
  }

  // Pages that are larger than what is sent over the stream.
  static void use_window(tnd_gfile_config &config) {
    config.page_size = page_size;
    config.device_tier_size = 4 * page_size;
    config.host_tier_size = 8 * page_size;
    config.direct_window_size = window_pages * page_size;
    config.direct = TND_GFILE_DIRECT_ON;
    config.mapping = TND_GFILE_MAPPING_OFF;
  }

  static constexpr u64 page_size = 256 << 10, size = 24 * page_size + 12'345;
  static inline u64 window_pages = 0;
  const char *const provider_ = from_environment("TND_TEST_FABRIC_PROVIDER", "tcp;ofi_rxm");
  bool const is_rdma_ = std::string_view{provider_}.find("verbs") != std::string_view::npos;
  std::unique_ptr<pool_process> pool_;
};

TEST_P(far_pool, fills_a_window_of_any_size) {
  window_pages = GetParam();
  pool_->put("a", size, 5);
  instance on{use_window};
  file_task const task{pool_->url("a"), O_RDONLY, size, 9000, 5};
  run(on, check_file<this_block>, task, 8, 32);
  run(on, check_file<this_warp>, task, 2, 64);
  tnd_gfile_file const about = *file_of(on, task.url.bytes);
  if (examples::on_gpu) {
    EXPECT_TRUE(is_rdma_ || about.path == TND_GFILE_PATH_STAGED) << about.reason;
  } else if (is_rdma_) {
    EXPECT_EQ(about.path, u32(TND_GFILE_PATH_DIRECT)) << about.reason;
  } else {
    EXPECT_EQ(about.path, u32(TND_GFILE_PATH_DIRECT_COMPATIBLE)) << about.reason;
    EXPECT_NE(std::string{about.reason}.find("processor copies"), std::string::npos)
        << about.reason;
  }
  if (about.path != TND_GFILE_PATH_STAGED) {
    EXPECT_GT(about.direct_copies, size / page_size);
  }
  // Another version of the object is not found in the window.
  pool_->put("a", size, 6);
  file_task const next{pool_->url("a"), O_RDONLY, size, 9000, 6};
  run(on, check_file<this_block>, next, 8, 32);
}

// Reads until the first error.
TND_KERNEL void read_repeatedly(
    gfile_ref files, file_task task, u32 count, u8 *scratch, open_file *to) {
  this_block const block{};
  int fd = -1;
  status code = gopen(block, files, task.url.bytes, O_RDONLY, &fd);
  u8 *const target = scratch + group_rank<this_block>() * task.chunk_size;
  for (u32 round = 0; round < count && code == status::ok; round++)
    for (u64 at = 0; at + task.chunk_size <= task.size && code == status::ok;
         at += task.chunk_size) {
      code = gread(block, files, fd, target, at, task.chunk_size).status;
      for (u64 i = block.rank(); code == status::ok && i < task.chunk_size; i += block.size())
        if (target[i] != pattern(at + i, task.seed))
          (void)tanada::simt::device_atomic<u32>(to->bad_bytes).fetch_add_relaxed(1);
      block.sync();
    }
  if (block.rank() == 0 && code != status::ok)
    to->code = code;
}

// The frames of the window are used by other reads afterwards.
TEST_P(far_pool, that_is_killed_leaves_no_wrong_bytes) {
  window_pages = GetParam();
  pool_->put("a", size, 5);
  instance on{use_window};
  constexpr u32 block_count = 4;
  examples::device_array<u8> scratch{block_count * page_size};
  examples::device_array<open_file> outcome{std::vector<open_file>{{-1, status::ok, 0}}};
  file_task const task{pool_->url("a"), O_RDONLY, size, page_size, 5};
  std::thread killer{[this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pool_->kill();
  }};
  tanada::simt::launch(dim3{block_count, 1, 1},
                       dim3{32, 1, 1},
                       read_repeatedly,
                       on.ref(),
                       task,
                       100'000u,
                       scratch.data(),
                       outcome.data());
  EXPECT_EQ(on.wait(), TND_OK) << tnd_last_message();
  killer.join();
  EXPECT_NE(outcome.to_host()[0].code, status::ok);
  EXPECT_EQ(outcome.to_host()[0].bad_bytes, 0u);
  pool_->start();
  pool_->put("a", size, 7);
  file_task const next{pool_->url("a"), O_RDONLY, size, 9000, 7};
  run(on, check_file<this_block>, next, 8, 32);
}

INSTANTIATE_TEST_SUITE_P(windows, far_pool, testing::Values(1, 3, 64));

}  // namespace
}  // namespace gfile_contract
