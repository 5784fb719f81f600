// Memory that a store has mapped is registered as whole pages, kept while kernels may read it, and
// released once.
#include "products/gfile/host/mappings.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

namespace tanada::gfile {
namespace {

using seams::host_access;

// The host executor's GPU, which counts registrations and can refuse them.
class watched_gpu final : public seams::gpu {
 public:
  const seams::gpu_info &info() const noexcept override {
    return info_;
  }
  result<void *> allocate_device(size_t size) override {
    return real_->allocate_device(size);
  }
  void free_device(void *addr) noexcept override {
    real_->free_device(addr);
  }
  result<seams::shared_block> allocate_shared(size_t size) override {
    return real_->allocate_shared(size);
  }
  void free_shared(void *addr, size_t size_shared) noexcept override {
    real_->free_shared(addr, size_shared);
  }
  result<void *> map_shared(int descriptor, size_t size_shared) override {
    return real_->map_shared(descriptor, size_shared);
  }
  void unmap_shared(void *addr, size_t size_shared) noexcept override {
    real_->unmap_shared(addr, size_shared);
  }
  bool is_device_memory(const void *addr) const noexcept override {
    return real_->is_device_memory(addr);
  }
  result<std::unique_ptr<seams::device_queue>> queue_open(uint64_t timeout_ns) override {
    return real_->queue_open(timeout_ns);
  }
  result<void *> allocate_host(size_t size) override {
    return real_->allocate_host(size);
  }
  void free_host(void *addr) noexcept override {
    real_->free_host(addr);
  }
  status register_host(const void *addr, size_t size, host_access access) override {
    EXPECT_EQ(access, host_access::read);
    EXPECT_LE(size, mappings::part_size);
    if (refuses || registered.size() == part_count_max)
      return status::no_memory;
    if (registered.empty())
      begin = addr;
    EXPECT_EQ(addr, static_cast<const std::byte *>(begin) + registered_size);
    registered_size += size;
    registered.insert(addr);
    return status::ok;
  }
  void unregister_host(const void *addr) noexcept override {
    EXPECT_EQ(registered.erase(addr), 1u);
    kept_until_unregistered = !watched.expired();
    unregistered++;
  }
  status store_word(void *target, uint64_t value) override {
    return real_->store_word(target, value);
  }
  result<seams::fabric_memory> fabric_view(const void *addr, size_t size_viewed) const override {
    return real_->fabric_view(addr, size_viewed);
  }
  status flush_fabric_writes() override {
    return real_->flush_fabric_writes();
  }
  seams::direct_files &direct_files() noexcept override {
    return real_->direct_files();
  }
  status copy_to_device(void *target, const void *source, size_t size) override {
    return real_->copy_to_device(target, source, size);
  }
  status copy_to_host(void *target, const void *source, size_t size) override {
    return real_->copy_to_host(target, source, size);
  }
  status fill_device(void *target, uint8_t value, size_t size) override {
    return real_->fill_device(target, value, size);
  }
  status synchronize(uint64_t deadline_ns) override {
    return real_->synchronize(deadline_ns);
  }

  // Files that could be truncated are mapped only for GPUs.
  void act_as_cuda() {
    info_.is_cuda = true;
  }

  bool refuses = false;
  const void *begin = nullptr;
  size_t registered_size = 0, part_count_max = SIZE_MAX;
  std::set<const void *> registered;
  std::weak_ptr<void> watched;
  std::atomic<int> unregistered{0};
  bool kept_until_unregistered = false;

 private:
  std::unique_ptr<seams::gpu> real_ = seams::host_gpu_open();
  seams::gpu_info info_ = real_->info();
};

class mappings_test : public testing::Test {
 protected:
  static constexpr size_t page = 4096, skipped = 64, size = page + 100;
  static constexpr size_t large_size = 2 * mappings::part_size + size;

  // Memory of a store that begins within a page, as small objects of a pool do.
  map_request request(size_t file_size = size) {
    size_t const page_count = (skipped + file_size + page - 1) / page;
    std::shared_ptr<void> const hold{std::aligned_alloc(page, page_count * page), std::free};
    gpu_.watched = hold;
    auto const *const bytes = static_cast<const std::byte *>(hold.get());
    begin_ = bytes;
    return {0, 7, -1, true, true, file_size, {{bytes + skipped, file_size}, hold}};
  }

  // Wait until the mapper's thread is idle.
  void wait_until_done() {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (done_count_ == 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    ASSERT_EQ(done_count_, 1);
  }
  void wait_until_released() {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (!gpu_.watched.expired() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_TRUE(gpu_.watched.expired());
  }

  watched_gpu gpu_;
  const std::byte *begin_ = nullptr;
  std::array<mapped_range, mapped_range_count> ranges_{};
  std::array<node, 1> nodes_{};
  bool wanted_ = true;
  map_outcome outcome_;
  std::atomic<int> done_count_{0};
  std::atomic<u32> lost_slot_{0};
  mappings mappings_{gpu_,
                     ranges_.data(),
                     nodes_.data(),
                     2 * large_size,
                     [this](const map_request &, const map_outcome &outcome) {
                       outcome_ = outcome;
                       done_count_++;
                       return wanted_ && outcome.slot != 0;
                     },
                     [this](const map_request &lost, u32 slot) {
                       EXPECT_EQ(lost.key, 7u);
                       lost_slot_ = slot;
                     }};
};

TEST_F(mappings_test, registers_whole_pages_and_keeps_them_until_they_are_collected) {
  ASSERT_TRUE(mappings_.post_map(request()));
  wait_until_done();
  ASSERT_NE(outcome_.slot, 0u) << outcome_.reason;
  EXPECT_EQ(gpu_.begin, begin_);
  EXPECT_EQ(gpu_.registered_size, skipped + size);
  EXPECT_EQ(ranges_[outcome_.slot - 1].addr, reinterpret_cast<u64>(begin_ + skipped));
  EXPECT_EQ(ranges_[outcome_.slot - 1].size, size);
  mappings_.retire(outcome_.slot);
  EXPECT_FALSE(gpu_.watched.expired());
  EXPECT_EQ(gpu_.unregistered, 0);
  mappings_.collect(mappings_.retired_slots());
  EXPECT_EQ(gpu_.unregistered, 1);
  EXPECT_TRUE(gpu_.kept_until_unregistered);
  EXPECT_TRUE(gpu_.watched.expired());
}

// Two waits of the host may have listed the same slot.
TEST_F(mappings_test, collects_a_slot_once) {
  ASSERT_TRUE(mappings_.post_map(request()));
  wait_until_done();
  ASSERT_NE(outcome_.slot, 0u) << outcome_.reason;
  mappings_.retire(outcome_.slot);
  auto const first = mappings_.retired_slots(), second = mappings_.retired_slots();
  mappings_.collect(first);
  done_count_ = 0;
  gpu_.begin = nullptr;
  gpu_.registered_size = 0;
  ASSERT_TRUE(mappings_.post_map(request()));
  wait_until_done();
  ASSERT_NE(outcome_.slot, 0u) << outcome_.reason;
  mappings_.retire(outcome_.slot);
  mappings_.collect(second);
  EXPECT_EQ(gpu_.unregistered, 1) << "a kernel may read the second file";
  mappings_.collect(mappings_.retired_slots());
  EXPECT_EQ(gpu_.unregistered, 2);
}

TEST_F(mappings_test, registers_a_large_file_in_parts) {
  ASSERT_TRUE(mappings_.post_map(request(large_size)));
  wait_until_done();
  ASSERT_NE(outcome_.slot, 0u) << outcome_.reason;
  EXPECT_EQ(gpu_.begin, begin_);
  EXPECT_EQ(gpu_.registered.size(), 3u);
  EXPECT_EQ(gpu_.registered_size, skipped + large_size);
  EXPECT_EQ(ranges_[outcome_.slot - 1].size, large_size);
  mappings_.retire(outcome_.slot);
  mappings_.collect(mappings_.retired_slots());
  EXPECT_EQ(gpu_.unregistered, 3);
  EXPECT_TRUE(gpu_.watched.expired());
}

TEST_F(mappings_test, releases_the_parts_of_a_file_that_is_refused_later) {
  gpu_.part_count_max = 2;
  ASSERT_TRUE(mappings_.post_map(request(large_size)));
  wait_until_done();
  EXPECT_EQ(outcome_.slot, 0u);
  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (mappings_.retired_slots().empty() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  mappings_.collect(mappings_.retired_slots());
  EXPECT_EQ(gpu_.unregistered, 2);
  EXPECT_TRUE(gpu_.registered.empty());
  wait_until_released();
}

TEST_F(mappings_test, lets_go_of_what_cannot_be_registered) {
  gpu_.refuses = true;
  ASSERT_TRUE(mappings_.post_map(request()));
  wait_until_done();
  EXPECT_EQ(outcome_.slot, 0u);
  EXPECT_NE(outcome_.reason.find("registered"), std::string::npos) << outcome_.reason;
  wait_until_released();
  EXPECT_EQ(gpu_.unregistered, 0);
}

TEST_F(mappings_test, keeps_what_is_not_wanted_any_more_until_no_kernel_runs) {
  wanted_ = false;
  ASSERT_TRUE(mappings_.post_map(request()));
  wait_until_done();
  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (mappings_.retired_slots().empty() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  EXPECT_FALSE(gpu_.watched.expired());
  mappings_.collect(mappings_.retired_slots());
  EXPECT_TRUE(gpu_.watched.expired());
  EXPECT_TRUE(gpu_.kept_until_unregistered);
}

TEST_F(mappings_test, refuses_bytes_that_are_not_the_whole_file) {
  map_request truncated = request();
  truncated.memory.bytes = truncated.memory.bytes.first(size - 1);
  ASSERT_TRUE(mappings_.post_map(truncated));
  truncated.memory = {};
  wait_until_done();
  EXPECT_EQ(outcome_.slot, 0u);
  EXPECT_NE(outcome_.reason.find("another size"), std::string::npos) << outcome_.reason;
  wait_until_released();
  EXPECT_EQ(gpu_.begin, nullptr);
}

// A file of two pages that could be truncated.
class cut_test : public mappings_test {
 protected:
  cut_test() {
    gpu_.act_as_cuda();
    if (int const descriptor = mkstemp(path_); descriptor >= 0) {
      EXPECT_EQ(ftruncate(descriptor, size), 0);
      close(descriptor);
    }
  }
  ~cut_test() override {
    unlink(path_);
  }

  map_request request_for_file() const {
    int const descriptor = open(path_, O_RDONLY | O_CLOEXEC);
    EXPECT_GE(descriptor, 0);
    return {0, 7, descriptor, true, false, size, {}};
  }

  char path_[32] = "/tmp/tanada-mappings-XXXXXX";
};

TEST_F(cut_test, a_cut_waits_until_no_new_kernel_finds_the_mapping) {
  ASSERT_TRUE(mappings_.post_map(request_for_file()));
  wait_until_done();
  ASSERT_NE(outcome_.slot, 0u) << outcome_.reason;
  EXPECT_EQ(lost_slot_, 0u);
  ASSERT_EQ(truncate(path_, 100), 0);
  // The truncate has returned: kernels request the view from the host from now on.
  EXPECT_EQ(lost_slot_, outcome_.slot);
  EXPECT_EQ(nodes_[0].mapping, mapping_word(7, mapping_lost));
}

TEST_F(cut_test, a_writer_waits_likewise_and_another_mapping_is_refused_while_it_has_the_file) {
  ASSERT_TRUE(mappings_.post_map(request_for_file()));
  wait_until_done();
  ASSERT_NE(outcome_.slot, 0u) << outcome_.reason;
  int const writer = open(path_, O_RDWR | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  EXPECT_EQ(lost_slot_, outcome_.slot);
  mappings_.retire(outcome_.slot);
  mappings_.collect(mappings_.retired_slots());
  done_count_ = 0;
  ASSERT_TRUE(mappings_.post_map(request_for_file()));
  wait_until_done();
  EXPECT_EQ(outcome_.slot, 0u);
  EXPECT_NE(outcome_.reason.find("open for writing"), std::string::npos) << outcome_.reason;
  close(writer);
}

}  // namespace
}  // namespace tanada::gfile
