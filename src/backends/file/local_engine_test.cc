// Goal: what a plugin's engine has on this machine is read by its descriptor, and everything else
// by the engine.
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

namespace tanada::port {
namespace {

constexpr std::string_view here = "bytes of the descriptor", there = "bytes of the engine";

// Files below "test://local" have a descriptor, those below "test://mapped" memory; reads by the
// engine's own call tell other bytes, so that each way shows.
class plugin_engine final : public blocking_engine {
 public:
  explicit plugin_engine(int descriptor) : descriptor_{descriptor} {}

  const char *scheme() const noexcept override {
    return "test";
  }
  status open(const std::string &url, store_open_flags, store_file &file,
              store_stat &stat) override {
    file = ++count_ * 2 + (url.starts_with("test://local") ? 1 : 0);
    stat.size = here.size();
    if (url.starts_with("test://mapped"))
      mapped_file = file;
    return status::ok;
  }
  status close(store_file, store_stat &) override {
    return status::ok;
  }
  status read(store_file, uint64_t offset, std::span<const store_buffer> buffers,
              uint64_t &size) override {
    while (held)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    size = std::min(buffers[0].size, there.size() - size_t(offset));
    std::memcpy(buffers[0].addr, there.data() + offset, size);
    return status::ok;
  }
  status write(store_file, uint64_t, std::span<const store_buffer> buffers,
               uint64_t &size) override {
    size = buffers[0].size;
    return status::ok;
  }
  status stat(store_file, store_stat &) override {
    return status::ok;
  }
  status truncate(store_file, uint64_t) override {
    return status::ok;
  }
  status sync(store_file) override {
    return status::ok;
  }
  status unlink(const std::string &) override {
    return status::ok;
  }
  status list(const std::string &, std::vector<std::string> &) override {
    return status::ok;
  }
  int descriptor(store_file file) const override {
    return file % 2 == 1 ? descriptor_ : -1;
  }
  store_memory memory(store_file file, std::string &reason) override {
    asked_for_memory++;
    if (file != mapped_file) {
      reason = "far away";
      return {};
    }
    auto const hold = std::make_shared<std::string>(here);
    held_memory = hold;
    return {std::as_bytes(std::span{*hold}), hold};
  }

  std::atomic<bool> held{false};
  std::atomic<store_file> mapped_file{0};
  std::atomic<int> asked_for_memory{0};
  std::weak_ptr<std::string> held_memory;

 private:
  int descriptor_;
  std::atomic<store_file> count_{0};
};

class local_engine_test : public testing::TestWithParam<bool> {  // with a ring
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tanada-local-XXXXXX").string();
    descriptor_ = mkstemp(name.data());
    ASSERT_GE(descriptor_, 0);
    unlink(name.c_str());
    ASSERT_EQ(write(descriptor_, here.data(), here.size()), ssize_t(here.size()));
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

  store_completion perform(store_op op) {
    EXPECT_EQ(queue_->post(std::move(op)), status::ok);
    store_completion done[1];
    done[0].code = status::timed_out;
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (queue_->poll(done) == 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    return done[0];
  }
  store_file open(const std::string &url, store_open_flags flags = {.read = true}) {
    store_op op;
    op.kind = store_op_kind::open;
    op.url = url;
    op.open_flags = flags;
    auto const done = perform(std::move(op));
    EXPECT_EQ(done.code, status::ok);
    return done.file;
  }
  static store_op reading(store_file file, uint64_t offset, std::string &to) {
    store_op op;
    op.file = file;
    op.offset = offset;
    op.buffers = {{reinterpret_cast<std::byte *>(to.data()), to.size()}};
    return op;
  }
  std::string read(store_file file, uint64_t offset = 0) {
    bytes_.assign(100, '\0');
    auto const done = perform(reading(file, offset, bytes_));
    EXPECT_EQ(done.code, status::ok);
    return bytes_.substr(0, done.size);
  }

  std::string bytes_;
  int descriptor_ = -1;
  std::shared_ptr<plugin_engine> plugin_;
  std::unique_ptr<store> store_;
  std::unique_ptr<store_queue> queue_;
};

TEST_P(local_engine_test, reads_a_local_file_by_its_descriptor) {
  store_file const local = open("test://local"), remote = open("test://remote");
  EXPECT_EQ(read(local), here);
  EXPECT_EQ(read(local, 6), here.substr(6));
  EXPECT_EQ(read(remote), there);
  // Its own descriptor: the engine may close its one at any time.
  close(std::exchange(descriptor_, -1));
  EXPECT_EQ(read(local), here);
  store_op op;
  op.kind = store_op_kind::close;
  op.file = local;
  EXPECT_EQ(perform(std::move(op)).code, status::ok);
  EXPECT_EQ(read(local), there);  // the engine's to refuse
}

TEST_P(local_engine_test, leaves_a_file_open_to_write_to_the_engine) {
  store_file const local = open("test://local", {.read = true, .write = true});
  EXPECT_EQ(read(local), there);
  EXPECT_EQ(store_->access(local).cached_descriptor, -1);
}

TEST_P(local_engine_test, tells_the_descriptor) {
  store_file const local = open("test://local"), remote = open("test://remote");
  auto const found = store_->access(local);
  int const told = found.memory_descriptor >= 0 ? found.memory_descriptor : found.cached_descriptor;
  char bytes[100];
  ASSERT_EQ(pread(told, bytes, sizeof bytes, 0), ssize_t(here.size()));
  EXPECT_EQ(store_->access(remote).cached_descriptor, -1);
  EXPECT_EQ(store_->access(remote).memory_descriptor, -1);
}

TEST_P(local_engine_test, tells_the_memory_and_lets_go_with_the_last_that_has_it) {
  store_file const mapped = open("test://mapped");
  EXPECT_EQ(read(mapped), there);  // reads stay the engine's
  auto found = store_->access(mapped);
  ASSERT_EQ(found.memory.bytes.size(), here.size());
  EXPECT_TRUE(found.sealed);
  EXPECT_TRUE(found.reason.empty());
  EXPECT_EQ(plugin_->asked_for_memory, 1);
  store_op op;
  op.kind = store_op_kind::close;
  op.file = mapped;
  EXPECT_EQ(perform(std::move(op)).code, status::ok);
  EXPECT_TRUE(store_->access(mapped).memory.bytes.empty());
  ASSERT_FALSE(plugin_->held_memory.expired());
  EXPECT_EQ(std::memcmp(found.memory.bytes.data(), here.data(), here.size()), 0);
  found = {};
  EXPECT_TRUE(plugin_->held_memory.expired());
}

TEST_P(local_engine_test, says_why_a_file_is_not_in_memory) {
  EXPECT_EQ(store_->access(open("test://remote")).reason, "far away");
  store_file const written = open("test://mapped", {.read = true, .write = true});
  EXPECT_TRUE(store_->access(written).memory.bytes.empty());
  EXPECT_EQ(plugin_->asked_for_memory, 1);  // who has it open to write is not asked for
}

// However many reads of other files are stuck in the engine.
TEST_P(local_engine_test, a_ring_needs_no_thread_of_the_engine) {
  if (!GetParam() || file_ring_probe() != status::ok)
    GTEST_SKIP() << "no ring";
  store_file const local = open("test://local"), remote = open("test://remote");
  plugin_->held = true;
  std::vector<std::string> places(20, std::string(100, '\0'));
  for (std::string &place : places)
    ASSERT_EQ(queue_->post(reading(remote, 0, place)), status::ok);
  EXPECT_EQ(read(local), here);
  plugin_->held = false;
  store_completion done[1];
  for (size_t left = places.size(); left > 0; left -= queue_->poll(done))
    std::this_thread::sleep_for(std::chrono::microseconds{50});
}

std::string way_name(const testing::TestParamInfo<bool> &info) {
  return info.param ? "ring" : "threads";
}
INSTANTIATE_TEST_SUITE_P(ways, local_engine_test, testing::Values(true, false), way_name);

}  // namespace
}  // namespace tanada::port
