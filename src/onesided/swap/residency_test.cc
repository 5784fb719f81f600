// Tests of residency with processes as threads, and an agent that copies. It overwrites the memory
// of a swapped-out process, so that wrong accesses are detected.
#include "onesided/swap/residency.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

namespace tanada::onesided::swap {
namespace {

constexpr uint32_t rank_count = 6, page_count = 600;
constexpr size_t heap_size = page_count * page_size;
constexpr std::byte poison{0xEE};

struct aligned_delete {
  void operator()(std::byte *address) const {
    ::operator delete[](address, std::align_val_t{64});
  }
};

struct node {
  struct heap {
    std::vector<std::byte> memory = std::vector<std::byte>(heap_size),
                           store = std::vector<std::byte>(heap_size);
    std::vector<page_bits::word> words =
        std::vector<page_bits::word>(page_bits::word_count(page_count));
    // Requests that use a page while its process is swapped out; used by the agent.
    std::vector<uint32_t> users = std::vector<uint32_t>(page_count);
    std::vector<bool> is_cached = std::vector<bool>(page_count);
    std::vector<std::atomic<uint32_t>> locks = std::vector<std::atomic<uint32_t>>(page_count + 1);
  };

  explicit node(const node_table_options &options) : heaps(options.rank_count) {
    size_t const size = node_table::memory_size(options.rank_count, options.has_remote_origins);
    memory.reset(static_cast<std::byte *>(::operator new[](size, std::align_val_t{64})));
    std::memset(memory.get(), 0, size);
    EXPECT_EQ(node_table::create({memory.get(), size}, options), status::ok);
    shared.emplace(std::span{memory.get(), size});
    for (auto &heap_entry : heaps)
      bits.emplace_back(heap_entry.words.data(), page_count);
    for (auto const &heap_bits : bits)
      page_bits{heap_bits}.set({0, page_count});  // store and memory are both zero
  }

  static std::byte *page(std::vector<std::byte> &bytes, uint32_t index) {
    return bytes.data() + size_t{index} * page_size;
  }

  void out_page(uint32_t rank, uint32_t index) {
    auto &owner = heaps[rank];
    if (!bits[rank].test(index)) {
      std::memcpy(page(owner.store, index), page(owner.memory, index), page_size);
      bits[rank].set({index, 1});
    }
    std::memset(page(owner.memory, index), int(poison), page_size);
  }
  void in_page(uint32_t rank, uint32_t index) {
    std::memcpy(page(heaps[rank].memory, index), page(heaps[rank].store, index), page_size);
  }

  // The agent's calls: one thread.
  void serve(page_request &request) {
    for (auto const &run : request.pages()) {
      for (uint32_t i = run.first; i < run.end(); i++) {
        heaps[request.target].users[i]++;
        if (!heaps[request.target].is_cached[i])
          in_page(request.target, i);
        heaps[request.target].is_cached[i] = true;
      }
    }
    shared->grant(request);
    granted.push_back(&request);
  }
  void finish_request(page_request &request) {
    bool const is_swapped_out_now = swap::is_swapped_out(shared->state(request.target));
    for (auto const &run : request.pages()) {
      for (uint32_t i = run.first; i < run.end(); i++) {
        // A process that is resident or being swapped in has all pages, or will find these in DRAM.
        if (--heaps[request.target].users[i] > 0 || !is_swapped_out_now)
          continue;
        out_page(request.target, i);
        heaps[request.target].is_cached[i] = false;
      }
    }
    shared->recycle(request);
  }
  void step() {
    std::erase_if(granted, [&](page_request *request) {
      if (!node_table::is_complete(*request))
        return false;
      finish_request(*request);
      return true;
    });
    if (auto const next = shared->next_move()) {
      bool const is_out = next->dir == move_order::direction::swap_out;
      auto &owner = heaps[next->rank];
      for (uint32_t i = 0; i < page_count; i++) {
        if (is_out)
          out_page(next->rank, i);
        else if (!owner.is_cached[i])
          in_page(next->rank, i);
        owner.is_cached[i] = false;
      }
      shared->complete_move(*next,
                            {.resident_size = is_out ? 0 : heap_size,
                             .swapped_size = is_out ? heap_size : 0,
                             .moved_size = heap_size});
    }
    while (auto *const request = shared->next_request())
      serve(*request);
  }

  std::unique_ptr<std::byte[], aligned_delete> memory;
  std::vector<heap> heaps;
  std::vector<page_bits> bits;
  std::vector<page_request *> granted;
  std::optional<node_table> shared;
};

// The pages that a non-resident process may touch.
struct fake_pager final : demand_pager {
  bool watch() override {
    return true;
  }
  status grant(uint32_t page) override {
    has[page] = true;
    return status::ok;
  }
  void revoke(uint32_t page) override {
    has[page] = false;
  }
  void arm() override {}
  void grant_all() override {
    has.assign(page_count, false);
  }

  std::vector<bool> has = std::vector<bool>(page_count);
};

// A process: adds to words of its own and of others, and waits for all.
class process {
 public:
  process(node &shared_node,
          uint32_t rank,
          std::atomic<uint64_t> &arrivals,
          bool may_be_nonresident)
      : node_{shared_node},
        rank_{rank},
        arrivals_{arrivals},
        random_{rank + 1},
        residency_{*shared_node.shared,
                   rank,
                   shared_node.bits,
                   {.collect = [this] { node_.bits[rank_].clear({0, page_count}); },
                    .arm = [] {},
                    .resident_size = [this] { return touched_; },
                    .pager = may_be_nonresident ? &pager_ : nullptr}} {}

  void run(uint32_t rounds) {
    ASSERT_EQ(residency_.start(1), status::ok);
    ASSERT_EQ(residency_.reserve(heap_size), status::ok);
    touched_ = heap_size;
    for (uint32_t round = 1; round <= rounds && !HasFatalFailure(); round++) {
      for (uint32_t k = 0; k < (round % 3 == 0 ? 20 : 4); k++)
        add_to_own(k);
      nonresident_rounds += residency_.is_nonresident();
      for (uint32_t k = 0; k < (round % 4 == 1 ? 0 : 10); k++)
        add_to_other(k % 3 == 0);
      ASSERT_EQ(residency_.complete(), status::ok);
      barrier(round);
    }
    residency_.begin_wait(wait_kind::swappable);
    ASSERT_EQ(residency_.end_wait(), status::ok);
  }
  void wait_briefly() {
    residency_.begin_wait(wait_kind::swappable);
    node_.shared->sleep(rank_, 100'000);
    ASSERT_EQ(residency_.end_wait(), status::ok);
  }
  void check(uint64_t &sum) {
    ASSERT_EQ(residency_.is_running(), true);
    ASSERT_EQ(residency_.make_resident(), status::ok);
    auto const &bytes = node_.heaps[rank_].memory;
    for (size_t offset = 0; offset < heap_size; offset += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + offset, 8);
      ASSERT_NE(word >> 56, 0xEEu) << offset;
      sum += word;
    }
    residency_.finish();
  }
  uint64_t added = 0, nonresident_rounds = 0;

 private:
  static bool HasFatalFailure() {
    return testing::Test::HasFatalFailure();
  }

  // The process's own part of a page and those of others do not overlap.
  void add_to_own(uint32_t) {
    auto const page = uint32_t(random_() % page_count);
    size_t const offset = page * page_size;
    if (residency_.is_nonresident() && !pager_.has[page]) {
      ASSERT_EQ(residency_.handle_fault(page), status::ok);
    }
    uint64_t word;
    auto *const address = node_.heaps[rank_].memory.data() + offset;
    std::memcpy(&word, address, 8);
    word++;
    std::memcpy(address, &word, 8);
    added++;
  }

  void add(uint32_t target, uint64_t offset, uint64_t size) {
    auto *const address = node_.heaps[target].memory.data() + offset;
    for (uint64_t i = 0; i < size; i += 8) {
      uint64_t word;
      std::memcpy(&word, address + i, 8);
      EXPECT_NE(word >> 56, 0xEEu) << "process " << rank_ << ": memory of " << target << " is away";
      word++;
      std::memcpy(address + i, &word, 8);
    }
  }

  void add_to_other(bool is_long) {
    uint32_t const target = uint32_t(random_() % rank_count);
    if (target == rank_)
      return;
    std::vector<extent> extents;
    uint64_t page = random_() % 64;
    for (uint32_t i = 0; i < (is_long ? 1u : 40u); i++) {
      uint64_t const offset = page * page_size + 8 + random_() % 100 * 8;
      uint64_t const size = is_long ? (random_() % 300 + 1) * 8 : 16;
      if (offset + size > (page + 1) * page_size)
        continue;
      extents.push_back({offset, size});
      page += random_() % 9 + 1;
    }
    for (auto const &range : extents)
      added += range.size / 8;
    page_access access{
        .target = target, .is_writing = true, .unit = 8, .extents = extents, .on_piece = {}};
    access.on_piece = [this, target, extents](
                          size_t index, uint64_t skip, uint64_t size, const std::byte *) {
      auto &lock = node_.heaps[target].locks[0];
      while (lock.exchange(1, std::memory_order_acquire) != 0)
        std::this_thread::yield();
      add(target, extents[index].offset + skip, size);
      lock.store(0, std::memory_order_release);
    };
    (void)residency_.begin(std::move(access));
  }

  void barrier(uint32_t round) {
    residency_.begin_wait(wait_kind::swappable);
    arrivals_.fetch_add(1);
    while (arrivals_.load() < uint64_t{round} * rank_count && node_.shared->failure() == nullptr) {
      residency_.prepare_swap_out();
      node_.shared->sleep(rank_, 100'000);
    }
    ASSERT_EQ(residency_.end_wait(), status::ok);
  }

  node &node_;
  uint32_t rank_;
  std::atomic<uint64_t> &arrivals_;
  std::mt19937_64 random_;
  uint64_t touched_ = 0;  // bytes of its heap
  fake_pager pager_;
  residency residency_;
};

// What processes of other nodes add to a rank's memory, by a thread of its process. The thread is
// never notified when the rank is swapped out. It makes several accesses at a time.
uint64_t serve_remote_requests(node &shared_node,
                               uint32_t rank,
                               const std::atomic<bool> &is_stopping) {
  page_request_queue queue{
      *shared_node.shared, shared_node.shared->remote_origin_for(rank), shared_node.bits};
  std::mt19937_64 random{rank + 100};
  uint64_t added = 0;
  auto &lock = shared_node.heaps[rank].locks[0];
  while (!is_stopping) {
    for (uint32_t k = 0; k < 4; k++) {
      page_access access{
          .target = rank, .is_writing = true, .unit = 8, .extents = {}, .on_piece = {}};
      uint64_t page = random() % 64;
      for (uint32_t i = 0; i < 30; i++, page += random() % 9 + 1)
        access.extents.push_back({page * page_size + 2048 + random() % 100 * 8, 16});
      added += 2 * access.extents.size();
      access.on_piece = [&shared_node, &lock, rank, extents = access.extents](
                            size_t index, uint64_t skip, uint64_t size, const std::byte *) {
        while (lock.exchange(1, std::memory_order_acquire) != 0)
          std::this_thread::yield();
        auto *const address = shared_node.heaps[rank].memory.data() + extents[index].offset + skip;
        for (uint64_t i = 0; i < size; i += 8) {
          uint64_t word;
          std::memcpy(&word, address + i, 8);
          EXPECT_NE(word >> 56, 0xEEu) << "memory of " << rank << " is away";
          word++;
          std::memcpy(address + i, &word, 8);
        }
        lock.store(0, std::memory_order_release);
      };
      (void)queue.begin(std::move(access));
    }
    while (!queue.is_empty() && shared_node.shared->failure() == nullptr) {
      queue.poll();
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }
  return added;
}

// Returns the number of rounds that processes began and ended without their memory.
uint64_t run_processes(uint64_t budget,
                       uint32_t slots,
                       uint32_t rounds,
                       bool may_be_nonresident = false,
                       bool has_remote_requests = false) {
  node shared_node{{.rank_count = rank_count,
                    .budget = budget,
                    .slots = slots,
                    .has_remote_origins = has_remote_requests,
                    .cache_size = 1 << 20,
                    .swap_out_delay_ns = 100'000}};
  std::atomic<bool> is_stopping{false};
  std::thread agent{[&] {
    while (!is_stopping) {
      shared_node.step();
      shared_node.shared->sleep_agent(200'000);
    }
  }};
  std::atomic<uint64_t> arrivals{0}, nonresident_rounds{0}, added{0}, sum{0};
  std::atomic<bool> has_ended{false};
  std::atomic<uint32_t> serving{has_remote_requests ? rank_count : 0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; has_remote_requests && i < rank_count; i++) {
    threads.emplace_back([&, i] {
      added += serve_remote_requests(shared_node, i, has_ended);
      serving--;
    });
  }
  for (uint32_t i = 0; i < rank_count; i++) {
    threads.emplace_back([&, i] {
      process member{shared_node, i, arrivals, may_be_nonresident};
      member.run(rounds);
      has_ended = true;
      while (serving > 0)
        member.wait_briefly();
      uint64_t total = 0;
      member.check(total);
      added += member.added;
      nonresident_rounds += member.nonresident_rounds;
      sum += total;
    });
  }
  for (auto &thread : threads)
    thread.join();
  is_stopping = true;
  shared_node.shared->wake_agent();
  agent.join();
  EXPECT_EQ(shared_node.shared->failure(), nullptr);
  EXPECT_EQ(sum, added);
  if (budget < rank_count * heap_size)
    EXPECT_GT(shared_node.shared->counters().swaps_out, 0u);
  else
    EXPECT_EQ(shared_node.shared->counters().swaps_out, 0u);
  return nonresident_rounds;
}

TEST(residency, stays_where_there_is_room) {
  run_processes(rank_count * heap_size, 2, 20);
}
TEST(residency, swaps_where_there_is_room_for_half) {
  run_processes(rank_count * heap_size / 2, 2, 20);
}
TEST(residency, swaps_where_there_is_room_for_one) {
  run_processes(heap_size, 2, 10);
}
TEST(residency, strangers_find_what_is_away) {
  run_processes(heap_size, 2, 10, false, true);
}
TEST(residency, strangers_find_what_who_runs_goes_without) {
  run_processes(heap_size, 2, 10, true, true);
}
TEST(residency, swaps_with_a_slot_for_each) {
  run_processes(2 * heap_size, rank_count, 10);
}

TEST(residency, goes_on_without_its_memory_where_it_touches_little) {
  EXPECT_GT(run_processes(heap_size, 2, 30, true), 0u);
  EXPECT_GT(run_processes(rank_count * heap_size / 2, 2, 30, true), 0u);
  EXPECT_EQ(run_processes(rank_count * heap_size, 2, 10, true), 0u);
}

TEST(residency, refuses_more_than_the_budget) {
  node shared_node{{.rank_count = 1, .budget = 1000, .slots = 1}};
  residency tested{*shared_node.shared,
                   0,
                   shared_node.bits,
                   {.collect = [] {},
                    .arm = [] {},
                    .resident_size =
                        [] {
                          return uint64_t{0};
                        }}};
  ASSERT_EQ(tested.start(1), status::ok);
  EXPECT_EQ(tested.reserve(600), status::ok);
  EXPECT_EQ(tested.reserve(600), status::no_memory);
  tested.release(600);
  EXPECT_EQ(tested.reserve(600), status::ok);
}

TEST(residency, a_wait_ends_when_the_node_table_fails) {
  node shared_node{{.rank_count = 2, .budget = 1000, .slots = 1}};
  memory_hooks const hooks{.collect = [] {},
                           .arm = [] {},
                           .resident_size =
                               [] {
                                 return uint64_t{0};
                               }};
  residency first{*shared_node.shared, 0, shared_node.bits, hooks},
      second{*shared_node.shared, 1, shared_node.bits, hooks};
  ASSERT_EQ(first.start(1), status::ok);
  std::thread waiter{[&] {
    EXPECT_EQ(second.start(2), status::peer_lost);
  }};
  shared_node.shared->fail("the store is full");
  waiter.join();
}

}  // namespace
}  // namespace tanada::onesided::swap
