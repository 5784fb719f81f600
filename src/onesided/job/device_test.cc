// Symmetric memory of devices, with the host executor in the place of one.
#include <numeric>

#include "onesided/job/context.hpp"
#include "onesided/job/job_inside.hpp"
#include "onesided/job/testing.hpp"

namespace tanada::pgas {
namespace {

constexpr uint64_t meeting_ns = 20'000'000'000;

// Whether devices reach one another, and what is done where they do not: all between them is
// staged, or the fabric takes their memory.
struct device_case {
  const char *name, *node;
  device_way way = device_way::automatic;
};

void PrintTo(const device_case &which, std::ostream *out) {
  *out << which.name;
}

class device : public testing::TestWithParam<device_case> {
 protected:
  // As with_pes, each with a device of its own and a context.
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
  std::vector<std::unique_ptr<port::gpu>> devices;
  for (pe_index pe = 0; pe < count; pe++)
    devices.push_back(port::host_gpu_open());
  auto launchers = port::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (pe_index pe = 0; pe < count; pe++) {
    threads.emplace_back([&, pe] {
      job_options options = small();
      options.device = devices[size_t(pe)].get();
      options.device_heap_size = size_t{4} << 20;
      options.device_control_size = 4096;
      options.node = chosen.node;
      options.devices_by = chosen.way;
      options.staging_size = size_t{2} << 20;
      auto made = job::start(*launchers[size_t(pe)], options);
      ASSERT_TRUE(made.ok()) << int(made.error());
      auto queue = made.value()->device_queue_open();
      ASSERT_TRUE(queue.ok());
      auto lane = made.value()->lane_acquire(false);
      ASSERT_TRUE(lane.ok());
      {
        context own{made.value()->map(), lane.value(), std::move(queue).value(), false,
                    made.value()->staging()};
        part(*made.value(), own);
        EXPECT_EQ(own.quiet(), status::ok);
      }
      made.value()->lane_release(lane.value());
      EXPECT_EQ(made.value()->finish(), status::ok);
    });
  }
  for (auto &each : threads)
    each.join();
}

struct places {
  uint64_t *device, *host;
};
places places_of(const job &self) {
  return {reinterpret_cast<uint64_t *>(self.device_heap().data()),
          reinterpret_cast<uint64_t *>(self.heap().data())};
}

status meet(const job &self) {
  return self.launcher().barrier(meeting_ns);
}

TEST_P(device, its_memory_is_symmetric_and_no_processors) {
  with_devices(2, [](job &self, context &) {
    auto const at = places_of(self);
    auto const there = self.map().locate(at.device, 8, 1 - self.me());
    ASSERT_NE(there.where, nullptr);
    EXPECT_TRUE(there.is_device());
    EXPECT_EQ(there.mapped, nullptr);
    EXPECT_EQ(there.reached(1 - self.me()) == nullptr, self.staging() != nullptr);
    if (self.staging() != nullptr) {
      EXPECT_EQ(self.staging()->is_direct(), GetParam().way == device_way::direct);
    }
    EXPECT_TRUE(self.map().is_device_memory(at.device));
    EXPECT_FALSE(self.map().is_device_memory(at.host));
    EXPECT_EQ(self.device_control(self.me())[4095], std::byte{0});
  });
}

// From either kind of local memory to either kind of the next PE's, and back.
TEST_P(device, puts_and_gets_between_all_kinds) {
  constexpr size_t count = 1000, block = count * 8;
  with_devices(3, [](job &self, context &own) {
    auto const at = places_of(self);
    pe_index const next = (self.me() + 1) % 3;
    std::vector<uint64_t> mine(count), back(count);
    std::iota(mine.begin(), mine.end(), uint64_t(self.me()) << 32);
    for (bool const from_device : {false, true}) {
      for (bool const to_device : {false, true}) {
        uint64_t *const source = from_device ? at.device + 4 * count : mine.data();
        uint64_t *const target = to_device ? at.device : at.host;
        ASSERT_EQ(own.copy(source, mine.data(), block), status::ok);
        for (bool const waits : {false, true}) {
          ASSERT_EQ(meet(self), status::ok);
          ASSERT_EQ(waits ? own.put(target, source, block, next)
                          : own.put_nbi(target, source, block, next),
                    status::ok);
          ASSERT_EQ(own.quiet(), status::ok);
          std::fill(back.begin(), back.end(), 0);
          uint64_t *const local = from_device ? at.device + 8 * count : back.data();
          ASSERT_EQ(
              waits ? own.get(local, target, block, next) : own.get_nbi(local, target, block, next),
              status::ok);
          ASSERT_EQ(own.quiet(), status::ok);
          ASSERT_EQ(own.copy(back.data(), local, block), status::ok);
          EXPECT_EQ(back, mine);
        }
      }
    }
  });
}

TEST_P(device, rows_go_both_ways) {
  with_devices(2, [](job &self, context &own) {
    auto const at = places_of(self);
    std::vector<uint64_t> mine(100), back(100);
    std::iota(mine.begin(), mine.end(), 1);
    ASSERT_EQ(own.put_strided(at.device, mine.data(), {16, 10, 40, 24}, 1 - self.me()), status::ok);
    ASSERT_EQ(own.get_strided(back.data(), at.device, {16, 10, 24, 40}, 1 - self.me()), status::ok);
    for (size_t i = 0; i < 30; i++)
      EXPECT_EQ(back[i], i % 3 == 2 ? 0 : mine[i]);
    EXPECT_EQ(own.put_strided(at.device, mine.data(), {16, size_t{4} << 20, 40, 24}, 0),
              status::range);
  });
}

// Their source is the caller's when the call returns, wherever it lies.
TEST_P(device, long_rows_leave_their_source) {
  constexpr size_t row = 40'000, count = 5;
  with_devices(2, [](job &self, context &own) {
    auto *const target = self.device_heap().data(), *const source = target + (size_t{1} << 20);
    std::vector<std::byte> const mine(row * count, std::byte(self.me() + 1)), none(row * count);
    std::vector<std::byte> back(row * count);
    ASSERT_EQ(own.copy(source, mine.data(), mine.size()), status::ok);
    ASSERT_EQ(own.put_strided(target, source, {row, count, row + 64, row}, 1 - self.me()),
              status::ok);
    ASSERT_EQ(own.copy(source, none.data(), none.size()), status::ok);
    ASSERT_EQ(own.quiet(), status::ok);
    ASSERT_EQ(own.get_strided(back.data(), target, {row, count, row, row + 64}, 1 - self.me()),
              status::ok);
    EXPECT_TRUE(back == mine);
  });
}

TEST_P(device, updates_are_at_once) {
  constexpr uint64_t rounds = 1000;
  with_devices(3, [](job &self, context &own) {
    auto const at = places_of(self);
    uint64_t sum = 0, before = 0;
    for (uint64_t i = 0; i < rounds; i++) {
      ASSERT_EQ(own.update<uint64_t>(port::fabric_atomic::add, at.device, 1, 0, &before, 0),
                status::ok);
      ASSERT_EQ(own.update<uint32_t>(port::fabric_atomic::add,
                                     reinterpret_cast<uint32_t *>(at.device + 1), 2, 0, nullptr, 0),
                status::ok);
    }
    ASSERT_EQ(own.quiet(), status::ok);
    ASSERT_EQ(meet(self), status::ok);
    ASSERT_EQ(own.get_value(sum, at.device, 0), status::ok);
    EXPECT_EQ(sum, 3 * rounds);
    ASSERT_EQ(own.get_value(sum, at.device + 1, 0), status::ok);
    EXPECT_EQ(sum, 6 * rounds);
    // A result may go to device memory.
    ASSERT_EQ(own.update<uint64_t>(port::fabric_atomic::fetch, at.device, 0, 0, at.device + 8, 0),
              status::ok);
    ASSERT_EQ(own.get_value(sum, at.device + 8, self.me()), status::ok);
    EXPECT_EQ(sum, 3 * rounds);
    EXPECT_EQ(
        own.update<uint64_t>(port::fabric_atomic::add,
                             reinterpret_cast<uint64_t *>(reinterpret_cast<char *>(at.device) + 4),
                             1, 0, nullptr, 0),
        status::fault);
  });
}

// Who sees the signal sees the data, whatever memory each of them is in.
TEST_P(device, a_signal_follows_its_data) {
  constexpr size_t count = 500;
  with_devices(2, [](job &self, context &own) {
    auto const at = places_of(self);
    uint64_t turn = 0;
    for (bool const data_on_device : {false, true}) {
      for (bool const signal_on_device : {false, true}) {
        uint64_t *const data = data_on_device ? at.device + 16 : at.host + 16;
        uint64_t *const signal = signal_on_device ? at.device : at.host;
        for (int round = 0; round < (self.staging() != nullptr ? 25 : 200); round++) {
          turn++;
          std::vector<uint64_t> const mine(count, turn);
          ASSERT_EQ(own.put_signal(data, mine.data(), count * 8, signal, signal_kind::set, turn,
                                   1 - self.me()),
                    status::ok);
          uint64_t seen = 0;
          auto const is_there =
              [&] {  // an atomic: a get of the word would not be ordered with the update
                return own.update<uint64_t>(port::fabric_atomic::fetch, signal, 0, 0, &seen,
                                            self.me()) == status::ok &&
                       seen == turn;
              };
          ASSERT_EQ(self.wait(is_there), status::ok);
          std::vector<uint64_t> back(count);
          ASSERT_EQ(own.get(back.data(), data, count * 8, self.me()), status::ok);
          ASSERT_EQ(back, mine);
          ASSERT_EQ(meet(self), status::ok);
        }
      }
    }
  });
}

TEST_P(device, its_memory_ends_somewhere) {
  with_devices(1, [](job &self, context &own) {
    auto const heap = self.device_heap();
    uint64_t const value = 1;
    EXPECT_EQ(own.put(heap.data() + heap.size() - 4, &value, 8, 0), status::range);
    EXPECT_EQ(own.put_value(reinterpret_cast<uint64_t *>(heap.data() + heap.size()), value, 0),
              status::range);
    EXPECT_EQ(own.accumulate(port::fabric_element::u64, heap.data(), &value, 8, 0),
              status::not_supported);
  });
}

// Many pieces, more than the area has slots, of either kind of memory, and what comes late and what
// comes early of it.
TEST_P(device, large_blocks_go_both_ways) {
  constexpr size_t count = 300'001;
  with_devices(3, [](job &self, context &own) {
    auto const at = places_of(self);
    pe_index const next = (self.me() + 1) % 3;
    std::vector<uint32_t> mine(count), back(count);
    std::iota(mine.begin(), mine.end(), uint32_t(self.me()) << 28);
    auto *const target = reinterpret_cast<uint32_t *>(at.device), *const local = target + 500'000;
    for (bool const from_device : {false, true}) {
      if (from_device) {
        ASSERT_EQ(own.copy(local, mine.data(), count * 4), status::ok);
      }
      ASSERT_EQ(own.put(target + 1, from_device ? local : mine.data(), count * 4, next),
                status::ok);
      own.fence();
      ASSERT_EQ(own.put_value(target + 1, 0xFEEDu, next), status::ok);
      ASSERT_EQ(own.quiet(), status::ok);
      std::fill(back.begin(), back.end(), 0);
      if (from_device) {
        ASSERT_EQ(own.copy(local, back.data(), count * 4), status::ok);
      }
      ASSERT_EQ(own.get_nbi(from_device ? local : back.data(), target + 1, count * 4, next),
                status::ok);
      ASSERT_EQ(own.quiet(), status::ok);
      if (from_device) {
        ASSERT_EQ(own.copy(back.data(), local, count * 4), status::ok);
      }
      EXPECT_EQ(back[0], 0xFEEDu);
      back[0] = mine[0];
      ASSERT_EQ(back, mine);
      ASSERT_EQ(meet(self), status::ok);
    }
  });
}

TEST_P(device, all_must_have_one) {
  auto const one = port::host_gpu_open();
  auto launchers = port::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (pe_index pe = 0; pe < 2; pe++) {
    threads.emplace_back([&, pe] {
      job_options options = small();
      if (pe == 1) {
        options.device = one.get();
        options.device_heap_size = 1;
      }
      EXPECT_EQ(job::start(*launchers[size_t(pe)], options).error(), status::invalid);
    });
  }
  for (auto &each : threads)
    each.join();
}

// Who asks something of a PE that has died is told as soon as the launcher knows, long before
// operations time out.
TEST(device_staged, a_dead_pe_ends_what_it_was_asked_for) {
  auto launchers = port::bootstrap_local(2);
  std::vector<std::thread> threads;
  for (pe_index pe = 0; pe < 2; pe++) {
    threads.emplace_back([&, pe] {
      auto const device = port::host_gpu_open();
      job_options options = small();
      options.device = device.get();
      options.device_heap_size = size_t{4} << 20;
      options.node = "none";
      auto made = job::start(*launchers[size_t(pe)], options);
      ASSERT_TRUE(made.ok());
      if (pe == 1)
        return launchers[1]->kill();
      auto queue = made.value()->device_queue_open();
      ASSERT_TRUE(queue.ok());
      context own{made.value()->map(), nullptr, std::move(queue).value(), false,
                  made.value()->staging()};
      uint64_t const began_ns = made.value()->time().now_ns();
      status code = status::ok;
      std::vector<std::byte> bytes(100'000);
      while (code == status::ok && made.value()->time().now_ns() - began_ns < meeting_ns) {
        code = own.put(made.value()->device_heap().data(), bytes.data(), bytes.size(), 1);
        if (code == status::ok)
          code = own.quiet();
      }
      EXPECT_EQ(code, status::peer_lost);
      EXPECT_LT(made.value()->time().now_ns() - began_ns, meeting_ns / 2);
      (void)own.quiet();
    });
  }
  for (auto &each : threads)
    each.join();
}

pe_card card_with(std::string_view machine, std::string_view bus_id) {
  pe_card made;
  machine.copy(made.kernel.data(), made.kernel.size() - 1);
  bus_id.copy(made.gpu.data(), made.gpu.size() - 1);
  return made;
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

INSTANTIATE_TEST_SUITE_P(pgas, device,
                         testing::Values(device_case{"reached", ""},
                                         device_case{"staged", "none", device_way::staged},
                                         device_case{"direct", "none", device_way::direct}),
                         [](auto &of) { return std::string{of.param.name}; });

}  // namespace
}  // namespace tanada::pgas
