// Goal: files that a plugin's engine has on this machine are read by descriptor, and all others by
// the engine.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "backends/file/file_ring.hpp"
#include "backends/file/local_engine.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::backends {
namespace {

constexpr std::string_view descriptor_bytes = "bytes of the descriptor",
                           engine_bytes = "bytes of the engine";

// Files under "test://local" have a descriptor, and files under "test://mapped" have memory. The
// engine's own read returns other bytes, so that tests see which path served a read.
class plugin_engine final : public seams::blocking_engine {
 public:
  explicit plugin_engine(int descriptor) : descriptor_{descriptor} {}

  const char *scheme() const noexcept override {
    return "test";
  }
  status open(const std::string &url,
              seams::store_open_flags,
              seams::store_file &file,
              seams::store_stat &stat) override {
    file = ++count_ * 2 + (url.starts_with("test://local") ? 1 : 0);
    stat.size = descriptor_bytes.size();
    if (url.starts_with("test://mapped"))
      mapped_file = file;
    return status::ok;
  }
  status close(seams::store_file, seams::store_stat &) override {
    return status::ok;
  }
  status read(seams::store_file,
              uint64_t offset,
              std::span<const seams::store_buffer> buffers,
              uint64_t &size) override {
    while (held)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    size = std::min(buffers[0].size, engine_bytes.size() - size_t(offset));
    std::memcpy(buffers[0].addr, engine_bytes.data() + offset, size);
    return status::ok;
  }
  status write(seams::store_file,
               uint64_t,
               std::span<const seams::store_buffer> buffers,
               uint64_t &size) override {
    size = buffers[0].size;
    return status::ok;
  }
  status stat(seams::store_file, seams::store_stat &) override {
    return status::ok;
  }
  status truncate(seams::store_file, uint64_t) override {
    return status::ok;
  }
  status sync(seams::store_file) override {
    return status::ok;
  }
  status unlink(const std::string &) override {
    return status::ok;
  }
  status list(const std::string &, std::vector<std::string> &) override {
    return status::ok;
  }
  int descriptor(seams::store_file file) const override {
    return file % 2 == 1 ? descriptor_ : -1;
  }
  seams::store_memory memory(seams::store_file file, std::string &reason) override {
    asked_for_memory++;
    if (file != mapped_file) {
      reason = "far away";
      return {};
    }
    auto const hold = std::make_shared<std::string>(descriptor_bytes);
    held_memory = hold;
    return {std::as_bytes(std::span{*hold}), hold};
  }

  void attach(const seams::device_window &window, bool) override {
    window_size = window.size;
  }
  std::optional<seams::direct_offer> direct(seams::store_file) const override {
    return offer;
  }

  size_t window_size = 0;
  std::optional<seams::direct_offer> offer;
  std::atomic<bool> held{false};
  std::atomic<seams::store_file> mapped_file{0};
  std::atomic<int> asked_for_memory{0};
  std::weak_ptr<std::string> held_memory;

 private:
  int descriptor_;
  std::atomic<seams::store_file> count_{0};
};

class local_engine_test : public testing::TestWithParam<bool> {  // with a ring
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tanada-local-XXXXXX").string();
    descriptor_ = mkstemp(name.data());
    ASSERT_GE(descriptor_, 0);
    unlink(name.c_str());
    ASSERT_EQ(write(descriptor_, descriptor_bytes.data(), descriptor_bytes.size()),
              ssize_t(descriptor_bytes.size()));
    plugin_ = std::make_shared<plugin_engine>(descriptor_);
    store_ = ring_store_create(std::make_shared<local_engine>(plugin_, file_direct::automatic),
                               GetParam());
    queue_ = std::move(store_->queue_create(64)).value();
  }
  void TearDown() override {
    plugin_->held = false;
    queue_.reset();
    store_.reset();
    if (descriptor_ >= 0)
      close(descriptor_);
  }

  seams::store_completion perform(seams::store_op op) {
    EXPECT_EQ(queue_->post(std::move(op)), status::ok);
    seams::store_completion done[1];
    done[0].code = status::timed_out;
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (queue_->poll(done) == 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    return done[0];
  }
  seams::store_file open(const std::string &url, seams::store_open_flags flags = {.read = true}) {
    seams::store_op op;
    op.kind = seams::store_op_kind::open;
    op.url = url;
    op.open_flags = flags;
    auto const done = perform(std::move(op));
    EXPECT_EQ(done.code, status::ok);
    return done.file;
  }
  static seams::store_op read_op(seams::store_file file, uint64_t offset, std::string &target) {
    seams::store_op op;
    op.file = file;
    op.offset = offset;
    op.buffers = {{reinterpret_cast<std::byte *>(target.data()), target.size()}};
    return op;
  }
  std::string read(seams::store_file file, uint64_t offset = 0) {
    bytes_.assign(100, '\0');
    auto const done = perform(read_op(file, offset, bytes_));
    EXPECT_EQ(done.code, status::ok);
    return bytes_.substr(0, done.size);
  }

  std::string bytes_;
  int descriptor_ = -1;
  std::shared_ptr<plugin_engine> plugin_;
  std::unique_ptr<seams::store> store_;
  std::unique_ptr<seams::store_queue> queue_;
};

TEST_P(local_engine_test, reads_a_local_file_by_its_descriptor) {
  seams::store_file const local = open("test://local"), remote = open("test://remote");
  EXPECT_EQ(read(local), descriptor_bytes);
  EXPECT_EQ(read(local, 6), descriptor_bytes.substr(6));
  EXPECT_EQ(read(remote), engine_bytes);
  // The local engine duplicates the descriptor, because the plugin may close its own at any time.
  close(std::exchange(descriptor_, -1));
  EXPECT_EQ(read(local), descriptor_bytes);
  seams::store_op op;
  op.kind = seams::store_op_kind::close;
  op.file = local;
  EXPECT_EQ(perform(std::move(op)).code, status::ok);
  EXPECT_EQ(read(local), engine_bytes);  // the plugin refuses it
}

TEST_P(local_engine_test, leaves_a_file_open_to_write_to_the_engine) {
  seams::store_file const local = open("test://local", {.read = true, .write = true});
  EXPECT_EQ(read(local), engine_bytes);
  EXPECT_EQ(store_->access(local).cached_descriptor, -1);
}

TEST_P(local_engine_test, tells_the_descriptor) {
  seams::store_file const local = open("test://local"), remote = open("test://remote");
  auto const access = store_->access(local);
  int const descriptor =
      access.memory_descriptor >= 0 ? access.memory_descriptor : access.cached_descriptor;
  char bytes[100];
  ASSERT_EQ(pread(descriptor, bytes, sizeof bytes, 0), ssize_t(descriptor_bytes.size()));
  EXPECT_EQ(store_->access(remote).cached_descriptor, -1);
  EXPECT_EQ(store_->access(remote).memory_descriptor, -1);
}

TEST_P(local_engine_test, tells_the_memory_and_lets_go_with_the_last_that_has_it) {
  seams::store_file const mapped = open("test://mapped");
  EXPECT_EQ(read(mapped), engine_bytes);  // the engine still serves reads
  auto access = store_->access(mapped);
  ASSERT_EQ(access.memory.bytes.size(), descriptor_bytes.size());
  EXPECT_TRUE(access.is_sealed);
  EXPECT_TRUE(access.reason.empty());
  EXPECT_EQ(plugin_->asked_for_memory, 1);
  seams::store_op op;
  op.kind = seams::store_op_kind::close;
  op.file = mapped;
  EXPECT_EQ(perform(std::move(op)).code, status::ok);
  EXPECT_TRUE(store_->access(mapped).memory.bytes.empty());
  ASSERT_FALSE(plugin_->held_memory.expired());
  EXPECT_EQ(
      std::memcmp(access.memory.bytes.data(), descriptor_bytes.data(), descriptor_bytes.size()), 0);
  access = {};
  EXPECT_TRUE(plugin_->held_memory.expired());
}

TEST_P(local_engine_test, says_why_a_file_is_not_in_memory) {
  EXPECT_EQ(store_->access(open("test://remote")).reason, "far away");
  seams::store_file const written = open("test://mapped", {.read = true, .write = true});
  EXPECT_TRUE(store_->access(written).memory.bytes.empty());
  EXPECT_EQ(plugin_->asked_for_memory, 1);  // not requested for a file open for writing
}

TEST_P(local_engine_test, reports_how_the_plugin_fills_the_window) {
  auto const gpu = seams::host_gpu_open();
  std::vector<std::byte> memory(4096);
  store_->attach({memory.data(), memory.size(), true, &gpu->direct_files()}, true);
  EXPECT_EQ(plugin_->window_size, memory.size());
  seams::store_file const local = open("test://local"), remote = open("test://remote");
  EXPECT_EQ(store_->access(remote).direct.kind, seams::direct_kind::compatible) << "as any store";
  plugin_->offer = {seams::direct_kind::direct, {}};
  EXPECT_EQ(store_->access(remote).direct.kind, seams::direct_kind::direct);
  EXPECT_EQ(store_->access(local).direct.kind, seams::direct_kind::compatible) << "a local file";
}

// Holds however many reads of other files are blocked in the engine.
TEST_P(local_engine_test, a_ring_needs_no_thread_of_the_engine) {
  if (!GetParam() || file_ring_probe() != status::ok)
    GTEST_SKIP() << "no ring";
  seams::store_file const local = open("test://local"), remote = open("test://remote");
  plugin_->held = true;
  std::vector<std::string> places(20, std::string(100, '\0'));
  for (std::string &place : places)
    ASSERT_EQ(queue_->post(read_op(remote, 0, place)), status::ok);
  EXPECT_EQ(read(local), descriptor_bytes);
  plugin_->held = false;
  seams::store_completion done[1];
  for (size_t remaining = places.size(); remaining > 0; remaining -= queue_->poll(done))
    std::this_thread::sleep_for(std::chrono::microseconds{50});
}

std::string mode_name(const testing::TestParamInfo<bool> &info) {
  return info.param ? "ring" : "threads";
}
INSTANTIATE_TEST_SUITE_P(ways, local_engine_test, testing::Values(true, false), mode_name);

}  // namespace
}  // namespace tanada::backends
