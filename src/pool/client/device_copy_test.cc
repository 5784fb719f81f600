#include "pool/client/device_copy.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "base/log.hpp"
#include "port/gpu/testing/watched_gpu.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t segment_size = device_mapping::part_size + (uint64_t{6} << 20);  // two parts

// A segment as the daemon lends it.
class segment {
 public:
  segment() : descriptor_{memfd_create("segment", MFD_CLOEXEC)} {
    EXPECT_EQ(ftruncate(descriptor_, segment_size), 0);
    memory_ = static_cast<std::byte *>(mmap(nullptr, segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0));
  }
  ~segment() {
    munmap(memory_, segment_size);
    close(descriptor_);
  }
  segment(const segment &) = delete;
  segment &operator=(const segment &) = delete;
  std::shared_ptr<device_mapping> map() const {
    auto opened = device_mapping::open(descriptor_, {segment_size, 0, true});
    EXPECT_TRUE(opened.ok()) << last_message();
    return opened.ok() ? opened.value() : nullptr;
  }
  std::byte *memory() const { return memory_; }

 private:
  int const descriptor_;
  std::byte *memory_;
};

std::vector<std::byte> random_bytes(size_t size) {
  std::mt19937_64 random{size};
  std::vector<std::byte> bytes(size);
  for (size_t at = 0; at < size; at += 8) {
    uint64_t const word = random();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

class device_copy_test : public testing::Test {
 protected:
  device_copy_test() {
    auto created = device_copy::create(gpu, registration);
    EXPECT_TRUE(created.ok());
    copies = created.value();
    auto block = gpu->allocate_shared(segment_size);
    EXPECT_TRUE(block.ok()) << last_message();
    device = static_cast<std::byte *>(block.value().addr);
    close(block.value().descriptor);
  }
  ~device_copy_test() override {
    registration.stop();
    gpu->free_shared(device, segment_size);
  }

  void fill_device(const std::vector<std::byte> &bytes) {
    auto slot = gpu->allocate_host(bytes.size());
    ASSERT_TRUE(slot.ok());
    std::memcpy(slot.value(), bytes.data(), bytes.size());
    ASSERT_EQ(gpu->copy_to_device(device, slot.value(), bytes.size()), status::ok);
    gpu->free_host(slot.value());
  }

  // Whether the copy was staged.
  bool copy(device_mapping &mapping, uint64_t offset, uint64_t size, copy_direction direction) {
    bool is_staged = false;
    device_copy::part const part{&mapping, offset, device, size};
    EXPECT_EQ(copies->copy({&part, 1}, direction, helpers, is_staged), status::ok) << last_message();
    return is_staged;
  }

  void await_registered(const device_mapping &mapping) {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
    for (uint64_t part = 0; part < mapping.part_count(); part++) {
      while (!mapping.is_registered(part * device_mapping::part_size) && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      ASSERT_TRUE(mapping.is_registered(part * device_mapping::part_size));
    }
  }

  std::shared_ptr<port::watched_gpu> gpu = std::make_shared<port::watched_gpu>();
  registrar registration;
  port::team helpers{2};
  std::shared_ptr<device_copy> copies;
  std::byte *device = nullptr;
};

// Sizes and places that end within slots and span parts.
struct extent {
  uint64_t offset, size;
};
constexpr extent extents[] = {{0, 1},
                              {4096, device_copy::slot_size},
                              {12'345, 5 * device_copy::slot_size + 77},
                              {device_mapping::part_size - 3, 8},
                              {device_mapping::part_size - 3'000'001, 6'000'000},
                              {0, segment_size}};

TEST_F(device_copy_test, bytes_go_through_slots_until_their_pages_are_registered) {
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  gpu->close_registration();
  copies->add(mapping);
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  for (bool const is_registered : {false, true}) {
    if (is_registered) {
      gpu->open_registration();
      await_registered(*mapping);
    }
    for (extent const &each : extents) {
      std::memset(from_daemon.memory(), 0, segment_size);
      EXPECT_EQ(copy(*mapping, each.offset, each.size, copy_direction::to_host), !is_registered);
      ASSERT_EQ(std::memcmp(from_daemon.memory() + each.offset, bytes.data(), each.size), 0) << each.offset << ' ' << each.size;
      uint64_t const end = each.offset + each.size;
      EXPECT_TRUE(each.offset == 0 || from_daemon.memory()[each.offset - 1] == std::byte{0});
      EXPECT_TRUE(end == segment_size || from_daemon.memory()[end] == std::byte{0});
    }
  }
  EXPECT_EQ(gpu->registration_count(), 2u);
  EXPECT_EQ(gpu->largest_registration(), device_mapping::part_size);
}

TEST_F(device_copy_test, the_device_gets_what_unregistered_and_registered_pages_hold) {
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  auto const bytes = random_bytes(segment_size);
  std::memcpy(from_daemon.memory(), bytes.data(), segment_size);
  segment const other;
  auto const back = other.map();
  EXPECT_TRUE(copy(*mapping, 0, segment_size, copy_direction::to_device));
  EXPECT_TRUE(copy(*back, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(other.memory(), bytes.data(), segment_size), 0);
  copies->add(mapping);
  await_registered(*mapping);
  fill_device(random_bytes(4096));
  EXPECT_FALSE(copy(*mapping, 0, segment_size, copy_direction::to_device));
  EXPECT_TRUE(copy(*back, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(other.memory(), bytes.data(), segment_size), 0);
}

TEST_F(device_copy_test, connections_of_a_process_share_what_is_registered) {
  segment const from_daemon, other;
  auto first = from_daemon.map(), second = from_daemon.map();
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other.map());
  copies->add(first);
  copies->add(second);
  await_registered(*first);
  EXPECT_EQ(gpu->registration_count(), 2u);
  first.reset();
  EXPECT_FALSE(copy(*second, 0, 3 * device_copy::slot_size, copy_direction::to_host));
  second.reset();
  registration.stop();  // which has its reference for a moment longer
  EXPECT_EQ(gpu->registered_range_count(), 0u);
}

TEST_F(device_copy_test, a_device_that_refuses_pages_goes_on_through_slots) {
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  gpu->refuse_registration();
  copies->add(mapping);
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  for (int i = 0; i < 3; i++) EXPECT_TRUE(copy(*mapping, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(from_daemon.memory(), bytes.data(), segment_size), 0);
}

TEST_F(device_copy_test, a_copy_that_fails_is_reported_with_the_words_of_the_driver) {
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  gpu->fail_copy_after(3);
  bool is_staged = false;
  device_copy::part const part{mapping.get(), 0, device, segment_size};
  EXPECT_EQ(copies->copy({&part, 1}, copy_direction::to_host, helpers, is_staged), status::device_lost);
  EXPECT_EQ(last_message(), "this copy fails");
}

TEST_F(device_copy_test, threads_share_slots) {
  constexpr unsigned thread_count = 2 * device_copy::slot_count;
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  std::vector<std::thread> threads;
  constexpr uint64_t share = segment_size / thread_count;
  for (unsigned i = 0; i < thread_count; i++) {
    threads.emplace_back([&, i] {
      bool is_staged = false;
      device_copy::part const part{mapping.get(), i * share, device + i * share, share};
      EXPECT_EQ(copies->copy({&part, 1}, copy_direction::to_host, helpers, is_staged), status::ok) << last_message();
    });
  }
  copies->add(mapping);  // some of it is registered meanwhile
  for (std::thread &each : threads) each.join();
  EXPECT_EQ(std::memcmp(from_daemon.memory(), bytes.data(), share * thread_count), 0);
}

}  // namespace
}  // namespace tanada::pool
