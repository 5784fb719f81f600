// Memory of devices, which no processor of these tests reaches: the host executor's, guarded.
#include <cstdlib>
#include <cstring>
#include <random>

#include "products/comex/testing.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::comex {
namespace {

constexpr size_t device_size = size_t{4} << 20;

class device_transfers : public testing::TestWithParam<std::string> {
 protected:
  device_transfers() {
    setenv("TND_HOST_DEVICE", "guarded", 1);
  }
  ~device_transfers() override {
    unsetenv("TND_HOST_DEVICE");
  }

  template <class Part>
  void with_devices(pe_index count, Part part) {
    settings chosen = small(GetParam());
    chosen.device_heap_size = device_size;
    chosen.device = port::gpu_choice::host;
    with_processes(count, chosen, part);
  }
};
INSTANTIATE_TEST_SUITE_P(nodes, device_transfers, testing::Values("", "none"),
                         [](auto &which) { return which.param.empty() ? "one" : "each"; });

std::byte *give_device(engine &self, size_t size) {
  return static_cast<std::byte *>(self.device()->allocate(size));
}

void put_bytes(engine &self, std::byte *to, const std::vector<std::byte> &from) {
  ASSERT_EQ(self.put({from.data(), to, self.me()}, block(from.size()), until::source_is_free),
            status::ok);
}
std::vector<std::byte> bytes_at(engine &self, std::byte *from, size_t size) {
  std::vector<std::byte> seen(size);
  EXPECT_EQ(self.get({from, seen.data(), self.me()}, block(size), until::source_is_free),
            status::ok);
  return seen;
}

TEST_P(device_transfers, pieces_are_apart_and_come_back) {
  with_devices(1, [](engine &self, auto) {
    auto &device = *self.device();
    EXPECT_EQ(device.allocate(0), nullptr);
    EXPECT_EQ(device.allocate(device_size + 1), nullptr);
    EXPECT_EQ(device.allocate(~size_t{0}), nullptr);
    void *const one = device.allocate(100), *const rest = device.allocate(device.free_size());
    ASSERT_TRUE(one != nullptr && rest != nullptr);
    EXPECT_EQ(device.allocate(1), nullptr);
    EXPECT_FALSE(self.release(static_cast<char *>(one) + 1));
    EXPECT_TRUE(self.release(one));
    EXPECT_FALSE(self.release(one));
    EXPECT_TRUE(self.release(rest));
    EXPECT_EQ(device.free_size(), device_size);
  });
}

struct sides {
  bool is_near_device, is_far_device;  // ours, and the other's
};

// Shapes of up to three levels between each kind of memory, as in a model. Each works on the next
// one's memory alone.
void random_shapes(engine &self, pe_index other, std::byte *const *hosts, std::byte *const *devices,
                   const sides &which) {
  constexpr size_t size = size_t{64} << 10;
  std::mt19937 random{unsigned(self.me()) * 4 + which.is_near_device * 2 + which.is_far_device};
  auto const below = [&](size_t end) {
    return size_t(random()) % end;
  };
  auto *const theirs = which.is_far_device ? devices[other] : hosts[other];
  std::vector<std::byte> near(size), far(size), host(size);
  auto *const ours = which.is_near_device ? give_device(self, size) : host.data();
  for (int round = 0; round < 150; round++) {
    std::vector<int> counts{int(8 * (1 + below(20)))}, source{}, target{};
    int reach_source = counts[0], reach_target = counts[0];
    for (size_t i = below(4); i > 0; i--) {
      counts.push_back(int(1 + below(5)));
      source.push_back(reach_source + int(8 * below(3)));
      target.push_back(reach_target + int(8 * below(3)));
      reach_source = source.back() * counts.back();
      reach_target = target.back() * counts.back();
    }
    if (size_t(std::max(reach_source, reach_target)) > size)
      continue;
    auto const shape =
        strided_shape::of(counts, source.data(), target.data(), int(source.size())).value();
    until const end = below(2) == 0 ? until::later : until::source_is_free;
    for (auto *const each : {&near, &far}) {
      for (size_t i = 0; i < size; i += 8) {
        int64_t const value = int64_t(random());
        std::memcpy(&(*each)[i], &value, sizeof value);
      }
    }
    put_bytes(self, ours, near);
    ASSERT_EQ(self.put({far.data(), theirs, other}, block(size), until::source_is_free),
              status::ok);
    switch (round % 3) {
      case 0:
        ASSERT_EQ(self.put({ours, theirs, other}, shape, end), status::ok) << last_message();
        shape.for_each(
            [&](size_t s, size_t t) { std::memcpy(&far[t], &near[s], shape.block_size()); });
        break;
      case 1:
        ASSERT_EQ(self.get({theirs, ours, other}, shape, end), status::ok) << last_message();
        shape.for_each(
            [&](size_t s, size_t t) { std::memcpy(&near[t], &far[s], shape.block_size()); });
        break;
      default: {
        int64_t const scale = 3;
        ASSERT_EQ(self.accumulate(element::i64, &scale, {ours, theirs, other}, shape), status::ok)
            << last_message();
        shape.for_each([&](size_t s, size_t t) {
          add_scaled(element::i64, &scale, &far[t], &near[s], shape.block_size());
        });
      }
    }
    ASSERT_EQ(self.finish(), status::ok);
    std::vector<std::byte> back(size);
    ASSERT_EQ(self.get({theirs, back.data(), other}, block(size), until::source_is_free),
              status::ok);
    ASSERT_EQ(back, far) << "round " << round;
    ASSERT_EQ(bytes_at(self, ours, size), near) << "round " << round;
  }
  ASSERT_EQ(self.release(ours), which.is_near_device);
}

TEST_P(device_transfers, random_shapes_arrive_as_in_a_model) {
  std::byte *hosts[2] = {}, *devices[2] = {};
  with_devices(2, [&](engine &self, auto everybody) {
    constexpr size_t size = size_t{64} << 10;
    hosts[self.me()] = static_cast<std::byte *>(self.allocate(size));
    devices[self.me()] = give_device(self, size);
    everybody();
    for (bool const near : {false, true}) {
      for (bool const far : {false, true}) {
        if (near || far)
          random_shapes(self, 1 - self.me(), hosts, devices, {near, far});
      }
    }
    // What a process has for itself, by the same calls. Of its own: that others have done with
    // memory ThreadSanitizer does not hear by a fabric.
    auto *const own = give_device(self, size);
    std::byte *const mine[2] = {own, own};
    random_shapes(self, self.me(), mine, mine, {false, true});
    everybody();
  });
}

// More than is added at a time, from a device to both kinds of memory.
TEST_P(device_transfers, sums_of_any_size_lose_nothing) {
  constexpr size_t number_count = 150'000, size = number_count * sizeof(double);
  constexpr pe_index count = 3;
  std::byte *host = nullptr, *device = nullptr;
  with_devices(count, [&](engine &self, auto everybody) {
    if (self.me() == 0) {
      host = static_cast<std::byte *>(self.allocate(size));
      device = give_device(self, size);
      put_bytes(self, host, std::vector<std::byte>(size));
      put_bytes(self, device, std::vector<std::byte>(size));
    }
    std::vector<std::byte> added(size);
    for (size_t i = 0; i < number_count; i++) {
      double const value = double(i % 1000);
      std::memcpy(&added[i * sizeof value], &value, sizeof value);
    }
    auto *const ours = give_device(self, size);
    put_bytes(self, ours, added);
    everybody();
    double const scale = 0.5;
    for (auto *const to : {host, device}) {
      ASSERT_EQ(self.accumulate(element::f64, &scale, {ours, to, 0}, block(size)), status::ok)
          << last_message();
      ASSERT_EQ(self.accumulate(element::f64, &scale, {added.data(), to, 0}, block(size)),
                status::ok)
          << last_message();
    }
    ASSERT_EQ(self.finish(), status::ok);
    everybody();
    for (auto *const from : {host, device}) {
      std::vector<double> seen(number_count);
      ASSERT_EQ(self.get({from, seen.data(), 0}, block(size), until::source_is_free), status::ok);
      for (size_t i = 0; i < number_count; i++)
        ASSERT_EQ(seen[i], double(i % 1000) * count) << i;
    }
    everybody();
  });
}

TEST_P(device_transfers, words_are_counted_by_all_beside_sums) {
  constexpr pe_index count = 3;
  constexpr int64_t times = 100;
  std::byte *word = nullptr;
  with_devices(count, [&](engine &self, auto everybody) {
    if (self.me() == 0) {
      word = give_device(self, 64);
      put_bytes(self, word, std::vector<std::byte>(64));
    }
    everybody();
    int64_t before = 0, largest = -1;
    int64_t const one = 1, scale = 1;
    for (int64_t i = 0; i < times; i++) {
      ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, word, 1, 0), status::ok)
          << last_message();
      ASSERT_GT(before, largest);
      largest = before;
      ASSERT_EQ(self.accumulate(element::i64, &scale, {&one, word, 0}, block(sizeof one)),
                status::ok);
    }
    everybody();
    int64_t seen = 7;
    ASSERT_EQ(self.get({word, &seen, 0}, block(sizeof seen), until::source_is_free), status::ok);
    EXPECT_EQ(seen, 2 * times * count);
    everybody();
    if (self.me() == 1) {
      int32_t mine = 42;
      ASSERT_EQ(self.swap(word_kind::i32, &mine, word, 0), status::ok);
      EXPECT_EQ(mine, 2 * times * count);
      ASSERT_EQ(self.swap(word_kind::i32, &mine, word, 0), status::ok);
      EXPECT_EQ(mine, 42);
    }
    everybody();
  });
}

TEST_P(device_transfers, lists_may_lie_in_both) {
  std::byte *hosts[2] = {}, *devices[2] = {};
  with_devices(2, [&](engine &self, auto everybody) {
    hosts[self.me()] = static_cast<std::byte *>(self.allocate(4096));
    devices[self.me()] = give_device(self, 4096);
    everybody();
    pe_index const other = 1 - self.me();
    constexpr size_t count = 20;
    int64_t values[count], back[count] = {};
    void *sources[count], *targets[count], *backs[count];
    for (size_t i = 0; i < count; i++) {
      values[i] = int64_t(i * i) + 1000 * self.me();
      sources[i] = &values[i];
      backs[i] = &back[i];
      targets[i] = (i % 2 == 0 ? hosts : devices)[other] + 64 * i;
    }
    int64_t const scale = 2;
    ASSERT_EQ(self.put(piece_list{sources, targets, count, 8}, other, until::source_is_free),
              status::ok)
        << last_message();
    ASSERT_EQ(self.accumulate(element::i64, &scale, piece_list{sources, targets, count, 8}, other),
              status::ok)
        << last_message();
    ASSERT_EQ(self.get(piece_list{targets, backs, count, 8}, other, until::source_is_free),
              status::ok)
        << last_message();
    for (size_t i = 0; i < count; i++)
      EXPECT_EQ(back[i], 3 * values[i]);
    everybody();
  });
}

TEST_P(device_transfers, what_is_outside_is_refused) {
  std::byte *given[2] = {};
  with_devices(2, [&](engine &self, auto everybody) {
    given[self.me()] = give_device(self, 64);
    everybody();
    pe_index const other = 1 - self.me();
    char word[64] = {};
    auto *const end = given[other] + device_size;
    EXPECT_EQ(self.put({word, end - 8, other}, block(64), until::source_is_free), status::range);
    EXPECT_NE(last_message().find("end behind"), std::string::npos) << last_message();
    EXPECT_EQ(self.get({end - 8, word, other}, block(64), until::source_is_free), status::range);
    EXPECT_EQ(self.put({given[self.me()], word, other}, block(8), until::source_is_free),
              status::range);
    EXPECT_EQ(self.put({given[self.me()], given[other], 2}, block(8), until::source_is_free),
              status::invalid);
    EXPECT_EQ(self.put({given[self.me()], given[other], -1}, block(8), until::source_is_free),
              status::invalid);
    EXPECT_EQ(self.fetch_and_add(word_kind::i64, word, given[other] + 4, 1, other), status::fault);
    EXPECT_EQ(self.fetch_and_add(word_kind::i64, given[self.me()], given[other], 1, other),
              status::invalid);
    EXPECT_EQ(self.swap(word_kind::i64, word, end - 4, other), status::fault);
    EXPECT_EQ(self.lock({engine::mutex_count_max, other}), status::invalid) << "a device's";
    double const one = 1;
    EXPECT_EQ(self.accumulate(element::f64, &one, {word, given[other], other}, block(12)),
              status::invalid);
    EXPECT_EQ(self.accumulate(element::f64, &one, {word, end - 8, other}, block(16)),
              status::range);
    everybody();
  });
}

// As many mutexes as a program may hold, and its sums go on.
TEST_P(device_transfers, sums_have_a_mutex_beside_those_of_programs) {
  with_devices(1, [](engine &self, auto) {
    auto *const word = give_device(self, 64);
    put_bytes(self, word, std::vector<std::byte>(64));
    for (uint32_t i = 0; i < 64; i++)
      ASSERT_EQ(self.lock({i, 0}), status::ok);
    EXPECT_EQ(self.lock({64, 0}), status::busy);
    int64_t before = -1;
    EXPECT_EQ(self.fetch_and_add(word_kind::i64, &before, word, 1, 0), status::ok)
        << last_message();
    EXPECT_EQ(before, 0);
    for (uint32_t i = 0; i < 64; i++)
      ASSERT_EQ(self.unlock({i, 0}), status::ok);
  });
}

}  // namespace
}  // namespace tanada::comex
