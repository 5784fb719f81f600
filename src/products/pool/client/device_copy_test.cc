// Tests of copies between device memory and the pool, with a simulated GPU.
#include "products/pool/client/device_copy.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "core/base/log.hpp"
#include "seams/gpu/testing/watched_gpu.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t segment_size = device_mapping::part_size + (uint64_t{6} << 20);  // two parts

// A segment as the daemon lends it.
class segment {
 public:
  segment() : descriptor_{memfd_create("segment", MFD_CLOEXEC)} {
    EXPECT_EQ(ftruncate(descriptor_, segment_size), 0);
    memory_ = static_cast<std::byte *>(
        mmap(nullptr, segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0));
  }
  ~segment() {
    munmap(memory_, segment_size);
    close(descriptor_);
  }
  segment(const segment &) = delete;
  segment &operator=(const segment &) = delete;
  // Whether the pages are huge makes no difference to the copied bytes.
  std::shared_ptr<device_mapping> map(bool has_huge_pages = false) const {
    auto opened = device_mapping::open(descriptor_, {segment_size, 0, true, has_huge_pages});
    EXPECT_TRUE(opened.ok()) << last_message();
    if (!opened.ok())
      return nullptr;
    opened.value()->attach();
    return opened.value();
  }
  std::byte *memory() const {
    return memory_;
  }

 private:
  int const descriptor_;
  std::byte *memory_;
};

std::vector<std::byte> random_bytes(size_t size) {
  std::mt19937_64 random{size};
  std::vector<std::byte> bytes(size);
  for (size_t offset = 0; offset < size; offset += 8) {
    uint64_t const word = random();
    std::memcpy(bytes.data() + offset, &word, std::min<size_t>(8, size - offset));
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

  // Returns whether the copy was staged.
  bool copy(device_mapping &mapping, uint64_t offset, uint64_t size, copy_direction direction) {
    bool is_staged = false;
    device_copy::part const part{&mapping, offset, device, size};
    EXPECT_EQ(copies->copy({&part, 1}, direction, helpers, is_staged), status::ok)
        << last_message();
    return is_staged;
  }

  void await_registered(const device_mapping &mapping) {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
    for (uint64_t part = 0; part < mapping.part_count(); part++) {
      while (!mapping.is_registered(part * device_mapping::part_size) &&
             std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      ASSERT_TRUE(mapping.is_registered(part * device_mapping::part_size));
    }
  }

  std::shared_ptr<seams::watched_gpu> gpu = std::make_shared<seams::watched_gpu>();
  registrar registration;
  seams::team helpers{2};
  std::shared_ptr<device_copy> copies;
  std::byte *device = nullptr;
};

// Sizes and offsets that end within slots and cross parts.
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
    for (extent const &range : extents) {
      std::memset(from_daemon.memory(), 0, segment_size);
      EXPECT_EQ(copy(*mapping, range.offset, range.size, copy_direction::to_host), !is_registered);
      ASSERT_EQ(std::memcmp(from_daemon.memory() + range.offset, bytes.data(), range.size), 0)
          << range.offset << ' ' << range.size;
      uint64_t const end = range.offset + range.size;
      EXPECT_TRUE(range.offset == 0 || from_daemon.memory()[range.offset - 1] == std::byte{0});
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
  segment const second_segment;
  auto const back = second_segment.map();
  EXPECT_TRUE(copy(*mapping, 0, segment_size, copy_direction::to_device));
  EXPECT_TRUE(copy(*back, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(second_segment.memory(), bytes.data(), segment_size), 0);
  copies->add(mapping);
  await_registered(*mapping);
  fill_device(random_bytes(4096));
  EXPECT_FALSE(copy(*mapping, 0, segment_size, copy_direction::to_device));
  EXPECT_TRUE(copy(*back, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(second_segment.memory(), bytes.data(), segment_size), 0);
}

TEST_F(device_copy_test, connections_of_a_process_share_what_is_registered) {
  segment const from_daemon, second_segment;
  auto first = from_daemon.map(), second = from_daemon.map();
  EXPECT_EQ(first, second);
  EXPECT_NE(first, second_segment.map());
  copies->add(first);
  copies->add(second);
  await_registered(*first);
  EXPECT_EQ(gpu->registration_count(), 2u);
  first.reset();
  EXPECT_FALSE(copy(*second, 0, 3 * device_copy::slot_size, copy_direction::to_host));
  second.reset();
  registration.stop();  // it holds a reference for a moment longer
  EXPECT_EQ(gpu->registered_range_count(), 0u);
}

TEST_F(device_copy_test, a_device_that_refuses_pages_goes_on_through_slots) {
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  gpu->refuse_registration();
  copies->add(mapping);
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  for (int i = 0; i < 3; i++)
    EXPECT_TRUE(copy(*mapping, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(from_daemon.memory(), bytes.data(), segment_size), 0);
}

TEST_F(device_copy_test, a_copy_that_fails_is_reported_with_the_words_of_the_driver) {
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  copies->prepare_in_background();
  copies->finish_preparing();
  gpu->fail_copy_after(3);
  bool is_staged = false;
  device_copy::part const part{mapping.get(), 0, device, segment_size};
  EXPECT_EQ(copies->copy({&part, 1}, copy_direction::to_host, helpers, is_staged),
            status::device_lost);
  EXPECT_EQ(last_message(), "this copy fails");
}

TEST_F(device_copy_test, huge_pages_are_registered_by_the_first_copy_that_is_large) {
  segment const from_daemon;
  auto const mapping = from_daemon.map(true);
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  constexpr uint64_t small_size = device_copy::register_size_min - 1;
  EXPECT_TRUE(copy(*mapping, 4096, small_size, copy_direction::to_host));
  EXPECT_EQ(gpu->registration_count(), 0u);
  EXPECT_EQ(std::memcmp(from_daemon.memory() + 4096, bytes.data(), small_size), 0);
  for (extent const &range : extents) {
    std::memset(from_daemon.memory(), 0, segment_size);
    (void)copy(*mapping, range.offset, range.size, copy_direction::to_host);
    ASSERT_EQ(std::memcmp(from_daemon.memory() + range.offset, bytes.data(), range.size), 0)
        << range.offset;
    uint64_t const end = range.offset + range.size;
    EXPECT_TRUE(range.offset == 0 || from_daemon.memory()[range.offset - 1] == std::byte{0});
    EXPECT_TRUE(end == segment_size || from_daemon.memory()[end] == std::byte{0});
  }
  EXPECT_EQ(gpu->registration_count(), mapping->part_count());
  EXPECT_FALSE(copy(*mapping, 0, segment_size, copy_direction::to_host));
}

TEST_F(device_copy_test, the_device_gets_what_huge_pages_hold) {
  segment const from_daemon, second_segment;
  auto const mapping = from_daemon.map(true), back = second_segment.map();
  auto const bytes = random_bytes(segment_size);
  std::memcpy(from_daemon.memory(), bytes.data(), segment_size);
  EXPECT_FALSE(copy(*mapping, 0, segment_size, copy_direction::to_device));
  EXPECT_TRUE(copy(*back, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(second_segment.memory(), bytes.data(), segment_size), 0);
}

TEST_F(device_copy_test, huge_pages_that_the_device_refuses_are_staged) {
  segment const from_daemon;
  auto const mapping = from_daemon.map(true);
  gpu->refuse_registration();
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  for (int i = 0; i < 3; i++)
    EXPECT_TRUE(copy(*mapping, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(from_daemon.memory(), bytes.data(), segment_size), 0);
}

TEST_F(device_copy_test, a_failed_copy_of_huge_pages_is_reported) {
  segment const from_daemon;
  auto const mapping = from_daemon.map(true);
  copies->finish_preparing();  // the copies that warm up must not get the planted failure
  gpu->fail_copy_after(0);
  bool is_staged = false;
  device_copy::part const part{mapping.get(), 0, device, segment_size};
  EXPECT_EQ(copies->copy({&part, 1}, copy_direction::to_host, helpers, is_staged),
            status::device_lost);
  EXPECT_EQ(last_message(), "this copy fails");
}

// Each part is registered once, whichever thread comes first.
TEST_F(device_copy_test, transfers_and_the_background_register_a_part_once) {
  segment const from_daemon;
  auto const mapping = from_daemon.map(true);
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  gpu->close_registration();
  copies->add(mapping);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      seams::team caller_team{2};
      bool is_staged = false;
      device_copy::part const part{mapping.get(), 0, device, segment_size};
      EXPECT_EQ(copies->copy({&part, 1}, copy_direction::to_host, caller_team, is_staged),
                status::ok)
          << last_message();
    });
  }
  threads.emplace_back([&] { copies->register_now(mapping); });
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  gpu->open_registration();
  for (std::thread &thread : threads)
    thread.join();
  await_registered(*mapping);
  EXPECT_EQ(gpu->registration_count(), mapping->part_count());
  EXPECT_EQ(std::memcmp(from_daemon.memory(), bytes.data(), segment_size), 0);
}

// Unregistering memory takes as long as registering it, so a connection that ends does not wait for
// it.
TEST_F(device_copy_test, released_mappings_are_unregistered_in_the_background) {
  segment const from_daemon;
  auto mapping = from_daemon.map();
  copies->add(mapping);
  await_registered(*mapping);
  mapping->detach();
  copies->release({std::exchange(mapping, nullptr)});
  auto const limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
  while (gpu->registered_range_count() != 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  EXPECT_EQ(gpu->registered_range_count(), 0u);
}

TEST_F(device_copy_test, the_background_gives_up_what_no_connection_uses) {
  segment const from_daemon;
  auto mapping = from_daemon.map();
  gpu->close_registration();
  copies->add(mapping);
  std::weak_ptr<device_mapping> const watched = mapping;
  mapping->detach();
  copies->release({std::exchange(mapping, nullptr)});
  gpu->open_registration();
  auto const limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
  while (!watched.expired() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  EXPECT_TRUE(watched.expired());
  EXPECT_LE(gpu->registration_count(), 1u);  // the part that it was registering
}

TEST_F(device_copy_test, a_connection_that_comes_meanwhile_has_the_mapping_registered) {
  segment const from_daemon;
  for (int i = 0; i < 20; i++) {
    auto mapping = from_daemon.map();
    copies->add(mapping);
    mapping->detach();
    copies->release({std::exchange(mapping, nullptr)});
    auto const again = from_daemon.map();
    copies->add(again);
    await_registered(*again);
    again->detach();
  }
}

// Threads that stage take pieces from the end while others take them from the front: each byte
// once.
TEST_F(device_copy_test, a_queue_of_pieces_gives_each_byte_to_one_thread) {
  segment const from_daemon;
  auto const mapping = from_daemon.map(true);
  constexpr uint64_t part_size = device_mapping::part_size, step = 3'000'000;
  copy_queue queue{{{mapping.get(), 5, device, part_size - 5},
                    {mapping.get(), part_size, device + part_size - 5, segment_size - part_size}}};
  device_part piece{};
  uint64_t size = 0, end = segment_size;
  for (int i = 0; i < 4; i++) {
    ASSERT_TRUE(queue.take_back(piece, step));
    EXPECT_EQ(piece.offset + piece.size, end);
    EXPECT_EQ(piece.device - device, ptrdiff_t(piece.offset) - 5);
    end = piece.offset;
    size += piece.size;
  }
  EXPECT_LT(end, part_size);  // the second piece was used up, and the first one begun
  ASSERT_TRUE(queue.take_front(piece));
  EXPECT_EQ(piece.offset, 5u);
  EXPECT_EQ(piece.offset + piece.size, end);
  EXPECT_EQ(size + piece.size, segment_size - 5);
  EXPECT_FALSE(queue.take_front(piece));
  EXPECT_FALSE(queue.take_back(piece, step));
}

TEST_F(device_copy_test, registered_pieces_are_left_to_the_device) {
  segment const from_daemon;
  auto const mapping = from_daemon.map(true);
  copies->register_now(mapping);
  copy_queue queue{{{mapping.get(), 0, device, 4096}}};
  device_part piece{};
  EXPECT_FALSE(queue.take_back(piece, 4096));
  EXPECT_TRUE(queue.take_front(piece));
}

TEST_F(device_copy_test, a_namespace_is_claimed_by_one_connection_at_a_time) {
  auto first = copies->claim_namespace("pool://a/b");
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(copies->claim_namespace("pool://a/b"), nullptr);
  EXPECT_NE(copies->claim_namespace("pool://a/c"), nullptr);
  first.reset();
  EXPECT_NE(copies->claim_namespace("pool://a/b"), nullptr);
}

TEST_F(device_copy_test, copies_work_while_others_are_prepared) {
  segment const from_daemon;
  auto const mapping = from_daemon.map();
  auto const bytes = random_bytes(segment_size);
  fill_device(bytes);
  copies->prepare_thread();
  copies->prepare_in_background();
  EXPECT_TRUE(copy(*mapping, 0, segment_size, copy_direction::to_host));
  EXPECT_EQ(std::memcmp(from_daemon.memory(), bytes.data(), segment_size), 0);
  copies->finish_preparing();
  copies->prepare_in_background();  // a second call is a no-op
  EXPECT_TRUE(copy(*mapping, 0, segment_size, copy_direction::to_host));
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
      EXPECT_EQ(copies->copy({&part, 1}, copy_direction::to_host, helpers, is_staged), status::ok)
          << last_message();
    });
  }
  copies->add(mapping);  // some of it is registered meanwhile
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(std::memcmp(from_daemon.memory(), bytes.data(), share * thread_count), 0);
}

}  // namespace
}  // namespace tanada::pool
