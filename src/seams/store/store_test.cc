// Unit tests below the stores: URLs, the registry, and the guarantees of the worker pool.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>

#include "backends/file/io_vectors.hpp"
#include "backends/mem/mem_store.hpp"
#include "backends/registry/store_registry.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/store/blocking_store.hpp"
#include "seams/store/store_op_check.hpp"
#include "seams/store/store_url.hpp"
#include "seams/store/striped_mutex.hpp"

namespace tanada::seams {
namespace {

TEST(url_scheme, tells_urls_from_paths) {
  EXPECT_EQ(url_scheme("file:///a").value(), "file");
  EXPECT_EQ(url_scheme("/a/b").value(), "file");
  EXPECT_EQ(url_scheme("a:b").value(), "file");
  EXPECT_EQ(url_scheme("/tmp/x://y").value(), "file");
  EXPECT_EQ(url_scheme("mem://x").value(), "mem");
  EXPECT_EQ(url_scheme("gfarm://host:601/x").value(), "gfarm");
  for (auto const *bad : {"", "://x", "9a://x", "a b://x", "MEM://x"}) {
    EXPECT_EQ(url_scheme(bad).error(), status::invalid) << bad;
  }
}

TEST(store_registry, opens_a_store_once) {
  backends::store_registry registry;
  auto first = registry.find("mem://a"), second = registry.find("mem://b");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.value(), second.value());
  EXPECT_EQ(registry.find("relative/path").value()->scheme(), "file");
}

TEST(store_registry, tells_what_is_open_without_opening_it) {
  backends::store_registry registry;
  ASSERT_TRUE(registry.find_open("/a").ok());
  EXPECT_EQ(registry.find_open("/a").value(), nullptr);
  EXPECT_EQ(registry.find_open("nosuch://a").value(), nullptr);
  EXPECT_EQ(registry.find_open("://").error(), status::invalid);
  store *const opened = registry.find("/a").value();
  EXPECT_EQ(registry.find_open("/b").value(), opened);
  EXPECT_NE(registry.find_open("mem://a").value(), nullptr);  // opens at once
}

TEST(striped_mutex, keeps_readers_from_a_writer_of_any_thread) {
  striped_mutex mutex;
  uint64_t first = 0, second = 0, torn = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; i++)
    readers.emplace_back([&] {
      for (int round = 0; round < 5'000; round++) {
        std::shared_lock const lock{mutex};
        if (first != second)
          torn++;
      }
    });
  for (int round = 0; round < 2'000; round++) {
    std::unique_lock const lock{mutex};
    first++;
    second++;
  }
  for (auto &reader : readers)
    reader.join();
  EXPECT_EQ(torn, 0u);
}

TEST(mem_store, performs_inside_the_call) {
  auto const store = std::move(backends::mem_store_open()).value();
  auto const queue = std::move(store->queue_create(1)).value();
  auto const perform = [&](const store_op &op) {
    store_completion done;
    EXPECT_TRUE(queue->try_perform(op, done));
    EXPECT_EQ(done.op_id, op.op_id);
    EXPECT_EQ(queue->pending_count(), 0u);
    return done;
  };
  store_op op;
  op.kind = store_op_kind::open;
  op.op_id = 7;
  op.url = "mem://store_test/inside";
  op.open_flags = {.read = true, .write = true, .create = true};
  op.file = perform(op).file;
  std::byte wrote{42}, read{0};
  op.kind = store_op_kind::write;
  op.offset = 5;
  op.buffers = {{&wrote, 1}};
  EXPECT_EQ(perform(op).size, 1u);
  op.kind = store_op_kind::read;
  op.buffers = {{&read, 1}};
  EXPECT_EQ(perform(op).size, 1u);
  EXPECT_EQ(read, wrote);
  op.buffers = {{nullptr, 1}};
  EXPECT_EQ(perform(op).code, status::invalid);
  op.kind = store_op_kind::close;
  EXPECT_EQ(perform(op).code, status::ok);
  EXPECT_EQ(perform(op).code, status::bad_file);
  op.kind = store_op_kind::unlink;
  EXPECT_EQ(perform(op).code, status::ok);
}

TEST(store_registry, an_unknown_scheme_lists_those_known) {
  backends::store_registry registry;
  EXPECT_EQ(registry.find("nosuch://x").error(), status::invalid);
  for (auto const *scheme : {"nosuch", "file", "mem", "gfarm", "gluster", "pool"}) {
    EXPECT_NE(last_message().find(scheme), std::string::npos) << last_message();
  }
}

size_t line_count(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t position = text.find(part); position != std::string::npos;
       position = text.find(part, position + 1))
    count++;
  return count;
}

// Every block of a kernel may open the same URL.
TEST(store_registry, logs_a_url_without_a_store_once) {
  backends::store_registry registry;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10; i++) {
    EXPECT_EQ(registry.find("nosuch://x").error(), status::invalid);
    EXPECT_NE(last_message().find("nosuch://x: no store"), std::string::npos) << last_message();
    EXPECT_EQ(registry.find_open("BAD://x").error(), status::invalid);
    EXPECT_EQ(registry.find("BAD://x").error(), status::invalid);
    EXPECT_NE(last_message().find("BAD://x"), std::string::npos) << last_message();
  }
  std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line_count(lines, "nosuch://x: no store"), 1u) << lines;
  EXPECT_EQ(line_count(lines, "BAD://x"), 1u) << lines;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; i++)
    EXPECT_EQ(registry.find("nosuch://" + std::to_string(i)).error(), status::invalid);
  lines = testing::internal::GetCapturedStderr();
  EXPECT_LT(line_count(lines, "\n"), backends::store_registry::unknown_url_count_max + 1) << lines;
  EXPECT_EQ(line_count(lines, "further ones are not logged"), 1u) << lines;
}

TEST(store_registry, takes_a_store_of_the_callers) {
  backends::store_registry registry;
  auto own_store = backends::mem_store_open();
  ASSERT_TRUE(own_store.ok());
  store *const expected = own_store.value().get();
  ASSERT_TRUE(registry.find("mem://a").ok());
  registry.add(std::move(own_store).value());
  EXPECT_EQ(registry.find("mem://a").value(), expected);
}

TEST(io_vectors, advances_over_partial_transfers) {
  std::byte bytes[10];
  std::vector<store_buffer> const buffers = {{bytes, 3}, {bytes, 0}, {bytes + 3, 7}};
  backends::io_vectors remaining{buffers};
  EXPECT_EQ(remaining.next_count(), 2u);
  remaining.advance(2);
  EXPECT_EQ(remaining.next()->iov_base, bytes + 2);
  remaining.advance(2);
  EXPECT_EQ(remaining.next()->iov_base, bytes + 4);
  EXPECT_EQ(remaining.next()->iov_len, 6u);
  remaining.advance(6);
  EXPECT_TRUE(remaining.done());
}

TEST(listed_name, folds_deeper_levels) {
  EXPECT_EQ(listed_name("a/b", "a"), "a/");
  EXPECT_EQ(listed_name("a/b/c", "a/"), "a/b/");
  EXPECT_EQ(listed_name("ab", "a"), "ab");
  EXPECT_EQ(listed_name("b", "a"), "");
}

// An engine on which reads of file 1 stall until release(). Other files never stall.
class stalling_engine final : public blocking_engine {
 public:
  const char *scheme() const noexcept override {
    return "stall";
  }
  status open(const std::string &, store_open_flags, store_file &, store_stat &) override {
    return status::ok;
  }
  status close(store_file, store_stat &) override {
    return status::ok;
  }
  status read(store_file file, uint64_t, std::span<const store_buffer>, uint64_t &) override {
    std::unique_lock lock{mutex_};
    if (file == 1) {
      stalled_++;
      released_.wait(lock, [&] { return open_; });
    }
    return status::ok;
  }
  status write(store_file, uint64_t, std::span<const store_buffer>, uint64_t &) override {
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

  void release() {
    std::lock_guard lock{mutex_};
    open_ = true;
    released_.notify_all();
  }
  uint32_t stalled() {
    std::lock_guard lock{mutex_};
    return stalled_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  bool open_ = false;
  uint32_t stalled_ = 0;
};

store_op read_of(store_file file, uint64_t op_id, uint64_t deadline_ns = ~uint64_t{0}) {
  store_op op;
  op.file = file;
  op.op_id = op_id;
  op.deadline_ns = deadline_ns;
  return op;
}

// Reaps until `count` completions have arrived or a second has passed.
std::vector<store_completion> reap(store_queue &queue, size_t count) {
  std::vector<store_completion> completions;
  uint64_t const limit_ns = deadline_after(monotonic_clock().now_ns(), 1'000'000'000);
  while (completions.size() < count && monotonic_clock().now_ns() < limit_ns) {
    store_completion done[4];
    size_t const reaped = queue.poll(done);
    completions.insert(completions.end(), done, done + reaped);
    if (reaped == 0)
      monotonic_clock().sleep_ns(100'000);
  }
  return completions;
}

struct stalled_store {
  std::shared_ptr<stalling_engine> engine = std::make_shared<stalling_engine>();
  std::unique_ptr<store> instance;
  std::unique_ptr<store_queue> queue;

  explicit stalled_store(blocking_limits limits = {})
      : instance{blocking_store_create(engine, limits)} {
    auto created = instance->queue_create(128);
    EXPECT_TRUE(created.ok());
    queue = std::move(created).value();
  }
};

TEST(blocking_store, a_stalled_file_does_not_stop_others) {
  stalled_store subject;
  for (uint64_t i = 0; i < 40; i++)
    ASSERT_EQ(subject.queue->post(read_of(1, i)), status::ok);
  for (uint64_t i = 100; i < 140; i++)
    ASSERT_EQ(subject.queue->post(read_of(i, i)), status::ok);
  auto const others = reap(*subject.queue, 40);
  ASSERT_EQ(others.size(), 40u);
  for (const auto &done : others)
    EXPECT_GE(done.op_id, 100u);
  // The last of the file's workers may still be on its way.
  for (int i = 0; i < 1000 && subject.engine->stalled() < blocking_limits{}.workers_per_file; i++)
    monotonic_clock().sleep_ns(1'000'000);
  EXPECT_EQ(subject.engine->stalled(), blocking_limits{}.workers_per_file);
  subject.engine->release();
  EXPECT_EQ(reap(*subject.queue, 40).size(), 40u);
  EXPECT_EQ(subject.queue->pending_count(), 0u);
}

TEST(blocking_store, grows_when_every_worker_is_stuck) {
  stalled_store subject{{.worker_count = 2, .workers_per_file = 2, .stall_ns = 1'000'000}};
  for (uint64_t i = 0; i < 2; i++)
    ASSERT_EQ(subject.queue->post(read_of(1, i)), status::ok);
  while (subject.engine->stalled() < 2)
    monotonic_clock().sleep_ns(100'000);
  ASSERT_EQ(subject.queue->post(read_of(2, 9)), status::ok);
  auto const done = reap(*subject.queue, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].op_id, 9u);
  subject.engine->release();
  EXPECT_EQ(reap(*subject.queue, 2).size(), 2u);
}

TEST(blocking_store, a_listener_is_called_when_a_completion_can_be_reaped) {
  stalled_store subject;
  EXPECT_FALSE(subject.queue->is_listened());
  std::atomic<uint32_t> call_count{0};
  subject.queue->set_listener([&] { call_count++; });
  EXPECT_TRUE(subject.queue->is_listened());
  for (uint32_t i = 1; i <= 200; i++) {
    ASSERT_EQ(subject.queue->post(read_of(100 + i, i)), status::ok);
    for (int wait = 0; wait < 10'000 && call_count < i; wait++)
      monotonic_clock().sleep_ns(1'000'000);
    ASSERT_EQ(call_count, i);
    store_completion done[4];
    ASSERT_EQ(subject.queue->poll(done), 1u);
    EXPECT_EQ(done[0].op_id, i);
  }
}

TEST(blocking_store, a_destroyed_queue_calls_no_listener) {
  stalled_store subject{{.abandon_ns = 10'000'000}};
  std::atomic<uint32_t> call_count{0};
  subject.queue->set_listener([&] { call_count++; });
  ASSERT_EQ(subject.queue->post(read_of(1, 1)), status::ok);
  while (subject.engine->stalled() < 1)
    monotonic_clock().sleep_ns(100'000);
  subject.queue.reset();
  subject.engine->release();
  monotonic_clock().sleep_ns(20'000'000);
  EXPECT_EQ(call_count, 0u);
}

TEST(blocking_store, an_operation_not_begun_by_its_deadline_is_timed_out) {
  stalled_store subject{{.workers_per_file = 1}};
  ASSERT_EQ(subject.queue->post(read_of(1, 1)), status::ok);
  while (subject.engine->stalled() < 1)
    monotonic_clock().sleep_ns(100'000);
  uint64_t const deadline_ns = monotonic_clock().now_ns() + 20'000'000;
  ASSERT_EQ(subject.queue->post(read_of(1, 2, deadline_ns)), status::ok);
  auto const late = reap(*subject.queue, 1);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].op_id, 2u);
  EXPECT_EQ(late[0].code, status::timed_out);
  EXPECT_GE(monotonic_clock().now_ns(), deadline_ns);
  subject.engine->release();
  EXPECT_EQ(reap(*subject.queue, 1).size(), 1u);
}

TEST(blocking_store, a_stuck_engine_does_not_hold_up_its_destructors) {
  auto const engine = std::make_shared<stalling_engine>();
  uint64_t const begin_ns = monotonic_clock().now_ns();
  {
    stalled_store subject{{.abandon_ns = 100'000'000}};
    subject.instance = blocking_store_create(engine, {.abandon_ns = 100'000'000});
    subject.queue = std::move(subject.instance->queue_create(4)).value();
    ASSERT_EQ(subject.queue->post(read_of(1, 1)), status::ok);
    while (engine->stalled() < 1)
      monotonic_clock().sleep_ns(100'000);
  }
  EXPECT_LT(monotonic_clock().now_ns() - begin_ns, 2'000'000'000u);
  engine->release();
  monotonic_clock().sleep_ns(20'000'000);  // the thread left behind ends
}

TEST(mem_store, keeps_its_limit) {
  ASSERT_EQ(setenv("TND_MEM_STORE_SIZE_MAX", "1MiB", 1), 0);
  auto opened = backends::mem_store_open();
  unsetenv("TND_MEM_STORE_SIZE_MAX");
  ASSERT_TRUE(opened.ok());
  auto const queue = std::move(opened.value()->queue_create(4)).value();
  auto const run = [&](store_op op) {
    EXPECT_EQ(queue->post(std::move(op)), status::ok);
    store_completion done[1];
    EXPECT_EQ(queue->poll(done), 1u);
    return done[0];
  };
  store_op open;
  open.kind = store_op_kind::open;
  open.url = "mem://limited";
  open.open_flags = {.read = true, .write = true, .create = true};
  store_op write;
  write.kind = store_op_kind::write;
  write.file = run(open).file;
  std::vector<std::byte> bytes(1 << 20);
  write.buffers = {{bytes.data(), bytes.size()}};
  EXPECT_EQ(run(write).code, status::ok);
  write.offset = 1 << 20;
  auto const full = run(write);
  EXPECT_EQ(full.code, status::no_space);
  EXPECT_EQ(full.size, 0u);
  store_op unlink;
  unlink.kind = store_op_kind::unlink;
  unlink.url = "mem://limited";
  EXPECT_EQ(run(unlink).code, status::ok);
  store_op close;
  close.kind = store_op_kind::close;
  close.file = write.file;
  EXPECT_EQ(run(close).code, status::ok);
  EXPECT_TRUE(backends::mem_store_open().ok());  // the limit is 8 GiB again
}

}  // namespace
}  // namespace tanada::seams
