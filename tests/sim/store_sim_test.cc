// Goal: the completions of a simulated store agree with its bytes, whatever it does: errors, torn
// writes, delays, reordering, stalls, a capacity, deadlines. Method: random operations on a few
// files, each file's next one posted when the last is complete, checked against a reference; 2,000
// seeds. One seed twice gives the same trace. Lost writes prove that the checker can fail.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace tanada::sim {
namespace {

using seams::store_completion;
using seams::store_op;
using seams::store_op_kind;

// The expected content of a file, and its operations in flight.
struct reference_file {
  std::string bytes;
  seams::store_file handle = seams::no_store_file;
  std::optional<store_op> running;
  std::string buffer;
  uint64_t op_count = 0;
};

class store_run {
 public:
  static constexpr uint32_t file_count = 4, ops_per_file = 30;

  using plant = uint32_t store_faults::*;

  explicit store_run(uint64_t seed, plant planted = nullptr)
      : world_{seed}, store_{world_, draw_faults(planted)} {
    queue_ = std::move(store_.queue_create(file_count)).value();
    if (world_.random.chance(30)) {
      world_.schedule(50'000, [this] { store_.stall(); });
      world_.schedule(400'000, [this] { store_.heal(); });
    }
  }

  // False: the store has contradicted itself; why() has the details.
  bool run() {
    for (uint32_t i = 0; i < file_count; i++)
      begin(i);
    for (uint32_t steps = 0; steps < 100'000 && finished_ < file_count && why_.empty(); steps++) {
      store_completion done[2];
      size_t const count = queue_->poll(done);
      for (size_t i = 0; i < count; i++)
        complete(done[i]);
      if (count == 0 && !world_.step())
        break;
    }
    if (finished_ < file_count && why_.empty())
      why_ = "operations never completed";
    if (queue_->pending_count() != 0 && why_.empty())
      why_ = "operations left over";
    return why_.empty();
  }
  uint64_t trace() {
    return world_.trace();
  }
  const std::string &why() const {
    return why_;
  }

 private:
  // Every kind of fault is there in some seeds and absent in others.
  store_faults draw_faults(plant planted) {
    auto &random = world_.random;
    static constexpr status codes[] = {status::io, status::no_space, status::timed_out};
    store_faults faults;
    for (auto &error : faults.errors) {
      if (random.chance(40))
        error = {uint32_t(random.below(30)), codes[random.below(3)]};
    }
    if (random.chance(50))
      faults.torn_write_percent = uint32_t(random.below(40));
    faults.delay_ns_max = 1'000 + random.below(100'000);
    faults.reorder = random.chance(70);
    if (random.chance(20))
      faults.capacity = 2'000 + random.below(10'000);
    if (planted != nullptr)
      faults.*planted = 10;
    return faults;
  }

  std::string url(uint32_t index) {
    return "sim://file" + std::to_string(index);
  }

  void begin(uint32_t index) {
    auto &file = files_[index];
    if (file.op_count++ == ops_per_file) {
      finished_++;
      return;
    }
    auto &random = world_.random;
    store_op op;
    op.op_id = index;
    op.file = file.handle;
    if (file.handle == seams::no_store_file) {
      op.kind = store_op_kind::open;
      op.url = url(index);
      op.open_flags = {.read = true, .write = true, .create = true};
    } else {
      static constexpr store_op_kind kinds[] = {store_op_kind::write,
                                                store_op_kind::write,
                                                store_op_kind::read,
                                                store_op_kind::read,
                                                store_op_kind::stat,
                                                store_op_kind::truncate,
                                                store_op_kind::sync,
                                                store_op_kind::close};
      op.kind = kinds[random.below(std::size(kinds))];
      op.offset = random.below(3'000);
      op.size = random.below(4'000);
      file.buffer.assign(1 + random.below(1'500),
                         op.kind == store_op_kind::write ? char('a' + random.below(26)) : '?');
      size_t const cut = random.below(file.buffer.size());
      auto *const bytes = reinterpret_cast<std::byte *>(file.buffer.data());
      op.buffers = {{bytes, cut}, {bytes + cut, file.buffer.size() - cut}};
      if (random.chance(20))
        op.deadline_ns = world_.now_ns() + random.below(150'000);
    }
    file.running = op;
    if (queue_->post(op) != status::ok)
      why_ = "a post was refused though the queue had room";
  }

  void complete(const store_completion &done) {
    uint32_t const index = uint32_t(done.op_id);
    auto &file = files_[index];
    if (!file.running)
      return fail("a completion nobody waits for");
    store_op const op = *std::exchange(file.running, {});
    switch (op.kind) {
      case store_op_kind::open:
        if (done.code == status::ok)
          file.handle = done.file;
        break;
      case store_op_kind::close:
        if (done.code != status::timed_out)
          file.handle = seams::no_store_file;
        break;
      case store_op_kind::write:
        wrote(file, op, done);
        break;
      case store_op_kind::truncate:
        if (done.code == status::ok)
          file.bytes.resize(op.size);
        break;
      case store_op_kind::read:
        if (done.code == status::ok)
          check_read(file, op, done);
        break;
      case store_op_kind::stat:
        if (done.code == status::ok && done.stat.size != file.bytes.size())
          fail("stat gives another size");
        break;
      default:
        break;
    }
    if (why_.empty())
      begin(index);
  }

  // A failed write reports how many bytes arrived: these must be there, and nothing after them.
  void wrote(reference_file &file, const store_op &op, const store_completion &done) {
    if (done.code == status::ok && done.size != file.buffer.size())
      return fail("a write is ok and short");
    if (done.size > file.buffer.size())
      return fail("a write moved more than it had");
    if (done.size == 0)
      return;
    if (file.bytes.size() < op.offset + done.size)
      file.bytes.resize(op.offset + done.size);
    file.bytes.replace(op.offset, done.size, file.buffer, 0, done.size);
  }

  void check_read(const reference_file &file, const store_op &op, const store_completion &done) {
    std::string const expected =
        op.offset < file.bytes.size() ? file.bytes.substr(op.offset, file.buffer.size()) : "";
    if (done.size != expected.size())
      return fail("a read is of another length");
    if (file.buffer.compare(0, expected.size(), expected) != 0)
      return fail("a read gives other bytes");
  }

  void fail(const char *why) {
    why_ = why;
  }

  world world_;
  store store_;
  std::unique_ptr<seams::store_queue> queue_;
  std::array<reference_file, file_count> files_;
  uint32_t finished_ = 0;
  std::string why_;
};

TEST(store_sim, agrees_with_a_reference_under_faults) {
  const char *const wanted = std::getenv("TND_SIM_SEED");
  uint64_t const first = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1;
  uint64_t const count = wanted != nullptr ? 1 : 2'000;
  for (uint64_t seed = first; seed < first + count; seed++) {
    store_run one{seed};
    ASSERT_TRUE(one.run()) << one.why() << "; replay: TND_SIM_SEED=" << seed << " store_sim";
  }
}

TEST(store_sim, one_seed_gives_one_run) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    store_run first{seed}, second{seed}, other{seed + 1'000};
    first.run();
    second.run();
    other.run();
    ASSERT_EQ(first.trace(), second.trace()) << seed;
    ASSERT_NE(first.trace(), other.trace()) << seed;
  }
}

TEST(store_sim, a_lost_or_misdirected_write_is_caught) {
  for (auto const plant :
       {&store_faults::lost_write_percent, &store_faults::misdirected_write_percent}) {
    uint32_t caught = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
      caught += !store_run{seed, plant}.run();
    EXPECT_GE(caught, 50u);
  }
}

TEST(store_sim, a_stall_ends_with_heal_or_deadline) {
  world owner{7};
  store subject{owner};
  auto const queue = std::move(subject.queue_create(4)).value();
  store_completion done[4];
  store_op op;
  op.kind = store_op_kind::list;
  op.url = "sim://";
  subject.stall();
  ASSERT_EQ(queue->post(op), status::ok);
  op.op_id = 1;
  op.deadline_ns = 5'000'000;
  ASSERT_EQ(queue->post(op), status::ok);
  owner.advance(10'000'000);
  ASSERT_EQ(queue->poll(done), 1u);
  EXPECT_EQ(done[0].op_id, 1u);
  EXPECT_EQ(done[0].code, status::timed_out);
  subject.heal();
  owner.advance(10);
  ASSERT_EQ(queue->poll(done), 1u);
  EXPECT_EQ(done[0].code, status::ok);
}

// One operation at a time on a store whose cache is lost in a crash.
class crash_run {
 public:
  explicit crash_run(uint64_t seed)
      : owner{seed}, subject{owner, {.volatile_cache = true, .poll_advances = true}} {
    queue = std::move(subject.queue_create(4)).value();
  }
  store_completion run(store_op op) {
    EXPECT_EQ(queue->post(std::move(op)), status::ok);
    store_completion done[1];
    while (queue->poll(done) == 0) {}
    return done[0];
  }
  store_completion on_name(store_op_kind kind, const std::string &url) {
    store_op op;
    op.kind = kind;
    op.url = url;
    op.open_flags = {.read = true, .write = true, .create = true};
    auto const done = run(op);
    EXPECT_EQ(done.code, status::ok);
    return done;
  }
  seams::store_file make(const std::string &url) {
    return on_name(store_op_kind::open, url).file;
  }
  void write(seams::store_file file, uint64_t offset, std::string text) {
    store_op op;
    op.kind = store_op_kind::write;
    op.file = file;
    op.offset = offset;
    op.buffers = {{reinterpret_cast<std::byte *>(text.data()), text.size()}};
    EXPECT_EQ(run(op).code, status::ok);
  }
  status sync(seams::store_file file) {
    store_op op;
    op.kind = store_op_kind::sync;
    op.file = file;
    return run(op).code;
  }
  void sync_names() {
    on_name(store_op_kind::sync_names, "sim://d/");
  }
  void unlink(const std::string &url) {
    on_name(store_op_kind::unlink, url);
  }
  void crash() {
    queue.reset();
    subject.crash();
  }

  world owner;
  store subject;
  std::unique_ptr<seams::store_queue> queue;
};

TEST(store_sim, a_crash_keeps_what_was_synced_and_any_part_of_the_rest) {
  uint32_t torn = 0, whole = 0, none = 0, vanished = 0, back = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    crash_run one{seed};
    auto const file = one.make("sim://d/a");
    one.make("sim://d/b");
    one.write(file, 0, std::string(2048, 'a'));
    ASSERT_EQ(one.sync(file), status::ok);
    one.sync_names();
    one.write(file, 512, std::string(1024, 'b'));
    one.make("sim://d/c");
    one.unlink("sim://d/b");
    one.crash();
    std::string const left = one.subject.contents("sim://d/a").value();
    ASSERT_EQ(left.size(), 2048u);
    ASSERT_EQ(left.substr(0, 512) + left.substr(1536), std::string(1024, 'a'));
    auto const count = std::count(left.begin(), left.end(), 'b');
    ASSERT_EQ(count % 512, 0);
    torn += count == 512;
    whole += count == 1024;
    none += count == 0;
    vanished += !one.subject.contents("sim://d/c").ok();
    back += one.subject.contents("sim://d/b").ok();
  }
  for (uint32_t count : {torn, whole, none, vanished, back})
    EXPECT_GE(count, 20u);
}

TEST(store_sim, what_a_failed_sync_gave_up_is_not_saved_by_the_next) {
  uint32_t lost = 0;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    crash_run one{seed};
    auto const file = one.make("sim://d/a");
    one.sync_names();
    one.write(file, 0, std::string(512, 'a'));
    store_faults faults{.volatile_cache = true, .poll_advances = true};
    faults.errors[size_t(store_op_kind::sync)] = {100, status::io};
    one.subject.faults_set(faults);
    ASSERT_EQ(one.sync(file), status::io);
    faults.errors = {};
    one.subject.faults_set(faults);
    ASSERT_EQ(one.sync(file), status::ok);
    one.crash();
    lost += one.subject.contents("sim://d/a").value() != std::string(512, 'a');
  }
  EXPECT_GE(lost, 20u);
}

TEST(store_sim, versions_have_the_grain_asked_for) {
  world owner{7};
  store subject{owner, {.version_grain_ns = 1'000'000, .poll_advances = true}};
  auto const queue = std::move(subject.queue_create(4)).value();
  auto const run = [&](store_op op) {
    EXPECT_EQ(queue->post(op), status::ok);
    store_completion done[1];
    while (queue->poll(done) == 0) {}
    return done[0];
  };
  store_op open;
  open.kind = store_op_kind::open;
  open.url = "sim://a";
  open.open_flags = {.read = true, .write = true, .create = true};
  auto const opened = run(open);
  EXPECT_FALSE(opened.stat.is_version_stable);
  store_op write, stat;
  char byte = 'x';
  write.kind = store_op_kind::write;
  write.buffers = {{reinterpret_cast<std::byte *>(&byte), 1}};
  stat.kind = store_op_kind::stat;
  write.file = opened.file;
  stat.file = opened.file;
  EXPECT_EQ(run(write).code, status::ok);
  EXPECT_EQ(run(stat).stat.version, opened.stat.version);  // the change is too recent to be visible
  owner.advance(2'000'000);
  EXPECT_TRUE(run(stat).stat.is_version_stable);
  EXPECT_EQ(run(write).code, status::ok);
  EXPECT_NE(run(stat).stat.version, opened.stat.version);
}

}  // namespace
}  // namespace tanada::sim
