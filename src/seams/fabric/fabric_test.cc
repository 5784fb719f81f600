// The parts that fabrics share: the table of operations and the cache of registrations.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "seams/fabric/op_table.hpp"
#include "seams/fabric/registration_cache.hpp"

namespace tanada::seams {
namespace {

fabric_op op_of(uint64_t id, uint64_t deadline_ns = TND_NO_DEADLINE) {
  fabric_op op;
  op.op_id = id;
  op.deadline_ns = deadline_ns;
  op.peer = 7;
  return op;
}

TEST(fabric_op_table, an_operation_that_settles_is_reaped_once) {
  fabric_op_table table{2, fabric_path::tcp};
  auto const slot = table.insert(op_of(5));
  EXPECT_EQ(table.pending_count(), 1u);
  table[slot].state = fabric_slot_state::posted;
  table.settle(slot, status::ok, 10);
  EXPECT_EQ(table.pending_count(), 1u);
  std::array<fabric_completion, 4> done;
  ASSERT_EQ(table.reap(done), 1u);
  EXPECT_EQ(done[0].op_id, 5u);
  EXPECT_EQ(done[0].size, 10u);
  EXPECT_EQ(done[0].peer, 7u);
  EXPECT_TRUE(done[0].settled);
  EXPECT_EQ(table.pending_count(), 0u);
  EXPECT_EQ(table.reap(done), 0u);
  EXPECT_EQ(table.counters().bytes[size_t(fabric_path::tcp)], 10u);
}

TEST(fabric_op_table, what_is_not_reaped_counts_against_the_depth) {
  fabric_op_table table{2, fabric_path::tcp};
  auto const first = table.insert(op_of(1));
  EXPECT_NE(table.insert(op_of(2)), fabric_op_table::no_slot);
  EXPECT_EQ(table.insert(op_of(3)), fabric_op_table::no_slot);
  table.settle(first, status::io);
  EXPECT_EQ(table.insert(op_of(3)), fabric_op_table::no_slot);
  EXPECT_EQ(table.counters().again, 2u);
  fabric_completion done[1];
  EXPECT_EQ(table.reap(done), 1u);
  EXPECT_NE(table.insert(op_of(3)), fabric_op_table::no_slot);
}

TEST(fabric_op_table, a_deadline_gives_a_notice_and_later_the_end) {
  fabric_op_table table{4, fabric_path::tcp};
  auto const late = table.insert(op_of(1, 100));
  auto const quick = table.insert(op_of(2, 50));
  table[late].state = fabric_slot_state::posted;
  table[quick].state = fabric_slot_state::posted;
  table.settle(quick, status::ok);
  EXPECT_EQ(table.next_deadline_ns(), 100u);
  EXPECT_EQ(table.take_expired(99), fabric_op_table::no_slot);
  ASSERT_EQ(table.take_expired(100), late);
  EXPECT_EQ(table.take_expired(100), fabric_op_table::no_slot);
  table.abandon(late);
  std::array<fabric_completion, 4> done;
  ASSERT_EQ(table.reap(done), 2u);
  EXPECT_EQ(done[1].code, status::timed_out);
  EXPECT_FALSE(done[1].settled);
  EXPECT_EQ(table.pending_count(), 1u);
  table.settle(late, status::ok, 3);
  ASSERT_EQ(table.reap(done), 1u);
  EXPECT_TRUE(done[0].settled);
  EXPECT_EQ(table.pending_count(), 0u);
}

// Memory stays bounded when operations are short and their deadlines distant, and no deadline is
// lost.
TEST(fabric_op_table, old_deadlines_do_not_pile_up) {
  fabric_op_table table{4, fabric_path::tcp};
  auto const long_lived = table.insert(op_of(1, 500));
  fabric_completion done[1];
  for (uint64_t i = 0; i < 1000; i++) {
    table.settle(table.insert(op_of(2, 1'000'000 + i)), status::ok);
    ASSERT_EQ(table.reap(done), 1u);
  }
  EXPECT_EQ(table.next_deadline_ns(), 500u);
  EXPECT_EQ(table.take_expired(2'000'000), long_lived);
  EXPECT_EQ(table.take_expired(2'000'000), fabric_op_table::no_slot);
}

struct fake_network {
  std::set<uintptr_t> open;
  uintptr_t next = 1;

  registration_cache::backend backend() {
    return {[this](const fabric_memory &) -> result<void *> {
              open.insert(next);
              return reinterpret_cast<void *>(next++);
            },
            [this](void *handle) {
              EXPECT_EQ(open.erase(reinterpret_cast<uintptr_t>(handle)), 1u);
            }};
  }
};

fabric_memory memory_at(uintptr_t addr, size_t size) {
  fabric_memory memory;
  memory.addr = reinterpret_cast<std::byte *>(addr);
  memory.size = size;
  return memory;
}

TEST(registration_cache, the_same_pages_are_registered_once) {
  fake_network network;
  fabric_counters counters;
  {
    registration_cache cache{network.backend(), {}, counters};
    auto *first = cache.acquire(memory_at(0x10010, 100)).value();
    auto *second = cache.acquire(memory_at(0x10800, 0x100)).value();
    EXPECT_EQ(first, second);
    EXPECT_EQ(first->memory.addr, reinterpret_cast<std::byte *>(0x10000));
    cache.release(first);
    cache.release(second);
    auto *third = cache.acquire(memory_at(0x10f00, 0x200)).value();  // crosses into the next page
    EXPECT_EQ(counters.registration_hits, 1u);
    EXPECT_EQ(counters.registration_misses, 2u);
    cache.release(third);
    EXPECT_EQ(network.open.size(), 2u);
  }
  EXPECT_TRUE(network.open.empty());
}

TEST(registration_cache, limits_hold_and_what_is_in_use_stays) {
  fake_network network;
  fabric_counters counters;
  registration_cache cache{network.backend(), {.count_max = 2, .size_max = 1 << 20}, counters};
  auto *first = cache.acquire(memory_at(0x10000, 1)).value();
  auto *second = cache.acquire(memory_at(0x20000, 1)).value();
  // All are in use: closed at its release.
  auto *third = cache.acquire(memory_at(0x30000, 1)).value();
  EXPECT_EQ(cache.count(), 3u);
  cache.release(third);
  EXPECT_EQ(cache.count(), 2u);
  cache.release(first);
  cache.release(second);
  cache.release(cache.acquire(memory_at(0x10000, 1)).value());  // the second is now the oldest
  cache.release(cache.acquire(memory_at(0x40000, 1)).value());
  EXPECT_EQ(counters.registration_evictions, 1u);
  cache.release(cache.acquire(memory_at(0x10000, 1)).value());
  EXPECT_EQ(counters.registration_hits, 2u);
  EXPECT_LE(network.open.size(), 2u);
  cache.release(cache.acquire(memory_at(0x100000, 2 << 20)).value());  // larger than the cache
  EXPECT_EQ(cache.size(), 0u);
}

TEST(registration_cache, forgotten_memory_is_registered_anew) {
  fake_network network;
  fabric_counters counters;
  registration_cache cache{network.backend(), {}, counters};
  auto *used = cache.acquire(memory_at(0x10000, 0x3000)).value();
  cache.release(cache.acquire(memory_at(0x20000, 0x1000)).value());
  cache.forget(reinterpret_cast<std::byte *>(0x11000), 0x10000);
  EXPECT_EQ(cache.count(), 1u);  // the one in use; the other one is closed
  auto *again = cache.acquire(memory_at(0x10000, 0x3000)).value();
  EXPECT_NE(again, used);
  cache.release(used);
  cache.release(again);
}

TEST(registration_cache, a_network_that_refuses_changes_nothing) {
  fabric_counters counters;
  registration_cache cache{
      {[](const fabric_memory &) -> result<void *> { return status::no_memory; },
       [](void *) {
       }},
      {},
      counters};
  EXPECT_EQ(cache.acquire(memory_at(0x10000, 1)).error(), status::no_memory);
  EXPECT_EQ(cache.count(), 0u);
}

}  // namespace
}  // namespace tanada::seams
