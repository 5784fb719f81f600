// Transfers with device memory that processors cannot access: guarded memory of the host executor.
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
    settings chosen = small_settings(GetParam());
    chosen.device_heap_size = device_size;
    chosen.device = seams::gpu_choice::host;
    with_processes(count, chosen, part);
  }
};
INSTANTIATE_TEST_SUITE_P(nodes, device_transfers, testing::Values("", "none"), [](auto &which) {
  return which.param.empty() ? "one" : "each";
});

std::byte *give_device(engine &self, size_t size) {
  return static_cast<std::byte *>(self.device()->allocate(size));
}

void put_bytes(engine &self, std::byte *target, const std::vector<std::byte> &source) {
  ASSERT_EQ(
      self.put({source.data(), target, self.me()}, block(source.size()), completion_mode::local),
      status::ok);
}
std::vector<std::byte> bytes_at(engine &self, std::byte *source, size_t size) {
  std::vector<std::byte> actual(size);
  EXPECT_EQ(self.get({source, actual.data(), self.me()}, block(size), completion_mode::local),
            status::ok);
  return actual;
}

TEST_P(device_transfers, pieces_are_apart_and_come_back) {
  with_devices(1, [](engine &self, auto) {
    auto &device = *self.device();
    EXPECT_EQ(device.allocate(0), nullptr);
    EXPECT_EQ(device.allocate(device_size + 1), nullptr);
    EXPECT_EQ(device.allocate(~size_t{0}), nullptr);
    void *const first_piece = device.allocate(100), *const rest =
                                                        device.allocate(device.free_size());
    ASSERT_TRUE(first_piece != nullptr && rest != nullptr);
    EXPECT_EQ(device.allocate(1), nullptr);
    EXPECT_FALSE(self.release(static_cast<char *>(first_piece) + 1));
    EXPECT_TRUE(self.release(first_piece));
    EXPECT_FALSE(self.release(first_piece));
    EXPECT_TRUE(self.release(rest));
    EXPECT_EQ(device.free_size(), device_size);
  });
}

struct sides {
  bool is_local_device, is_remote_device;  // the local and the remote side
};

// Shapes of up to three levels between each pair of memory kinds, compared with a model. Each
// process works only on the next one's memory.
void random_shapes(engine &self,
                   pe_index peer,
                   std::byte *const *hosts,
                   std::byte *const *devices,
                   const sides &memory_kinds) {
  constexpr size_t size = size_t{64} << 10;
  std::mt19937 random{unsigned(self.me()) * 4 + memory_kinds.is_local_device * 2 +
                      memory_kinds.is_remote_device};
  auto const below = [&](size_t mode) {
    return size_t(random()) % mode;
  };
  auto *const remote = memory_kinds.is_remote_device ? devices[peer] : hosts[peer];
  std::vector<std::byte> local_model(size), remote_model(size), host(size);
  auto *const local = memory_kinds.is_local_device ? give_device(self, size) : host.data();
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
        strided_shape::from_arguments(counts, source.data(), target.data(), int(source.size()))
            .value();
    completion_mode const mode = below(2) == 0 ? completion_mode::deferred : completion_mode::local;
    for (auto *const model : {&local_model, &remote_model}) {
      for (size_t i = 0; i < size; i += 8) {
        int64_t const value = int64_t(random());
        std::memcpy(&(*model)[i], &value, sizeof value);
      }
    }
    put_bytes(self, local, local_model);
    ASSERT_EQ(self.put({remote_model.data(), remote, peer}, block(size), completion_mode::local),
              status::ok);
    switch (round % 3) {
      case 0:
        ASSERT_EQ(self.put({local, remote, peer}, shape, mode), status::ok) << last_message();
        shape.for_each([&](size_t s, size_t t) {
          std::memcpy(&remote_model[t], &local_model[s], shape.block_size());
        });
        break;
      case 1:
        ASSERT_EQ(self.get({remote, local, peer}, shape, mode), status::ok) << last_message();
        shape.for_each([&](size_t s, size_t t) {
          std::memcpy(&local_model[t], &remote_model[s], shape.block_size());
        });
        break;
      default: {
        int64_t const scale = 3;
        ASSERT_EQ(self.accumulate(element::i64, &scale, {local, remote, peer}, shape), status::ok)
            << last_message();
        shape.for_each([&](size_t s, size_t t) {
          add_scaled(element::i64, &scale, &remote_model[t], &local_model[s], shape.block_size());
        });
      }
    }
    ASSERT_EQ(self.finish(), status::ok);
    std::vector<std::byte> back(size);
    ASSERT_EQ(self.get({remote, back.data(), peer}, block(size), completion_mode::local),
              status::ok);
    ASSERT_EQ(back, remote_model) << "round " << round;
    ASSERT_EQ(bytes_at(self, local, size), local_model) << "round " << round;
  }
  ASSERT_EQ(self.release(local), memory_kinds.is_local_device);
}

TEST_P(device_transfers, random_shapes_arrive_as_in_a_model) {
  std::byte *hosts[2] = {}, *devices[2] = {};
  with_devices(2, [&](engine &self, auto barrier) {
    constexpr size_t size = size_t{64} << 10;
    hosts[self.me()] = static_cast<std::byte *>(self.allocate(size));
    devices[self.me()] = give_device(self, size);
    barrier();
    for (bool const local_model : {false, true}) {
      for (bool const remote_model : {false, true}) {
        if (local_model || remote_model)
          random_shapes(self, 1 - self.me(), hosts, devices, {local_model, remote_model});
      }
    }
    // A process may use its own memory by the same calls. Use memory of its own, because
    // ThreadSanitizer does not see synchronization through a fabric.
    auto *const own_memory = give_device(self, size);
    std::byte *const own_pair[2] = {own_memory, own_memory};
    random_shapes(self, self.me(), own_pair, own_pair, {false, true});
    barrier();
  });
}

// More than is added at a time, from a device to both kinds of memory.
TEST_P(device_transfers, sums_of_any_size_lose_nothing) {
  constexpr size_t number_count = 150'000, size = number_count * sizeof(double);
  constexpr pe_index count = 3;
  std::byte *host = nullptr, *device = nullptr;
  with_devices(count, [&](engine &self, auto barrier) {
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
    auto *const local = give_device(self, size);
    put_bytes(self, local, added);
    barrier();
    double const scale = 0.5;
    for (auto *const target : {host, device}) {
      ASSERT_EQ(self.accumulate(element::f64, &scale, {local, target, 0}, block(size)), status::ok)
          << last_message();
      ASSERT_EQ(self.accumulate(element::f64, &scale, {added.data(), target, 0}, block(size)),
                status::ok)
          << last_message();
    }
    ASSERT_EQ(self.finish(), status::ok);
    barrier();
    for (auto *const source : {host, device}) {
      std::vector<double> actual(number_count);
      ASSERT_EQ(self.get({source, actual.data(), 0}, block(size), completion_mode::local),
                status::ok);
      for (size_t i = 0; i < number_count; i++) {
        ASSERT_EQ(actual[i], double(i % 1000) * count) << i;
      }
    }
    barrier();
  });
}

TEST_P(device_transfers, words_are_counted_by_all_beside_sums) {
  constexpr pe_index count = 3;
  constexpr int64_t times = 100;
  std::byte *word = nullptr;
  with_devices(count, [&](engine &self, auto barrier) {
    if (self.me() == 0) {
      word = give_device(self, 64);
      put_bytes(self, word, std::vector<std::byte>(64));
    }
    barrier();
    int64_t before = 0, largest = -1;
    int64_t const unit = 1, scale = 1;
    for (int64_t i = 0; i < times; i++) {
      ASSERT_EQ(self.fetch_and_add(word_kind::i64, &before, word, 1, 0), status::ok)
          << last_message();
      ASSERT_GT(before, largest);
      largest = before;
      ASSERT_EQ(self.accumulate(element::i64, &scale, {&unit, word, 0}, block(sizeof unit)),
                status::ok);
    }
    barrier();
    int64_t actual = 7;
    ASSERT_EQ(self.get({word, &actual, 0}, block(sizeof actual), completion_mode::local),
              status::ok);
    EXPECT_EQ(actual, 2 * times * count);
    barrier();
    if (self.me() == 1) {
      int32_t local_word = 42;
      ASSERT_EQ(self.exchange_word(word_kind::i32, &local_word, word, 0), status::ok);
      EXPECT_EQ(local_word, 2 * times * count);
      ASSERT_EQ(self.exchange_word(word_kind::i32, &local_word, word, 0), status::ok);
      EXPECT_EQ(local_word, 42);
    }
    barrier();
  });
}

TEST_P(device_transfers, lists_may_lie_in_both) {
  std::byte *hosts[2] = {}, *devices[2] = {};
  with_devices(2, [&](engine &self, auto barrier) {
    hosts[self.me()] = static_cast<std::byte *>(self.allocate(4096));
    devices[self.me()] = give_device(self, 4096);
    barrier();
    pe_index const peer = 1 - self.me();
    constexpr size_t count = 20;
    int64_t values[count], back[count] = {};
    void *sources[count], *targets[count], *backs[count];
    for (size_t i = 0; i < count; i++) {
      values[i] = int64_t(i * i) + 1000 * self.me();
      sources[i] = &values[i];
      backs[i] = &back[i];
      targets[i] = (i % 2 == 0 ? hosts : devices)[peer] + 64 * i;
    }
    int64_t const scale = 2;
    ASSERT_EQ(self.put(piece_list{sources, targets, count, 8}, peer, completion_mode::local),
              status::ok)
        << last_message();
    ASSERT_EQ(self.accumulate(element::i64, &scale, piece_list{sources, targets, count, 8}, peer),
              status::ok)
        << last_message();
    ASSERT_EQ(self.get(piece_list{targets, backs, count, 8}, peer, completion_mode::local),
              status::ok)
        << last_message();
    for (size_t i = 0; i < count; i++) {
      EXPECT_EQ(back[i], 3 * values[i]);
    }
    barrier();
  });
}

TEST_P(device_transfers, what_is_outside_is_refused) {
  std::byte *buffers[2] = {};
  with_devices(2, [&](engine &self, auto barrier) {
    buffers[self.me()] = give_device(self, 64);
    barrier();
    pe_index const peer = 1 - self.me();
    char word[64] = {};
    auto *const mode = buffers[peer] + device_size;
    EXPECT_EQ(self.put({word, mode - 8, peer}, block(64), completion_mode::local), status::range);
    EXPECT_NE(last_message().find("end past"), std::string::npos) << last_message();
    EXPECT_EQ(self.get({mode - 8, word, peer}, block(64), completion_mode::local), status::range);
    EXPECT_EQ(self.put({buffers[self.me()], word, peer}, block(8), completion_mode::local),
              status::range);
    EXPECT_EQ(self.put({buffers[self.me()], buffers[peer], 2}, block(8), completion_mode::local),
              status::invalid);
    EXPECT_EQ(self.put({buffers[self.me()], buffers[peer], -1}, block(8), completion_mode::local),
              status::invalid);
    EXPECT_EQ(self.fetch_and_add(word_kind::i64, word, buffers[peer] + 4, 1, peer), status::fault);
    EXPECT_EQ(self.fetch_and_add(word_kind::i64, buffers[self.me()], buffers[peer], 1, peer),
              status::invalid);
    EXPECT_EQ(self.exchange_word(word_kind::i64, word, mode - 4, peer), status::fault);
    EXPECT_EQ(self.lock({engine::mutex_count_max, peer}), status::invalid) << "a device's";
    double const unit = 1;
    EXPECT_EQ(self.accumulate(element::f64, &unit, {word, buffers[peer], peer}, block(12)),
              status::invalid);
    EXPECT_EQ(self.accumulate(element::f64, &unit, {word, mode - 8, peer}, block(16)),
              status::range);
    barrier();
  });
}

// A program may hold all of its mutexes while accumulates continue.
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
