// A backing file in persistent memory: flushes, power failures, lost bytes, and clients that map
// it.
#include "products/poold/backing_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "products/poold/pool_memory.hpp"
#include "products/poold/testing/msync_count.hpp"
#include "products/poold/testing/sizes.hpp"
#include "sim/persistent_memory.hpp"
#include "sim/world.hpp"

namespace tanada::poold {
namespace {

// A pool in persistent memory, whose power fails.
class space_in_persistent_memory : public testing::Test {
 protected:
  ~space_in_persistent_memory() override {
    unlink(path_.c_str());
  }
  void start() {
    memory_.reset();
    memory_ = pool_memory::create({.capacity = 16 * mib,
                                   .segment_size = 2 * mib,
                                   .file = path_,
                                   .persistent = &persistent_})
                  .value();
  }
  // Ends what runs, and starts again after the power has failed.
  void fail_power() {
    memory_.reset();
    persistent_.fail_power(random_);
    start();
  }
  void fill(const std::vector<pool_extent> &pieces, int value) {
    for (const pool_extent &part : pieces)
      std::memset(memory_->addr(part), value, part.size);
  }
  bool is_filled(const std::vector<pool_extent> &pieces, int value) {
    return std::all_of(pieces.begin(), pieces.end(), [&](const pool_extent &part) {
      auto const *const bytes = memory_->addr(part);
      return std::all_of(
          bytes, bytes + part.size, [&](std::byte byte) { return int(byte) == value; });
    });
  }

  std::string const path_ = testing::TempDir() + "tanada_pmem_" + std::to_string(getpid());
  sim::prng random_{3};
  sim::persistent_memory persistent_{16 * mib};
  std::unique_ptr<pool_memory> memory_;
};

TEST_F(space_in_persistent_memory, bytes_that_were_synced_survive_a_power_failure) {
  start();
  ASSERT_TRUE(memory_->is_persistent());
  auto const synced = memory_->allocate(0, 5 * mib + 100).value();
  auto const unsynced = memory_->allocate(0, mib).value();
  fill(synced, 's');
  fill(unsynced, 'u');
  ASSERT_EQ(memory_->sync(synced), status::ok);
  fail_power();
  EXPECT_TRUE(is_filled(synced, 's'));
  EXPECT_FALSE(is_filled(unsynced, 'u'));
}

TEST_F(space_in_persistent_memory, a_flush_without_effect_is_found) {
  start();
  auto const synced = memory_->allocate(0, mib).value();
  for (auto const fault : {sim::flush_fault::no_effect, sim::flush_fault::first_line}) {
    persistent_.set_fault(fault);
    fill(synced, 's');
    ASSERT_EQ(memory_->sync(synced), status::ok);
    fail_power();
    EXPECT_FALSE(is_filled(synced, 's'));
  }
}

TEST_F(space_in_persistent_memory, a_sync_flushes_its_own_bytes_and_no_others) {
  start();
  auto const whole = memory_->allocate(0, 16 * mib).value();
  std::vector<pool_memory::sync_request> requests(8);
  for (size_t i = 0; i < requests.size(); i++)
    requests[i].pieces = {{whole[i].segment, (i % 2) * mib, 128}};
  uint64_t const before = msync_count;
  memory_->sync(requests);
  for (auto const &request : requests)
    EXPECT_EQ(request.outcome, status::ok);
  EXPECT_EQ(msync_count, before);
  EXPECT_EQ(persistent_.counted().flushes, 8u);
  EXPECT_EQ(persistent_.counted().flushed_size, 8u * 128);
  EXPECT_EQ(persistent_.counted().drains, 1u) << "one for all of them";
}

TEST_F(space_in_persistent_memory, an_ordinary_file_is_synced_by_the_system) {
  persistent_.make_ordinary();
  start();
  EXPECT_FALSE(memory_->is_persistent());
  auto const pieces = memory_->allocate(0, 1000).value();
  uint64_t const before = msync_count;
  EXPECT_EQ(memory_->sync(pieces), status::ok);
  EXPECT_EQ(msync_count - before, 1u);
  EXPECT_EQ(persistent_.counted().flushes, 0u);
}

TEST_F(space_in_persistent_memory, a_file_that_is_smaller_than_the_pool_is_refused) {
  auto const created = pool_memory::create(
      {.capacity = 32 * mib, .segment_size = 2 * mib, .file = path_, .persistent = &persistent_});
  EXPECT_EQ(created.error(), status::no_space);
}

// The kernel signals a load of bytes that the memory has lost.
TEST_F(space_in_persistent_memory, a_granule_that_has_lost_bytes_is_given_to_nobody) {
  persistent_.set_granule(2 * mib);
  start();
  auto const pieces = memory_->allocate(0, 3 * mib).value();
  fill(pieces, 's');
  siginfo_t about{};
  about.si_signo = SIGBUS;
  about.si_code = BUS_MCEERR_AR;
  about.si_addr = memory_->addr(pieces[0]) + mib;
  ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &about), 0);
  memory_->check_losses();
  EXPECT_EQ(memory_->capacity(), 14 * mib);
  EXPECT_TRUE(memory_->is_lost(pieces, 3 * mib));
  EXPECT_EQ(memory_->sync(pieces), status::io);
  memory_->release(pieces);
  EXPECT_TRUE(memory_->allocate(0, 14 * mib).ok());
  EXPECT_EQ(memory_->allocate(0, 64).error(), status::no_space);
}

TEST_F(space_in_persistent_memory, clients_map_a_device_and_no_file) {
  start();
  auto pieces = memory_->allocate(0, 3 * mib).value();
  EXPECT_FALSE(memory_->is_exportable());
  EXPECT_EQ(memory_->export_segment(0, 0, true).error(), status::not_supported);
  memory_.reset();
  persistent_.make_device();
  start();
  ASSERT_TRUE(memory_->is_exportable());
  pieces = memory_->allocate(0, 3 * mib).value();
  auto const part = pieces.back();
  for (bool const writable : {true, false}) {
    auto const lent = memory_->export_segment(7, part.segment, writable).value();
    EXPECT_EQ(lent.size, 2 * mib);
    EXPECT_EQ(lent.file_offset, part.segment * 2 * mib);
    void *const mapped = mmap(nullptr,
                              lent.size,
                              PROT_READ | PROT_WRITE,
                              MAP_SHARED,
                              lent.descriptor,
                              off_t(lent.file_offset));
    EXPECT_EQ(mapped != MAP_FAILED, writable);
    if (mapped != MAP_FAILED)
      munmap(mapped, lent.size);
    close(lent.descriptor);
  }
  EXPECT_EQ(memory_->export_segment(7, 99, true).error(), status::no_entry);
  EXPECT_TRUE(memory_->reserve_segments(0, mib).empty());
}

// It could still write to what the new daemon gives to another object.
TEST_F(space_in_persistent_memory, a_client_of_the_previous_daemon_delays_allocations) {
  persistent_.make_device();
  start();
  auto const pieces = memory_->allocate(0, mib).value();
  auto const lent = memory_->export_segment(0, pieces[0].segment, true).value();
  void *const mapped =
      mmap(nullptr, lent.size, PROT_READ, MAP_SHARED, lent.descriptor, off_t(lent.file_offset));
  ASSERT_NE(mapped, MAP_FAILED);
  close(lent.descriptor);
  start();
  EXPECT_TRUE(memory_->is_held());
  EXPECT_FALSE(memory_->is_exportable());
  EXPECT_EQ(memory_->claim(0, pieces), status::ok) << "objects are restored";
  EXPECT_EQ(memory_->allocate(0, 64).error(), status::again);
  memory_->check_losses();
  EXPECT_TRUE(memory_->is_held());
  munmap(mapped, lent.size);
  EXPECT_TRUE(memory_->allocate(0, 64).ok());
  EXPECT_FALSE(memory_->is_held());
  EXPECT_TRUE(memory_->is_exportable());
}

TEST_F(space_in_persistent_memory, a_device_belongs_to_one_daemon) {
  persistent_.make_device();
  start();
  auto const second = pool_memory::create(
      {.capacity = 16 * mib, .segment_size = 2 * mib, .file = path_, .persistent = &persistent_});
  EXPECT_EQ(second.error(), status::busy);
}

TEST_F(space_in_persistent_memory, a_device_that_is_mapped_in_larger_parts_is_not_exported) {
  persistent_.make_device();
  persistent_.set_granule(2 * mib);
  memory_ = pool_memory::create({.capacity = 16 * mib,
                                 .segment_size = 2 * mib,
                                 .file = path_,
                                 .persistent = &persistent_})
                .value();
  EXPECT_TRUE(memory_->is_exportable());
  memory_.reset();
  persistent_.set_granule(4 * mib);
  start();
  EXPECT_FALSE(memory_->is_exportable());
}

TEST_F(space_in_persistent_memory, nothing_is_durable_in_a_file_that_was_removed) {
  start();
  auto const pieces = memory_->allocate(0, 1000).value();
  unlink(path_.c_str());
  memory_->check_losses();
  EXPECT_EQ(memory_->sync(pieces), status::io);
}

}  // namespace
}  // namespace tanada::poold
