// Symmetric device memory, with the host executor in the place of a GPU.
#include <numeric>

#include "onesided/job/context.hpp"
#include "onesided/job/job_impl.hpp"
#include "onesided/job/testing.hpp"

namespace tanada::onesided {
namespace {

constexpr uint64_t meeting_ns = 20'000'000'000;

// Whether devices reach one another, and the path of transfers where they do not: staged, or direct
// by the fabric.
struct device_case {
  const char *name, *node;
  device_path path = device_path::automatic;
};

void PrintTo(const device_case &test_case, std::ostream *out) {
  *out << test_case.name;
}

class device : public testing::TestWithParam<device_case> {
 protected:
  // As with_pes; each PE has a device of its own and a context.
  template <class Part>
  void with_devices(pe_index count, Part part) {
    with_devices_on(GetParam(), count, part);
  }

 private:
  template <class Part>
  static void with_devices_on(const device_case &chosen, pe_index count, Part part);
};

template <class Part>
void device::with_devices_on(const device_case &chosen, pe_index count, Part part) {
  std::vector<std::unique_ptr<seams::gpu>> devices;
  for (pe_index pe = 0; pe < count; pe++)
    devices.push_back(seams::host_gpu_open());
  auto launchers = backends::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (pe_index pe = 0; pe < count; pe++) {
    threads.emplace_back([&, pe] {
      job_options options = small_options();
      options.device = devices[size_t(pe)].get();
      options.device_heap_size = size_t{4} << 20;
      options.device_control_size = 4096;
      options.node = chosen.node;
      options.device_transfer_path = chosen.path;
      options.staging_size = size_t{2} << 20;
      auto started = job::start(*launchers[size_t(pe)], options);
      ASSERT_TRUE(started.ok()) << int(started.error());
      auto queue = started.value()->device_queue_open();
      ASSERT_TRUE(queue.ok());
      auto lane = started.value()->lane_acquire(false);
      ASSERT_TRUE(lane.ok());
      {
        context ctx{started.value()->map(),
                    lane.value(),
                    std::move(queue).value(),
                    false,
                    started.value()->staging()};
        part(*started.value(), ctx);
        EXPECT_EQ(ctx.quiet(), status::ok);
      }
      started.value()->lane_release(lane.value());
      EXPECT_EQ(started.value()->finish(), status::ok);
    });
  }
  for (auto &thread : threads)
    thread.join();
}

struct heap_addresses {
  uint64_t *device, *host;
};
heap_addresses heap_addresses_of(const job &self) {
  return {reinterpret_cast<uint64_t *>(self.device_heap().data()),
          reinterpret_cast<uint64_t *>(self.heap().data())};
}

status barrier(const job &self) {
  return self.launcher().barrier(meeting_ns);
}

TEST_P(device, its_memory_is_symmetric_and_no_processors) {
  with_devices(2, [](job &self, context &) {
    auto const memory = heap_addresses_of(self);
    auto const location = self.map().locate(memory.device, 8, 1 - self.me());
    ASSERT_NE(location.segment_ptr, nullptr);
    EXPECT_TRUE(location.is_device());
    EXPECT_EQ(location.mapped, nullptr);
    EXPECT_EQ(location.device_addr(1 - self.me()) == nullptr, self.staging() != nullptr);
    if (self.staging() != nullptr) {
      EXPECT_EQ(self.staging()->is_direct(), GetParam().path == device_path::direct);
    }
    EXPECT_TRUE(self.map().is_device_memory(memory.device));
    EXPECT_FALSE(self.map().is_device_memory(memory.host));
    EXPECT_EQ(self.device_control(self.me())[4095], std::byte{0});
  });
}

// Between either kind of local memory and either kind of the next PE's, in both directions.
TEST_P(device, puts_and_gets_between_all_kinds) {
  constexpr size_t count = 1000, block = count * 8;
  with_devices(3, [](job &self, context &ctx) {
    auto const memory = heap_addresses_of(self);
    pe_index const next = (self.me() + 1) % 3;
    std::vector<uint64_t> values(count), back(count);
    std::iota(values.begin(), values.end(), uint64_t(self.me()) << 32);
    for (bool const from_device : {false, true}) {
      for (bool const to_device : {false, true}) {
        uint64_t *const source = from_device ? memory.device + 4 * count : values.data();
        uint64_t *const target = to_device ? memory.device : memory.host;
        ASSERT_EQ(ctx.copy(source, values.data(), block), status::ok);
        for (bool const is_blocking : {false, true}) {
          ASSERT_EQ(barrier(self), status::ok);
          ASSERT_EQ(is_blocking ? ctx.put(target, source, block, next)
                                : ctx.put_nbi(target, source, block, next),
                    status::ok);
          ASSERT_EQ(ctx.quiet(), status::ok);
          std::fill(back.begin(), back.end(), 0);
          uint64_t *const local = from_device ? memory.device + 8 * count : back.data();
          ASSERT_EQ(is_blocking ? ctx.get(local, target, block, next)
                                : ctx.get_nbi(local, target, block, next),
                    status::ok);
          ASSERT_EQ(ctx.quiet(), status::ok);
          ASSERT_EQ(ctx.copy(back.data(), local, block), status::ok);
          EXPECT_EQ(back, values);
        }
      }
    }
  });
}

TEST_P(device, rows_go_both_ways) {
  with_devices(2, [](job &self, context &ctx) {
    auto const memory = heap_addresses_of(self);
    std::vector<uint64_t> values(100), back(100);
    std::iota(values.begin(), values.end(), 1);
    ASSERT_EQ(ctx.put_strided(memory.device, values.data(), {16, 10, 40, 24}, 1 - self.me()),
              status::ok);
    ASSERT_EQ(ctx.get_strided(back.data(), memory.device, {16, 10, 24, 40}, 1 - self.me()),
              status::ok);
    for (size_t i = 0; i < 30; i++)
      EXPECT_EQ(back[i], i % 3 == 2 ? 0 : values[i]);
    EXPECT_EQ(ctx.put_strided(memory.device, values.data(), {16, size_t{4} << 20, 40, 24}, 0),
              status::range);
  });
}

// The caller may reuse the source when the call returns, in either kind of memory.
TEST_P(device, long_rows_leave_their_source) {
  constexpr size_t row = 40'000, count = 5;
  with_devices(2, [](job &self, context &ctx) {
    auto *const target = self.device_heap().data(), *const source = target + (size_t{1} << 20);
    std::vector<std::byte> const values(row * count, std::byte(self.me() + 1)), zeros(row * count);
    std::vector<std::byte> back(row * count);
    ASSERT_EQ(ctx.copy(source, values.data(), values.size()), status::ok);
    ASSERT_EQ(ctx.put_strided(target, source, {row, count, row + 64, row}, 1 - self.me()),
              status::ok);
    ASSERT_EQ(ctx.copy(source, zeros.data(), zeros.size()), status::ok);
    ASSERT_EQ(ctx.quiet(), status::ok);
    ASSERT_EQ(ctx.get_strided(back.data(), target, {row, count, row, row + 64}, 1 - self.me()),
              status::ok);
    EXPECT_TRUE(back == values);
  });
}

TEST_P(device, updates_are_at_once) {
  constexpr uint64_t rounds = 1000;
  with_devices(3, [](job &self, context &ctx) {
    auto const memory = heap_addresses_of(self);
    uint64_t sum = 0, before = 0;
    for (uint64_t i = 0; i < rounds; i++) {
      ASSERT_EQ(ctx.update<uint64_t>(seams::fabric_atomic::add, memory.device, 1, 0, &before, 0),
                status::ok);
      ASSERT_EQ(ctx.update<uint32_t>(seams::fabric_atomic::add,
                                     reinterpret_cast<uint32_t *>(memory.device + 1),
                                     2,
                                     0,
                                     nullptr,
                                     0),
                status::ok);
    }
    ASSERT_EQ(ctx.quiet(), status::ok);
    ASSERT_EQ(barrier(self), status::ok);
    ASSERT_EQ(ctx.get_value(sum, memory.device, 0), status::ok);
    EXPECT_EQ(sum, 3 * rounds);
    ASSERT_EQ(ctx.get_value(sum, memory.device + 1, 0), status::ok);
    EXPECT_EQ(sum, 6 * rounds);
    // A result may go to device memory.
    ASSERT_EQ(ctx.update<uint64_t>(
                  seams::fabric_atomic::fetch, memory.device, 0, 0, memory.device + 8, 0),
              status::ok);
    ASSERT_EQ(ctx.get_value(sum, memory.device + 8, self.me()), status::ok);
    EXPECT_EQ(sum, 3 * rounds);
    EXPECT_EQ(ctx.update<uint64_t>(
                  seams::fabric_atomic::add,
                  reinterpret_cast<uint64_t *>(reinterpret_cast<char *>(memory.device) + 4),
                  1,
                  0,
                  nullptr,
                  0),
              status::fault);
  });
}

// A PE that sees the signal sees the data, in whatever memory they are.
TEST_P(device, a_signal_follows_its_data) {
  constexpr size_t count = 500;
  with_devices(2, [](job &self, context &ctx) {
    auto const memory = heap_addresses_of(self);
    uint64_t turn = 0;
    for (bool const data_on_device : {false, true}) {
      for (bool const signal_on_device : {false, true}) {
        uint64_t *const data = data_on_device ? memory.device + 16 : memory.host + 16;
        uint64_t *const signal = signal_on_device ? memory.device : memory.host;
        for (int round = 0; round < (self.staging() != nullptr ? 25 : 200); round++) {
          turn++;
          std::vector<uint64_t> const values(count, turn);
          ASSERT_EQ(
              ctx.put_signal(
                  data, values.data(), count * 8, signal, signal_kind::set, turn, 1 - self.me()),
              status::ok);
          uint64_t signal_value = 0;
          auto const has_arrived =
              [&] {  // an atomic: a get of the word would not be ordered with the update
                return ctx.update<uint64_t>(
                           seams::fabric_atomic::fetch, signal, 0, 0, &signal_value, self.me()) ==
                           status::ok &&
                       signal_value == turn;
              };
          ASSERT_EQ(self.wait(has_arrived), status::ok);
          std::vector<uint64_t> back(count);
          ASSERT_EQ(ctx.get(back.data(), data, count * 8, self.me()), status::ok);
          ASSERT_EQ(back, values);
          ASSERT_EQ(barrier(self), status::ok);
        }
      }
    }
  });
}

TEST_P(device, its_memory_ends_somewhere) {
  with_devices(1, [](job &self, context &ctx) {
    auto const heap = self.device_heap();
    uint64_t const value = 1;
    EXPECT_EQ(ctx.put(heap.data() + heap.size() - 4, &value, 8, 0), status::range);
    EXPECT_EQ(ctx.put_value(reinterpret_cast<uint64_t *>(heap.data() + heap.size()), value, 0),
              status::range);
    EXPECT_EQ(ctx.accumulate(seams::fabric_element::u64, heap.data(), &value, 8, 0),
              status::not_supported);
  });
}

// More pieces than the staging buffer has slots, from either kind of memory, with late and early
// arrivals.
TEST_P(device, large_blocks_go_both_ways) {
  constexpr size_t count = 300'001;
  with_devices(3, [](job &self, context &ctx) {
    auto const memory = heap_addresses_of(self);
    pe_index const next = (self.me() + 1) % 3;
    std::vector<uint32_t> values(count), back(count);
    std::iota(values.begin(), values.end(), uint32_t(self.me()) << 28);
    auto *const target = reinterpret_cast<uint32_t *>(memory.device), *const local =
                                                                          target + 500'000;
    for (bool const from_device : {false, true}) {
      if (from_device) {
        ASSERT_EQ(ctx.copy(local, values.data(), count * 4), status::ok);
      }
      ASSERT_EQ(ctx.put(target + 1, from_device ? local : values.data(), count * 4, next),
                status::ok);
      ctx.fence();
      ASSERT_EQ(ctx.put_value(target + 1, 0xFEEDu, next), status::ok);
      ASSERT_EQ(ctx.quiet(), status::ok);
      std::fill(back.begin(), back.end(), 0);
      if (from_device) {
        ASSERT_EQ(ctx.copy(local, back.data(), count * 4), status::ok);
      }
      ASSERT_EQ(ctx.get_nbi(from_device ? local : back.data(), target + 1, count * 4, next),
                status::ok);
      ASSERT_EQ(ctx.quiet(), status::ok);
      if (from_device) {
        ASSERT_EQ(ctx.copy(back.data(), local, count * 4), status::ok);
      }
      EXPECT_EQ(back[0], 0xFEEDu);
      back[0] = values[0];
      ASSERT_EQ(back, values);
      ASSERT_EQ(barrier(self), status::ok);
    }
  });
}

// More pieces than buffers, between device memory and host memory of another PE. Several threads
// take turns with the context's buffers.
TEST_P(device, large_blocks_go_through_host_memory_of_others) {
  constexpr size_t count = 330'001;
  with_devices(2, [](job &self, context &ctx) {
    auto const memory = heap_addresses_of(self);
    pe_index const next = 1 - self.me();
    std::vector<uint32_t> values(count), back(count);
    std::iota(values.begin(), values.end(), uint32_t(self.me()) << 28);
    auto *const local = reinterpret_cast<uint32_t *>(memory.device);
    auto *const target = reinterpret_cast<uint32_t *>(memory.host);
    for (int round = 0; round < 3; round++) {
      values[round + 1] = uint32_t(round);
      ASSERT_EQ(ctx.copy(local, values.data(), count * 4), status::ok);
      ASSERT_EQ(ctx.put_value(target + 1, 0xBADu, next), status::ok);
      ctx.fence();
      ASSERT_EQ(ctx.put_nbi(target + 1, local, count * 4, next), status::ok);
      ctx.fence();
      ASSERT_EQ(ctx.put_value(target + count, 0xFEEDu, next), status::ok);
      ASSERT_EQ(ctx.quiet(), status::ok);
      ASSERT_EQ(ctx.copy(local, back.data(), count * 4), status::ok);
      std::vector<std::thread> readers;
      for (size_t part = 0; part < 2; part++)
        readers.emplace_back([&, part] {
          size_t const first = part * (count / 2), size = (part == 0 ? count / 2 : count - first);
          EXPECT_EQ(ctx.get(local + first, target + 1 + first, size * 4, next), status::ok);
        });
      for (auto &reader : readers)
        reader.join();
      ASSERT_EQ(ctx.copy(back.data(), local, count * 4), status::ok);
      EXPECT_EQ(back[count - 1], 0xFEEDu);
      back[count - 1] = values[count - 1];
      ASSERT_EQ(back, values);
      ASSERT_EQ(barrier(self), status::ok);
    }
  });
}

TEST_P(device, all_must_have_one) {
  auto const only_device = seams::host_gpu_open();
  auto launchers = backends::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (pe_index pe = 0; pe < 2; pe++) {
    threads.emplace_back([&, pe] {
      job_options options = small_options();
      if (pe == 1) {
        options.device = only_device.get();
        options.device_heap_size = 1;
      }
      EXPECT_EQ(job::start(*launchers[size_t(pe)], options).error(), status::invalid);
    });
  }
  for (auto &thread : threads)
    thread.join();
}

// A request to a dead PE ends as soon as the launcher reports it, long before operations time out.
TEST(device_staged, a_dead_pe_ends_what_it_was_asked_for) {
  auto launchers = backends::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (pe_index pe = 0; pe < 2; pe++) {
    threads.emplace_back([&, pe] {
      auto const device = seams::host_gpu_open();
      job_options options = small_options();
      options.device = device.get();
      options.device_heap_size = size_t{4} << 20;
      options.node = "none";
      auto started = job::start(*launchers[size_t(pe)], options);
      ASSERT_TRUE(started.ok());
      if (pe == 1)
        return launchers[1]->kill();
      auto queue = started.value()->device_queue_open();
      ASSERT_TRUE(queue.ok());
      context ctx{started.value()->map(),
                  nullptr,
                  std::move(queue).value(),
                  false,
                  started.value()->staging()};
      uint64_t const began_ns = started.value()->time().now_ns();
      status code = status::ok;
      std::vector<std::byte> bytes(100'000);
      while (code == status::ok && started.value()->time().now_ns() - began_ns < meeting_ns) {
        code = ctx.put(started.value()->device_heap().data(), bytes.data(), bytes.size(), 1);
        if (code == status::ok)
          code = ctx.quiet();
      }
      EXPECT_EQ(code, status::peer_lost);
      EXPECT_LT(started.value()->time().now_ns() - began_ns, meeting_ns / 2);
      (void)ctx.quiet();
    });
  }
  for (auto &thread : threads)
    thread.join();
}

// More transfers than there are buffers, and one of several pieces.
TEST_P(device, many_transfers_to_and_from_host_memory_are_under_way_at_once) {
  constexpr size_t block = 6'000, count = 48, words = block / 8, long_size = 400'000;
  static_assert(block * count <= size_t{1} << 19 && long_size <= size_t{1} << 19);
  with_devices(2, [](job &self, context &ctx) {
    pe_index const next = 1 - self.me();
    auto *const local = self.device_heap().data();
    auto *const remote = self.heap().data(), *const fetched = local + (size_t{1} << 20);
    for (bool const is_long : {false, true}) {
      size_t const size = is_long ? long_size : block, transfers = is_long ? 1 : count;
      std::vector<uint64_t> values(size * transfers / 8), back(values.size());
      std::iota(values.begin(), values.end(), uint64_t(self.me() + 1 + is_long) << 32);
      ASSERT_EQ(ctx.copy(local, values.data(), size * transfers), status::ok);
      ASSERT_EQ(barrier(self), status::ok);
      for (size_t i = 0; i < transfers; i++)
        ASSERT_EQ(ctx.put_nbi(remote + i * size, local + i * size, size, next), status::ok);
      ctx.fence();
      ASSERT_EQ(ctx.put(remote, &values[words - 1], 8, next), status::ok);
      ASSERT_EQ(ctx.quiet(), status::ok);
      for (size_t i = 0; i < transfers; i++)
        ASSERT_EQ(ctx.get_nbi(fetched + i * size, remote + i * size, size, next), status::ok);
      ASSERT_EQ(ctx.quiet(), status::ok);
      ASSERT_EQ(ctx.copy(back.data(), fetched, size * transfers), status::ok);
      values[0] = values[words - 1];  // as the put after the fence
      ASSERT_EQ(back, values);
      ASSERT_EQ(barrier(self), status::ok);
    }
  });
}

pe_card card_with(std::string_view machine, std::string_view bus_id) {
  pe_card card;
  machine.copy(card.kernel.data(), card.kernel.size() - 1);
  bus_id.copy(card.gpu.data(), card.gpu.size() - 1);
  return card;
}

TEST(shared_gpu, the_lowest_pe_that_shares_one_warns_for_all) {
  constexpr const char *gpu = "0000:5e:00.0";
  std::vector<pe_card> const cards = {card_with("a", "0000:3b:00.0"),
                                      card_with("a", gpu),
                                      card_with("b", gpu),
                                      card_with("b", gpu),
                                      card_with("a", gpu),
                                      card_with("b", gpu)};
  std::string const warning = shared_gpu_warning(cards, 1);
  EXPECT_EQ(warning.find("2 PEs share the GPU 0000:5e:00.0 of PE 1: "), 0u) << warning;
  for (pe_index const pe : {0, 2, 3, 4, 5})
    EXPECT_EQ(shared_gpu_warning(cards, pe), "") << pe;
}

TEST(shared_gpu, pes_of_the_host_executor_share_none) {
  std::vector<pe_card> const cards(3, card_with("a", ""));
  EXPECT_EQ(shared_gpu_warning(cards, 0), "");
}

INSTANTIATE_TEST_SUITE_P(pgas,
                         device,
                         testing::Values(device_case{"reached", ""},
                                         device_case{"staged", "none", device_path::staged},
                                         device_case{"direct", "none", device_path::direct}),
                         [](auto &info) { return std::string{info.param.name}; });

}  // namespace
}  // namespace tanada::onesided
