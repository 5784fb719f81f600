// The contract of seams/gpu/gpu.hpp's shared memory, as a typed suite: see gpu_contract.hpp.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::contract {

template <class Subject>
class gpu_shared_contract : public testing::Test {
 protected:
  static constexpr size_t size = size_t{3} << 20;
  // The environment variable of the second process: descriptor and size.
  static constexpr const char *variable = "TND_TEST_SHARED_BLOCK";

  void SetUp() override {
    auto opened = Subject::open();
    ASSERT_TRUE(opened.ok()) << last_message();
    gpu_ = std::move(opened).value();
  }
  seams::shared_block allocate() {
    auto made = gpu_->allocate_shared(size);
    EXPECT_TRUE(made.ok()) << last_message();
    return made.ok() ? made.value() : seams::shared_block{};
  }
  void release(const seams::shared_block &block) {
    gpu_->free_shared(block.addr, block.size);
    close(block.descriptor);
  }
  std::vector<uint8_t> bytes_at(const void *addr, size_t count) {
    std::vector<uint8_t> bytes(count);
    EXPECT_EQ(gpu_->copy_to_host(bytes.data(), addr, count), status::ok) << last_message();
    return bytes;
  }
  static uint8_t *at(void *addr, size_t offset) {
    return static_cast<uint8_t *>(addr) + offset;
  }

  std::unique_ptr<seams::gpu> gpu_;
};
TYPED_TEST_SUITE_P(gpu_shared_contract);

TYPED_TEST_P(gpu_shared_contract, a_block_is_aligned_rounded_up_and_has_a_descriptor) {
  auto const block = this->allocate();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.addr) % (size_t{2} << 20), 0u);
  EXPECT_GE(block.size, this->size);
  EXPECT_GE(fcntl(block.descriptor, F_GETFD), 0);
  this->release(block);
}

TYPED_TEST_P(gpu_shared_contract, mapped_again_it_is_the_same_memory) {
  auto const block = this->allocate();
  auto again = this->gpu_->map_shared(block.descriptor, block.size);
  ASSERT_TRUE(again.ok()) << last_message();
  EXPECT_NE(again.value(), block.addr);
  ASSERT_EQ(this->gpu_->fill_device(this->at(block.addr, 4096), 0x5a, 4096), status::ok);
  EXPECT_EQ(this->bytes_at(this->at(again.value(), 4096), 4096), std::vector<uint8_t>(4096, 0x5a));
  ASSERT_EQ(this->gpu_->fill_device(this->at(again.value(), block.size - 1), 0x77, 1), status::ok);
  EXPECT_EQ(this->bytes_at(this->at(block.addr, block.size - 1), 1), std::vector<uint8_t>{0x77});
  this->gpu_->unmap_shared(again.value(), block.size);
  this->release(block);
}

TYPED_TEST_P(gpu_shared_contract, a_mapping_outlives_the_block_and_its_descriptor) {
  auto const block = this->allocate();
  auto again = this->gpu_->map_shared(block.descriptor, block.size);
  ASSERT_TRUE(again.ok()) << last_message();
  ASSERT_EQ(this->gpu_->fill_device(block.addr, 0x33, 4096), status::ok);
  this->release(block);
  EXPECT_EQ(this->bytes_at(again.value(), 4096), std::vector<uint8_t>(4096, 0x33));
  this->gpu_->unmap_shared(again.value(), block.size);
}

TYPED_TEST_P(gpu_shared_contract, says_which_memory_is_a_devices) {
  std::vector<uint8_t> host(4096);
  EXPECT_FALSE(this->gpu_->is_device_memory(host.data()));
  EXPECT_FALSE(this->gpu_->is_device_memory(nullptr));
  for (int round = 0; round < 3;
       round++) {  // freed memory may be allocated again at the same address
    auto const block = this->allocate();
    EXPECT_TRUE(this->gpu_->is_device_memory(block.addr));
    EXPECT_TRUE(this->gpu_->is_device_memory(this->at(block.addr, block.size - 1)));
    EXPECT_FALSE(this->gpu_->is_device_memory(host.data()));
    this->release(block);
    EXPECT_FALSE(this->gpu_->is_device_memory(block.addr));
  }
  auto device = this->gpu_->allocate_device(4096);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(this->gpu_->is_device_memory(device.value()), TypeParam::is_cuda);
  this->gpu_->free_device(device.value());
  auto pinned = this->gpu_->allocate_host(4096);
  ASSERT_TRUE(pinned.ok());
  EXPECT_FALSE(this->gpu_->is_device_memory(pinned.value()));
  this->gpu_->free_host(pinned.value());
}

// The fabric view has a host address unless the memory is a GPU's, and data that the fabric has
// written is visible after flush_fabric_writes().
TYPED_TEST_P(gpu_shared_contract, says_how_a_fabric_reaches_it) {
  auto const block = this->allocate();
  auto const view = this->gpu_->fabric_view(this->at(block.addr, 64), 4096);
  ASSERT_TRUE(view.ok()) << last_message();
  auto const memory = result{view}.value();
  EXPECT_EQ(memory.kind,
            TypeParam::is_cuda ? seams::fabric_memory_kind::cuda : seams::fabric_memory_kind::host);
  EXPECT_EQ(memory.size, 4096u);
  if (!TypeParam::is_cuda) {
    std::memset(memory.addr, 0x5A, memory.size);
  }
  EXPECT_EQ(this->gpu_->flush_fabric_writes(), status::ok) << last_message();
  uint8_t seen = 0;
  EXPECT_EQ(this->gpu_->copy_to_host(&seen, this->at(block.addr, 64 + 4095), 1), status::ok);
  if (!TypeParam::is_cuda) {
    EXPECT_EQ(seen, 0x5A);
  }
  this->release(block);
}

TYPED_TEST_P(gpu_shared_contract, refuses_more_than_there_is_and_says_how_much) {
  size_t const much = size_t{1} << 60;
  EXPECT_EQ(this->gpu_->allocate_shared(much).error(), status::no_memory) << last_message();
  EXPECT_NE(last_message().find(std::to_string(much)), std::string::npos) << last_message();
}

TYPED_TEST_P(gpu_shared_contract, refuses_to_map_what_is_no_such_memory) {
  int const zeros = open("/dev/zero", O_RDWR | O_CLOEXEC);
  ASSERT_GE(zeros, 0);
  auto const mapped = this->gpu_->map_shared(zeros, this->size);
  EXPECT_FALSE(mapped.ok());
  EXPECT_FALSE(last_message().empty());
  close(zeros);
  if (!TypeParam::is_cuda)
    return;
  // A descriptor as another kind of device shares it.
  int const memory = memfd_create("tanada-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, this->size), 0);
  EXPECT_EQ(this->gpu_->map_shared(memory, this->size).error(), status::not_supported);
  close(memory);
}

// Runs in the process that the next test starts: adds 1 to each byte of a page, and sets the
// block's last byte.
TYPED_TEST_P(gpu_shared_contract, another_process_reaches_it_part_two) {
  char const *const given = std::getenv(this->variable);
  if (given == nullptr)
    GTEST_SKIP() << "a part of another test";
  int descriptor = -1;
  size_t mapped_size = 0;
  ASSERT_EQ(std::sscanf(given, "%d,%zu", &descriptor, &mapped_size), 2);
  auto mapped = this->gpu_->map_shared(descriptor, mapped_size);
  ASSERT_TRUE(mapped.ok()) << last_message();
  auto opened = this->gpu_->queue_open(60'000'000'000);
  ASSERT_TRUE(opened.ok()) << last_message();
  auto &queue = *opened.value();
  std::vector<uint8_t> bytes(4096);
  ASSERT_EQ(queue.get(bytes.data(), mapped.value(), bytes.size()), status::ok) << last_message();
  for (auto &each : bytes)
    each++;
  ASSERT_EQ(queue.put(mapped.value(), bytes.data(), bytes.size()), status::ok) << last_message();
  ASSERT_EQ(queue.put(this->at(mapped.value(), mapped_size - 1), bytes.data(), 1), status::ok)
      << last_message();
  ASSERT_EQ(queue.wait(seams::deadline_after(seams::monotonic_clock().now_ns(), 20000000000)),
            status::ok)
      << last_message();
  this->gpu_->unmap_shared(mapped.value(), mapped_size);
}

TYPED_TEST_P(gpu_shared_contract, another_process_reaches_it) {
  if (std::getenv(this->variable) != nullptr)
    GTEST_SKIP() << "this is the other process";
  auto const block = this->allocate();
  ASSERT_EQ(this->gpu_->fill_device(block.addr, 0x10, 4096), status::ok);
  int const inherited = dup(block.descriptor);  // without close-on-exec
  std::string const given = std::string{this->variable} + "=" + std::to_string(inherited) + "," +
                            std::to_string(block.size);
  std::vector<char *> environment;
  for (char **each = environ; *each != nullptr; each++)
    environment.push_back(*each);
  environment.push_back(const_cast<char *>(given.c_str()));
  environment.push_back(nullptr);
  char program[] = "/proc/self/exe",
       filter[] = "--gtest_filter=*another_process_reaches_it_part_two",
       quiet[] = "--gtest_brief=1";
  char *const arguments[] = {program, filter, quiet, nullptr};
  pid_t child = -1;
  ASSERT_EQ(posix_spawn(&child, program, nullptr, nullptr, arguments, environment.data()), 0);
  int outcome = -1;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  close(inherited);
  EXPECT_EQ(this->bytes_at(block.addr, 4096), std::vector<uint8_t>(4096, 0x11));
  EXPECT_EQ(this->bytes_at(this->at(block.addr, block.size - 1), 1), std::vector<uint8_t>{0x11});
  this->release(block);
}

REGISTER_TYPED_TEST_SUITE_P(gpu_shared_contract,
                            a_block_is_aligned_rounded_up_and_has_a_descriptor,
                            mapped_again_it_is_the_same_memory,
                            a_mapping_outlives_the_block_and_its_descriptor,
                            says_which_memory_is_a_devices,
                            says_how_a_fabric_reaches_it,
                            refuses_more_than_there_is_and_says_how_much,
                            refuses_to_map_what_is_no_such_memory,
                            another_process_reaches_it_part_two,
                            another_process_reaches_it);

}  // namespace tanada::contract
