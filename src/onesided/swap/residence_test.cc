// Processes as threads, with an agent that copies: memory that is away is overwritten, so that who
// touches it is seen.
#include "onesided/swap/residence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

namespace tanada::comex::swap {
namespace {

constexpr uint32_t rank_count = 6, page_count = 600;
constexpr size_t heap_size = page_count * page_size;
constexpr std::byte nothing{0xEE};

struct aligned_delete {
  void operator()(std::byte *at) const {
    ::operator delete[](at, std::align_val_t{64});
  }
};

struct node {
  struct heap {
    std::vector<std::byte> memory = std::vector<std::byte>(heap_size),
                           store = std::vector<std::byte>(heap_size);
    std::vector<page_bits::word> words =
        std::vector<page_bits::word>(page_bits::word_count(page_count));
    std::vector<uint32_t> users =
        std::vector<uint32_t>(page_count);  // of pages that are here while it is away; the agent's
    std::vector<bool> is_cached = std::vector<bool>(page_count);
    std::vector<std::atomic<uint32_t>> locks = std::vector<std::atomic<uint32_t>>(page_count + 1);
  };

  explicit node(const board_options &options) : heaps(options.rank_count) {
    size_t const size = board::memory_size(options.rank_count, options.has_servers);
    memory.reset(static_cast<std::byte *>(::operator new[](size, std::align_val_t{64})));
    std::memset(memory.get(), 0, size);
    EXPECT_EQ(board::create({memory.get(), size}, options), status::ok);
    shared.emplace(std::span{memory.get(), size});
    for (auto &each : heaps)
      bits.emplace_back(each.words.data(), page_count);
    for (auto const &each : bits)
      page_bits{each}.set({0, page_count});  // zeros here and there
  }

  static std::byte *page(std::vector<std::byte> &of, uint32_t index) {
    return of.data() + size_t{index} * page_size;
  }

  void out_page(uint32_t rank, uint32_t index) {
    auto &of = heaps[rank];
    if (!bits[rank].test(index)) {
      std::memcpy(page(of.store, index), page(of.memory, index), page_size);
      bits[rank].set({index, 1});
    }
    std::memset(page(of.memory, index), int(nothing), page_size);
  }
  void in_page(uint32_t rank, uint32_t index) {
    std::memcpy(page(heaps[rank].memory, index), page(heaps[rank].store, index), page_size);
  }

  // The agent: one thread.
  void serve(request &which) {
    for (auto const &run : which.pages()) {
      for (uint32_t i = run.first; i < run.end(); i++) {
        heaps[which.target].users[i]++;
        if (!heaps[which.target].is_cached[i])
          in_page(which.target, i);
        heaps[which.target].is_cached[i] = true;
      }
    }
    shared->grant(which);
    granted.push_back(&which);
  }
  void let_go(request &which) {
    bool const is_away = swap::is_away(shared->state(which.target));
    for (auto const &run : which.pages()) {
      for (uint32_t i = run.first; i < run.end(); i++) {
        // Who comes now has it all, or will be told that these are here.
        if (--heaps[which.target].users[i] > 0 || !is_away)
          continue;
        out_page(which.target, i);
        heaps[which.target].is_cached[i] = false;
      }
    }
    shared->recycle(which);
  }
  void step() {
    std::erase_if(granted, [&](request *each) {
      if (!board::is_done(*each))
        return false;
      let_go(*each);
      return true;
    });
    if (auto const next = shared->next_order()) {
      bool const is_out = next->to == order::way::out;
      auto &of = heaps[next->rank];
      for (uint32_t i = 0; i < page_count; i++) {
        if (is_out)
          out_page(next->rank, i);
        else if (!of.is_cached[i])
          in_page(next->rank, i);
        of.is_cached[i] = false;
      }
      shared->moved(
          *next,
          {.here = is_out ? 0 : heap_size, .away = is_out ? heap_size : 0, .moved = heap_size});
    }
    while (auto *const which = shared->next_request())
      serve(*which);
  }

  std::unique_ptr<std::byte[], aligned_delete> memory;
  std::vector<heap> heaps;
  std::vector<page_bits> bits;
  std::vector<request *> granted;
  std::optional<board> shared;
};

// Pages that a process may touch while it is bare.
struct given_pages final : absent_pages {
  bool watch() override {
    return true;
  }
  status give(uint32_t page) override {
    has[page] = true;
    return status::ok;
  }
  void take(uint32_t page) override {
    has[page] = false;
  }
  void arm() override {}
  void give_all() override {
    has.assign(page_count, false);
  }

  std::vector<bool> has = std::vector<bool>(page_count);
};

// A process: adds to words of its own and of others, and waits for all.
class process {
 public:
  process(node &of, uint32_t rank, std::atomic<uint64_t> &arrivals, bool may_be_bare)
      : node_{of},
        rank_{rank},
        arrivals_{arrivals},
        random_{rank + 1},
        here_{*of.shared,
              rank,
              of.bits,
              {.collect = [this] { node_.bits[rank_].clear({0, page_count}); },
               .arm = [] {},
               .here = [this] { return touched_; },
               .absent = may_be_bare ? &given_ : nullptr}} {}

  void run(uint32_t rounds) {
    ASSERT_EQ(here_.start(1), status::ok);
    ASSERT_EQ(here_.reserve(heap_size), status::ok);
    touched_ = heap_size;
    for (uint32_t round = 1; round <= rounds && !HasFatalFailure(); round++) {
      for (uint32_t k = 0; k < (round % 3 == 0 ? 20 : 4); k++)
        add_to_own(k);
      bare_rounds += here_.is_bare();
      for (uint32_t k = 0; k < (round % 4 == 1 ? 0 : 10); k++)
        add_to_other(k % 3 == 0);
      ASSERT_EQ(here_.complete(), status::ok);
      barrier(round);
    }
    here_.leave(wait_kind::others);
    ASSERT_EQ(here_.enter(), status::ok);
  }
  void wait_a_little() {
    here_.leave(wait_kind::others);
    node_.shared->sleep(rank_, 100'000);
    ASSERT_EQ(here_.enter(), status::ok);
  }
  void check(uint64_t &sum) {
    ASSERT_EQ(here_.is_in(), true);
    ASSERT_EQ(here_.be_whole(), status::ok);
    auto const &mine = node_.heaps[rank_].memory;
    for (size_t at = 0; at < heap_size; at += 8) {
      uint64_t word;
      std::memcpy(&word, mine.data() + at, 8);
      ASSERT_NE(word >> 56, 0xEEu) << at;
      sum += word;
    }
    here_.finish();
  }
  uint64_t added = 0, bare_rounds = 0;

 private:
  static bool HasFatalFailure() {
    return testing::Test::HasFatalFailure();
  }

  // Its own part of a page and others' do not overlap.
  void add_to_own(uint32_t) {
    auto const page = uint32_t(random_() % page_count);
    size_t const at = page * page_size;
    if (here_.is_bare() && !given_.has[page]) {
      ASSERT_EQ(here_.touched(page), status::ok);
    }
    uint64_t word;
    auto *const mine = node_.heaps[rank_].memory.data() + at;
    std::memcpy(&word, mine, 8);
    word++;
    std::memcpy(mine, &word, 8);
    added++;
  }

  void add(uint32_t target, uint64_t offset, uint64_t size) {
    auto *const at = node_.heaps[target].memory.data() + offset;
    for (uint64_t i = 0; i < size; i += 8) {
      uint64_t word;
      std::memcpy(&word, at + i, 8);
      EXPECT_NE(word >> 56, 0xEEu) << "process " << rank_ << ": memory of " << target << " is away";
      word++;
      std::memcpy(at + i, &word, 8);
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
    for (auto const &each : extents)
      added += each.size / 8;
    access what{.target = target, .is_writing = true, .unit = 8, .extents = extents, .part = {}};
    what.part = [this, target, extents](size_t index, uint64_t skip, uint64_t size,
                                        const std::byte *) {
      auto &lock = node_.heaps[target].locks[0];
      while (lock.exchange(1, std::memory_order_acquire) != 0)
        std::this_thread::yield();
      add(target, extents[index].offset + skip, size);
      lock.store(0, std::memory_order_release);
    };
    (void)here_.begin(std::move(what));
  }

  void barrier(uint32_t round) {
    here_.leave(wait_kind::others);
    arrivals_.fetch_add(1);
    while (arrivals_.load() < uint64_t{round} * rank_count && node_.shared->failure() == nullptr) {
      here_.attend();
      node_.shared->sleep(rank_, 100'000);
    }
    ASSERT_EQ(here_.enter(), status::ok);
  }

  node &node_;
  uint32_t rank_;
  std::atomic<uint64_t> &arrivals_;
  std::mt19937_64 random_;
  uint64_t touched_ = 0;  // bytes of its heap
  given_pages given_;
  residence here_;
};

// What processes elsewhere add to a rank's memory, by a thread of its process, which is never told
// when it is away. Several things at a time.
uint64_t serve_strangers(node &of, uint32_t rank, const std::atomic<bool> &is_over) {
  access_queue asks{*of.shared, of.shared->server_of(rank), of.bits};
  std::mt19937_64 random{rank + 100};
  uint64_t added = 0;
  auto &lock = of.heaps[rank].locks[0];
  while (!is_over) {
    for (uint32_t k = 0; k < 4; k++) {
      access what{.target = rank, .is_writing = true, .unit = 8, .extents = {}, .part = {}};
      uint64_t page = random() % 64;
      for (uint32_t i = 0; i < 30; i++, page += random() % 9 + 1)
        what.extents.push_back({page * page_size + 2048 + random() % 100 * 8, 16});
      added += 2 * what.extents.size();
      what.part = [&of, &lock, rank, extents = what.extents](size_t index, uint64_t skip,
                                                             uint64_t size, const std::byte *) {
        while (lock.exchange(1, std::memory_order_acquire) != 0)
          std::this_thread::yield();
        auto *const at = of.heaps[rank].memory.data() + extents[index].offset + skip;
        for (uint64_t i = 0; i < size; i += 8) {
          uint64_t word;
          std::memcpy(&word, at + i, 8);
          EXPECT_NE(word >> 56, 0xEEu) << "memory of " << rank << " is away";
          word++;
          std::memcpy(at + i, &word, 8);
        }
        lock.store(0, std::memory_order_release);
      };
      (void)asks.begin(std::move(what));
    }
    while (!asks.is_empty() && of.shared->failure() == nullptr) {
      asks.poll();
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }
  return added;
}

// Rounds that processes have begun and ended without their memory.
uint64_t play(uint64_t budget, uint32_t slots, uint32_t rounds, bool may_be_bare = false,
              bool has_strangers = false) {
  node of{{.rank_count = rank_count,
           .budget = budget,
           .slots = slots,
           .has_servers = has_strangers,
           .cache_size = 1 << 20,
           .patience_ns = 100'000}};
  std::atomic<bool> is_over{false};
  std::thread agent{[&] {
    while (!is_over) {
      of.step();
      of.shared->agent_sleep(200'000);
    }
  }};
  std::atomic<uint64_t> arrivals{0}, bare_rounds{0}, added{0}, sum{0};
  std::atomic<bool> has_ended{false};
  std::atomic<uint32_t> serving{has_strangers ? rank_count : 0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; has_strangers && i < rank_count; i++) {
    threads.emplace_back([&, i] {
      added += serve_strangers(of, i, has_ended);
      serving--;
    });
  }
  for (uint32_t i = 0; i < rank_count; i++) {
    threads.emplace_back([&, i] {
      process mine{of, i, arrivals, may_be_bare};
      mine.run(rounds);
      has_ended = true;
      while (serving > 0)
        mine.wait_a_little();
      uint64_t total = 0;
      mine.check(total);
      added += mine.added;
      bare_rounds += mine.bare_rounds;
      sum += total;
    });
  }
  for (auto &each : threads)
    each.join();
  is_over = true;
  of.shared->ring_agent();
  agent.join();
  EXPECT_EQ(of.shared->failure(), nullptr);
  EXPECT_EQ(sum, added);
  if (budget < rank_count * heap_size)
    EXPECT_GT(of.shared->counters().swaps_out, 0u);
  else
    EXPECT_EQ(of.shared->counters().swaps_out, 0u);
  return bare_rounds;
}

TEST(residence, stays_where_there_is_room) {
  play(rank_count * heap_size, 2, 20);
}
TEST(residence, swaps_where_there_is_room_for_half) {
  play(rank_count * heap_size / 2, 2, 20);
}
TEST(residence, swaps_where_there_is_room_for_one) {
  play(heap_size, 2, 10);
}
TEST(residence, strangers_find_what_is_away) {
  play(heap_size, 2, 10, false, true);
}
TEST(residence, strangers_find_what_who_runs_goes_without) {
  play(heap_size, 2, 10, true, true);
}
TEST(residence, swaps_with_a_slot_for_each) {
  play(2 * heap_size, rank_count, 10);
}

TEST(residence, goes_on_without_its_memory_where_it_touches_little) {
  EXPECT_GT(play(heap_size, 2, 30, true), 0u);
  EXPECT_GT(play(rank_count * heap_size / 2, 2, 30, true), 0u);
  EXPECT_EQ(play(rank_count * heap_size, 2, 10, true), 0u);
}

TEST(residence, refuses_more_than_the_budget) {
  node of{{.rank_count = 1, .budget = 1000, .slots = 1}};
  residence here{*of.shared,
                 0,
                 of.bits,
                 {.collect = [] {},
                  .arm = [] {},
                  .here =
                      [] {
                        return uint64_t{0};
                      }}};
  ASSERT_EQ(here.start(1), status::ok);
  EXPECT_EQ(here.reserve(600), status::ok);
  EXPECT_EQ(here.reserve(600), status::no_memory);
  here.release(600);
  EXPECT_EQ(here.reserve(600), status::ok);
}

TEST(residence, waits_no_longer_than_the_board_is_whole) {
  node of{{.rank_count = 2, .budget = 1000, .slots = 1}};
  own_memory const none{.collect = [] {},
                        .arm = [] {},
                        .here =
                            [] {
                              return uint64_t{0};
                            }};
  residence first{*of.shared, 0, of.bits, none}, second{*of.shared, 1, of.bits, none};
  ASSERT_EQ(first.start(1), status::ok);
  std::thread other{[&] {
    EXPECT_EQ(second.start(2), status::peer_lost);
  }};
  of.shared->fail("the store is full");
  other.join();
}

}  // namespace
}  // namespace tanada::comex::swap
