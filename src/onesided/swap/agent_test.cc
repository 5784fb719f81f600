// Tests of the swap agent with processes as threads, real memory and a store in a folder.
#include "onesided/swap/agent.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "backends/registry/store_registry.hpp"
#include "onesided/swap/residency.hpp"
#include "onesided/swap/written_pages.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::onesided::swap {
namespace {

constexpr uint32_t agent_page_count = 512;
constexpr size_t memory_size = agent_page_count * page_size;

// A process: here a thread that has mapped memory of its own.
struct member {
  std::optional<seams::shared_memory> file;
  std::byte *mapped = nullptr;
  std::vector<page_bits::word> words =
      std::vector<page_bits::word>(page_bits::word_count(agent_page_count));
  std::unique_ptr<written_pages> written;
  std::unique_ptr<residency> self;

  uint64_t resident_size() const {
    uint64_t pages = 0;
    (void)memory_file(file->descriptor(), 0, agent_page_count).for_each_present([&](page_run run) {
      pages += run.count;
    });
    return pages * page_size;
  }
  uint64_t &word(uint32_t page, uint32_t index = 0) {
    return reinterpret_cast<uint64_t *>(mapped + page * page_size)[index];
  }
};

struct agent_test : testing::Test {
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tanada-agent-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  void TearDown() override {
    agent_.reset();
    for (auto &process : members) {
      process->written.reset();
      munmap(process->mapped, memory_size);
    }
    if (is_mounted)
      umount2(folder.c_str(), MNT_DETACH);
    EXPECT_TRUE(is_mounted || std::filesystem::is_empty(folder))
        << "a swap object was not unlinked";
    std::filesystem::remove_all(folder);
  }

  void start(uint32_t count, uint64_t budget, uint32_t slots) {
    memory.resize((node_table::memory_size(count, false, 2 * node_table::copy_size) + 127) / 64);
    std::span<std::byte> const bytes{reinterpret_cast<std::byte *>(memory.data()),
                                     memory.size() * 64};
    node_table_options options{
        .rank_count = count, .budget = budget, .slots = slots, .cache_size = 64 * page_size};
    options.copies_size = 2 * node_table::copy_size;
    ASSERT_EQ(node_table::create(bytes, options), status::ok);
    shared.emplace(bytes);
    std::vector<rank_memory> memories;
    for (uint32_t i = 0; i < count; i++) {
      members.push_back(std::make_unique<member>());
      auto &process = *members.back();
      process.file.emplace(std::move(seams::shared_memory::create("test", memory_size)).value());
      process.mapped = static_cast<std::byte *>(mmap(
          nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, process.file->descriptor(), 0));
      process.written = written_pages::create({process.mapped, memory_size});
      stored.push_back({process.words.data(), agent_page_count});
      memory_file const memory_of{process.file->descriptor(), 0, agent_page_count};
      memories.push_back(
          {memory_of, stored.back(), std::move(memory_window::open(memory_of)).value()});
    }
    for (uint32_t i = 0; i < count; i++) {
      auto *const process = members[i].get();
      memory_hooks const hooks{
          .collect = [this, process, i] { process->written->collect(stored[i], agent_page_count); },
          .arm = [this, process, i] { process->written->arm(stored[i], agent_page_count); },
          .resident_size =
              [process] {
                return process->resident_size();
              }};
      process->self = std::make_unique<residency>(*shared, i, stored, hooks);
    }
    auto store = stores.find(folder);
    ASSERT_TRUE(store.ok());
    auto created = agent::create(*shared,
                                 *store.value(),
                                 std::move(memories),
                                 {.url = folder, .mover = mover_options_for(budget)});
    ASSERT_TRUE(created.ok());
    agent_ = std::make_unique<agent_thread>(*shared, std::move(created).value());
  }

  // Returns when all members have arrived, or the node table fails.
  void barrier(residency &self, wait_kind kind = wait_kind::swappable) {
    uint32_t const count = uint32_t(members.size());
    self.begin_wait(kind);
    uint32_t const goal = (arrived.fetch_add(1) / count + 1) * count;
    while (arrived.load() < goal && shared->failure() == nullptr) {
      self.prepare_swap_out();
      shared->sleep(self.rank(), 200'000);
    }
    for (uint32_t i = 0; i < count; i++)
      shared->wake(i);
    (void)self.end_wait();
  }

  template <class Part>
  void run_all(Part part) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < members.size(); i++) {
      threads.emplace_back([&, i] { part(*members[i], i); });
    }
    for (auto &thread : threads)
      thread.join();
  }

  struct alignas(64) line {
    std::byte bytes[64];
  };
  std::string folder;
  bool is_mounted = false;
  std::vector<line> memory;
  std::optional<node_table> shared;
  std::vector<std::unique_ptr<member>> members;
  std::vector<page_bits> stored;
  backends::store_registry stores;
  std::unique_ptr<agent_thread> agent_;
  std::atomic<uint32_t> arrived{0};
};

void put(residency &self,
         member &owner,
         uint32_t target,
         uint32_t page,
         uint32_t index,
         uint64_t value) {
  page_access access;
  access.target = target;
  access.is_writing = true;
  access.unit = 8;
  access.extents = {{page * page_size + index * 8, 8}};
  access.on_piece = [&](size_t, uint64_t, uint64_t, const std::byte *) {
    owner.word(page, index) = value;
  };
  if (!self.begin(std::move(access))) {
    EXPECT_EQ(self.complete(), status::ok);
  }
}

uint64_t get(residency &self, member &owner, uint32_t target, uint32_t page, uint32_t index) {
  uint64_t value = 0;
  page_access access;
  access.target = target;
  access.is_writing = false;
  access.unit = 8;
  access.extents = {{page * page_size + index * 8, 8}};
  access.on_piece = [&](size_t, uint64_t, uint64_t, const std::byte *copy) {
    if (copy == nullptr)
      value = owner.word(page, index);
    else
      std::memcpy(&value, copy, sizeof value);
  };
  if (!self.begin(std::move(access))) {
    EXPECT_EQ(self.complete(), status::ok);
  }
  return value;
}

// DRAM suffices for one member, and each needs the others' memory. Each read must return what was
// written last.
TEST_F(agent_test, memory_of_four_in_the_room_of_one) {
  constexpr uint32_t count = 4, rounds = 6;
  start(count, memory_size + memory_size / 2, 1);
  run_all([&](member &process, uint32_t rank) {
    auto &self = *process.self;
    ASSERT_EQ(self.start(getpid()), status::ok);
    ASSERT_EQ(self.reserve(memory_size), status::ok);
    for (uint32_t page = 0; page < agent_page_count; page++)
      process.word(page) = rank * 1'000'000 + page;
    barrier(self);
    for (uint32_t round = 1; round <= rounds; round++) {
      uint32_t const step = round % 3 + 1;
      for (uint32_t page = 0; page < agent_page_count; page += step)
        process.word(page) = rank * 1'000'000 + page + round * 1000;
      barrier(self);
      uint32_t const target = (rank + 1) % count;
      for (uint32_t page = 0; page < agent_page_count; page += 50 * step) {
        ASSERT_EQ(get(self, *members[target], target, page, 0),
                  target * 1'000'000 + page + round * 1000);
        put(self, *members[target], target, page, 8, round * 10 + rank);
      }
      barrier(self);
      uint32_t const source = (rank + count - 1) % count;
      for (uint32_t page = 0; page < agent_page_count; page += 50 * step) {
        ASSERT_EQ(process.word(page, 8), round * 10 + source);
      }
    }
    self.finish();
  });
  ASSERT_EQ(shared->failure(), nullptr) << shared->failure();
  EXPECT_GT(shared->counters().swaps_out, count);
  EXPECT_GT(shared->counters().bytes_served, 0u);
  EXPECT_GT(shared->counters().move_ns, 0u);
}

TEST_F(agent_test, a_store_that_is_full_ends_it_with_one_line) {
  is_mounted = mount("tanada", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
  if (!is_mounted)
    GTEST_SKIP() << "mount is not permitted";
  start(3, memory_size, 1);
  run_all([&](member &process, uint32_t) {
    auto &self = *process.self;
    if (self.start(getpid()) != status::ok || self.reserve(memory_size) != status::ok)
      return;
    for (uint32_t page = 0; page < agent_page_count; page++)
      process.word(page) = page + 1;
    barrier(self);
  });
  ASSERT_NE(shared->failure(), nullptr);
  std::string const text = shared->failure();
  EXPECT_NE(text.find("TND_COMEX_SWAP"), std::string::npos) << text;
  EXPECT_NE(text.find("space"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(agent_test, a_folder_that_is_not_there_is_said_at_once) {
  memory.resize((node_table::memory_size(1) + 127) / 64);
  std::span<std::byte> const bytes{reinterpret_cast<std::byte *>(memory.data()),
                                   memory.size() * 64};
  ASSERT_EQ(node_table::create(bytes, {.budget = 1 << 20}), status::ok);
  shared.emplace(bytes);
  page_bits::word word{0};
  auto store = stores.find(folder);
  ASSERT_TRUE(store.ok());
  std::vector<rank_memory> memories;
  memories.push_back({memory_file(-1, 0, 1), {&word, 1}});
  auto created =
      agent::create(*shared, *store.value(), std::move(memories), {.url = folder + "/none"});
  EXPECT_EQ(created.error(), status::no_entry);
}

}  // namespace
}  // namespace tanada::onesided::swap
