// Stagers with their threads, and threads of several contexts at once, on a simulated network, for
// ThreadSanitizer. The order of a run is that of its threads.
#include <gtest/gtest.h>

#include <thread>

#include "backends/hostgpu/host_queue.hpp"
#include "onesided/job/staging.hpp"
#include "sim/clock.hpp"
#include "sim/fabric.hpp"
#include "sim/resting_endpoint.hpp"

namespace tanada::test {
namespace {

const backends::host_blocks &no_blocks() {
  static const backends::host_blocks none{false};
  return none;
}

using onesided::pe_index;

constexpr uint32_t pe_count = 3, thread_count = 3, rounds = 40;
constexpr size_t part_size = 20'000, heap_size = 64 + pe_count * thread_count * part_size;

struct one_pe {
  std::vector<std::byte> heap = std::vector<std::byte>(heap_size),
                         area = std::vector<std::byte>(16 << 10);
  std::unique_ptr<onesided::stager> staging;
  std::array<std::unique_ptr<onesided::staged_context>, 2>
      contexts;  // threads 0 and 1 share the first
};

class pgas_staged_threads : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<onesided::stager::contact> contacts;
    for (uint32_t i = 0; i < pe_count; i++) {
      auto &at = *pes.emplace_back(std::make_unique<one_pe>());
      auto opened = std::make_unique<resting_endpoint>(
          fabric.open("pe" + std::to_string(i), {.depth = 32}).value());
      auto made = onesided::stager::create(std::move(opened),
                                           std::make_unique<backends::host_queue>(no_blocks()),
                                           pe_index(i),
                                           {.timeout_ns = ~uint64_t{0},
                                            .time = &seams::monotonic_clock(),
                                            .make_progress = [this] { world.advance(500); },
                                            .is_device_memory = [](const void *) { return false; },
                                            .failed_pe = {},
                                            .on_heap_changed = {},
                                            .heap = at.heap,
                                            .staging_buffer = at.area,
                                            .slot_size = 2'048});
      at.staging = std::move(made).value();
      contacts.push_back(at.staging->own_contact());
    }
    for (auto &each : pes) {
      ASSERT_EQ(each->staging->join(contacts), status::ok);
      for (auto &context : each->contexts)
        context = std::make_unique<onesided::staged_context>(*each->staging);
      each->staging->start();
    }
    where.size = heap_size;
  }

  // Each thread writes to its own part at each PE, and reads it back.
  void work(uint32_t pe, uint32_t thread, std::vector<uint64_t> &tickets) {
    auto &context = *pes[pe]->contexts[thread / 2];
    std::vector<std::byte> bytes(part_size), back(part_size);
    for (uint32_t round = 0; round < rounds; round++) {
      auto const target = pe_index((pe + 1 + round % (pe_count - 1)) % pe_count);
      size_t const size = round % 3 == 0 ? part_size : round % 3 == 1 ? 3'000 : 64;
      onesided::symmetric_address const part{
          nullptr, &where, 64 + (pe * thread_count + thread) * part_size};
      std::fill(bytes.begin(), bytes.end(), std::byte(round + thread));
      EXPECT_EQ(context.put(target, part, bytes.data(), size), status::ok);
      if (round % 5 == 0)
        context.fence();
      uint64_t ticket = 0;
      EXPECT_EQ(context.update(target,
                               {nullptr, &where, 0},
                               {.kind = seams::fabric_atomic::add,
                                .element = seams::fabric_element::u64,
                                .operand = 1},
                               &ticket),
                status::ok);
      tickets.push_back(ticket * pe_count + uint64_t(target));
      EXPECT_EQ(context.quiet(), status::ok);
      EXPECT_EQ(context.get(target, back.data(), part, size), status::ok);
      EXPECT_TRUE(std::equal(back.begin(), back.begin() + ptrdiff_t(size), bytes.begin()));
    }
  }

  sim::world world{1};
  sim::fabric fabric{world, {.delay_ns_min = 200, .delay_ns_max = 3'000, .again_percent = 5}};
  onesided::segment where{.name = "heap", .mapped = {}, .remote = {}};
  std::vector<std::unique_ptr<one_pe>> pes;
};

TEST_F(pgas_staged_threads, nothing_is_lost) {
  std::vector<std::vector<uint64_t>> tickets(pe_count * thread_count);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < pe_count * thread_count; i++) {
    threads.emplace_back([&, i] { work(i / thread_count, i % thread_count, tickets[i]); });
  }
  for (auto &each : threads)
    each.join();
  std::vector<uint64_t> all;
  for (auto const &each : tickets)
    all.insert(all.end(), each.begin(), each.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "a ticket is given twice";
  EXPECT_EQ(all.size(), pe_count * thread_count * rounds);
}

}  // namespace
}  // namespace tanada::test
