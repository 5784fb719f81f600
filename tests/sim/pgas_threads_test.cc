// Threads of several contexts and lanes at once, on a simulated network, for ThreadSanitizer. The
// order of a run is that of its threads.
#include <gtest/gtest.h>

#include <thread>

#include "onesided/job/remote.hpp"
#include "onesided/job/responder.hpp"
#include "sim/clock.hpp"
#include "sim/fabric.hpp"
#include "sim/resting_endpoint.hpp"

namespace tanada::test {
namespace {

using onesided::pe_index;

constexpr uint32_t pe_count = 3, thread_count = 4, rounds = 60;
constexpr size_t slot_size = 2'048;

struct memory_of_pe {
  uint64_t tickets = 0;
  alignas(8) std::byte slots[pe_count * thread_count][slot_size] = {};
};

// Threads 0 and 1 share a context, thread 2 has another one of the same lane, and thread 3 a lane
// of its own.
struct one_pe {
  memory_of_pe memory;
  std::unique_ptr<onesided::responder> answering;
  std::unique_ptr<onesided::symmetric_map> map;
  std::vector<std::unique_ptr<onesided::lane>> lanes;
  std::vector<std::unique_ptr<onesided::remote_context>> contexts;
};

class pgas_threads : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    onesided::segment heap{.name = "heap",
                           .size = sizeof(memory_of_pe),
                           .mapped = std::vector<std::byte *>(pe_count),
                           .remote = {}};
    std::vector<seams::fabric_address> addresses;
    for (uint32_t i = 0; i < pe_count; i++) {
      pes.push_back(std::make_unique<one_pe>());
      auto opened =
          std::make_unique<resting_endpoint>(fabric.open("pe" + std::to_string(i)).value());
      auto *const bytes = reinterpret_cast<std::byte *>(&pes[i]->memory);
      heap.remote.push_back(
          opened->region_register({.addr = bytes, .size = sizeof(memory_of_pe)}, {true, true})
              .value()
              .remote);
      addresses.push_back(opened->address());
      pes[i]->answering =
          std::make_unique<onesided::responder>(std::move(opened), seams::monotonic_clock());
    }
    for (uint32_t i = 0; i < pe_count; i++) {
      auto &at = *pes[i];
      heap.base = reinterpret_cast<std::byte *>(&at.memory);
      at.map = std::make_unique<onesided::symmetric_map>(pe_index(i), pe_index(pe_count));
      at.map->add(heap);
      for (uint32_t l = 0; l < 2; l++) {
        auto opened = fabric
                          .open("pe" + std::to_string(i) + ".lane" + std::to_string(l),
                                {.depth = 8, .is_ordered = GetParam()})
                          .value();
        at.lanes.push_back(std::make_unique<onesided::lane>(
            std::make_unique<resting_endpoint>(std::move(opened)),
            addresses,
            onesided::lane::options{.timeout_ns = TND_NO_DEADLINE,
                                    .time = &clock,
                                    .make_progress = [this, &at] { attend(at); },
                                    .on_first_outstanding = {}}));
      }
      for (uint32_t c = 0; c < 3; c++)
        at.contexts.push_back(std::make_unique<onesided::remote_context>(*at.lanes[c / 2]));
      at.answering->start();
    }
  }
  void TearDown() override {
    for (auto &each : pes)
      each->answering->stop();
    for (auto &each : pes) {
      each->contexts.clear();
      each->lanes.clear();
    }
  }

  void attend(one_pe &at) {
    at.answering->progress();
    for (auto &each : at.lanes)
      (void)each->progress_outstanding();
    world.advance(500);
  }

  // Each thread writes to its own slot at each PE, and reads it back.
  void work(uint32_t pe, uint32_t thread, std::vector<uint64_t> &tickets) {
    auto &at = *pes[pe];
    auto &context = *at.contexts[thread < 2 ? 0 : thread - 1];
    std::vector<std::byte> bytes(slot_size), back(slot_size);
    for (uint32_t round = 0; round < rounds; round++) {
      uint32_t const target = (pe + 1 + round % (pe_count - 1)) % pe_count;
      size_t const size = round % 3 == 0 ? slot_size : 64;
      auto const slot =
          at.map->locate(at.memory.slots[pe * thread_count + thread], size, pe_index(target));
      std::fill(bytes.begin(), bytes.end(), std::byte(round + thread));
      status code = round % 2 == 0 ? context.put(pe_index(target), slot, bytes.data(), size)
                                   : context.put_nbi(pe_index(target), slot, bytes.data(), size);
      EXPECT_EQ(code, status::ok);
      if (round % 5 == 0)
        context.fence();
      uint64_t ticket = 0;
      auto const counter = at.map->locate(&at.memory.tickets, 8, pe_index(target));
      EXPECT_EQ(context.update(pe_index(target),
                               counter,
                               {.kind = seams::fabric_atomic::add,
                                .element = seams::fabric_element::u64,
                                .operand = 1},
                               &ticket),
                status::ok);
      tickets.push_back(ticket * pe_count + target);
      EXPECT_EQ(context.quiet(), status::ok);
      EXPECT_EQ(context.get(pe_index(target), back.data(), slot, size), status::ok);
      EXPECT_TRUE(std::equal(back.begin(), back.begin() + ptrdiff_t(size), bytes.begin()));
    }
  }

  sim::world world{1};
  sim::clock clock{world};
  sim::fabric fabric{world, {.delay_ns_min = 200, .delay_ns_max = 3'000, .again_percent = 5}};
  std::vector<std::unique_ptr<one_pe>> pes;
};

TEST_P(pgas_threads, of_shared_and_own_contexts_and_lanes) {
  std::vector<std::vector<uint64_t>> tickets(pe_count * thread_count);
  std::vector<std::thread> threads;
  for (uint32_t pe = 0; pe < pe_count; pe++)
    for (uint32_t i = 0; i < thread_count; i++)
      threads.emplace_back(
          [this, pe, i, &mine = tickets[pe * thread_count + i]] { work(pe, i, mine); });
  for (auto &each : threads)
    each.join();
  std::vector<uint64_t> all;
  for (auto const &each : tickets)
    all.insert(all.end(), each.begin(), each.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "a ticket is given twice";
  EXPECT_EQ(all.size(), pe_count * thread_count * rounds);
}

INSTANTIATE_TEST_SUITE_P(pgas, pgas_threads, testing::Bool(), [](auto &of) {
  return of.param ? "ordered" : "unordered";
});

// The progress thread gives way to callers that make progress, and resumes; it ends immediately.
TEST(pgas_responder, serves_alone_and_stops_promptly) {
  sim::world world{2};
  sim::clock clock{world};
  sim::fabric fabric{world};
  uint64_t word = 0;
  auto opened = fabric.open("answers").value();
  auto const region =
      opened
          ->region_register({.addr = reinterpret_cast<std::byte *>(&word), .size = 8}, {true, true})
          .value();
  auto const address = opened->address();
  onesided::responder answering{std::move(opened), seams::monotonic_clock()};
  answering.start();
  auto asks = fabric.open("asks").value();
  auto const peer = asks->peer_add(address.span()).value();
  for (uint64_t round = 1; round <= 20; round++) {
    uint64_t value = round;
    ASSERT_EQ(asks->post({.kind = seams::fabric_op_kind::write,
                          .peer = peer,
                          .addr = reinterpret_cast<std::byte *>(&value),
                          .size = 8,
                          .remote = region.remote}),
              status::ok);
    if (round % 2 == 0)
      for (uint32_t i = 0; i < 100; i++)
        answering.progress();
    seams::fabric_completion done{};
    auto const began_ns = seams::monotonic_clock().now_ns();
    while (asks->poll({&done, 1}) == 0 &&
           seams::monotonic_clock().now_ns() - began_ns < 10'000'000'000) {
      world.advance(1'000);
      std::this_thread::yield();
    }
    ASSERT_EQ(done.code, status::ok);
  }
  auto const began_ns = seams::monotonic_clock().now_ns();
  answering.stop();
  EXPECT_LT(seams::monotonic_clock().now_ns() - began_ns, 5'000'000'000u);
  EXPECT_EQ(word, 20u);
}

}  // namespace
}  // namespace tanada::test
