// The contract of seams/gpu/gpu.hpp, as a typed suite: Subject::open() gives the implementation
// that the kernels of gpu_kernels.cu were compiled for.
#pragma once

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "contract/gpu_kernels.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::contract {

template <class Subject>
class gpu_contract : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Subject::open();
    ASSERT_TRUE(opened.ok()) << last_message();
    gpu_ = std::move(opened).value();
  }
  void *device(size_t size) {
    return value(gpu_->allocate_device(size));
  }
  void *host(size_t size) {
    return value(gpu_->allocate_host(size));
  }
  static uint64_t soon() {
    return seams::deadline_after(seams::monotonic_clock().now_ns(), 20000000000);
  }

  std::unique_ptr<seams::gpu> gpu_;

 private:
  static void *value(result<void *> got) {
    EXPECT_TRUE(got.ok()) << last_message();
    return got.ok() ? std::move(got).value() : nullptr;
  }
};
TYPED_TEST_SUITE_P(gpu_contract);

TYPED_TEST_P(gpu_contract, says_what_it_is) {
  EXPECT_FALSE(this->gpu_->info().name.empty());
  EXPECT_EQ(this->gpu_->info().is_cuda, TypeParam::is_cuda);
  EXPECT_GE(this->gpu_->info().multiprocessor_count, 1u);
  EXPECT_GE(this->gpu_->info().memory_size, 1u << 20);
}

TYPED_TEST_P(gpu_contract, device_memory_is_aligned_and_holds_what_is_copied) {
  for (size_t size : {size_t{1}, size_t{4095}, size_t{3} << 20}) {
    void *const addr = this->device(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(addr) % 256, 0u);
    std::vector<uint8_t> source(size), target(size);
    std::iota(source.begin(), source.end(), uint8_t(size));
    EXPECT_EQ(this->gpu_->copy_to_device(addr, source.data(), size), status::ok);
    EXPECT_EQ(this->gpu_->copy_to_host(target.data(), addr, size), status::ok);
    EXPECT_EQ(source, target);
    EXPECT_EQ(this->gpu_->fill_device(addr, 0x5a, size), status::ok);
    EXPECT_EQ(this->gpu_->copy_to_host(target.data(), addr, size), status::ok);
    EXPECT_EQ(target, std::vector<uint8_t>(size, 0x5a));
    this->gpu_->free_device(addr);
  }
}

TYPED_TEST_P(gpu_contract, host_memory_is_aligned_and_zeroed) {
  for (int round = 0; round < 2; round++) {  // the second may get the first one's memory
    for (size_t size : {size_t{1}, size_t{5000}, size_t{3} << 20}) {
      auto *const addr = static_cast<uint8_t *>(this->host(size));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(addr) % 4096, 0u);
      EXPECT_EQ(std::vector<uint8_t>(addr, addr + size), std::vector<uint8_t>(size, 0));
      std::memset(addr, 0xff, size);
      this->gpu_->free_host(addr);
    }
  }
}

TYPED_TEST_P(gpu_contract, copies_of_nothing_are_ok) {
  void *const addr = this->device(256);
  EXPECT_EQ(this->gpu_->copy_to_device(addr, addr, 0), status::ok);
  EXPECT_EQ(this->gpu_->copy_to_host(addr, addr, 0), status::ok);
  EXPECT_EQ(this->gpu_->fill_device(addr, 0, 0), status::ok);
  this->gpu_->free_device(addr);
}

TYPED_TEST_P(gpu_contract, refuses_memory_that_does_not_exist_and_says_how_much) {
  size_t const size = size_t{1} << 60;
  EXPECT_EQ(this->gpu_->allocate_device(size).error(), status::no_memory);
  EXPECT_NE(last_message().find(std::to_string(size)), std::string::npos) << last_message();
  EXPECT_EQ(this->gpu_->allocate_host(size).error(), status::no_memory);
  EXPECT_NE(last_message().find(std::to_string(size)), std::string::npos) << last_message();
}

TYPED_TEST_P(gpu_contract, kernels_work_on_device_memory) {
  constexpr uint64_t count = 100001;
  std::vector<uint64_t> values(count);
  std::iota(values.begin(), values.end(), uint64_t{7});
  auto *const addr = static_cast<uint64_t *>(this->device(count * 8));
  ASSERT_EQ(this->gpu_->copy_to_device(addr, values.data(), count * 8), status::ok);
  launch_arithmetic(addr, count);
  launch_arithmetic(addr, count);
  ASSERT_EQ(this->gpu_->synchronize(this->soon()), status::ok) << last_message();
  ASSERT_EQ(this->gpu_->copy_to_host(values.data(), addr, count * 8), status::ok);
  for (uint64_t i = 0; i < count; i++)
    ASSERT_EQ(values[i], 3 * (3 * (i + 7) + i) + i);
  this->gpu_->free_device(addr);
}

TYPED_TEST_P(gpu_contract, kernels_work_on_host_memory_at_the_same_address) {
  constexpr uint64_t count = 1000;
  auto *const addr = static_cast<uint64_t *>(this->host(count * 8));
  launch_arithmetic(addr, count);
  ASSERT_EQ(this->gpu_->synchronize(TND_NO_DEADLINE), status::ok) << last_message();
  for (uint64_t i = 0; i < count; i++)
    ASSERT_EQ(addr[i], i);
  this->gpu_->free_host(addr);
}

// While a kernel runs: the wait for it ends at its deadline, and copies do not wait for it.
TYPED_TEST_P(gpu_contract, a_running_kernel_holds_up_neither_deadlines_nor_copies) {
  auto *const words = static_cast<uint32_t *>(this->host(8));
  void *const addr = this->device(4096);
  std::vector<uint8_t> bytes(4096, 9);
  launch_wait(words, words + 1);
  while (__atomic_load_n(words, __ATOMIC_ACQUIRE) == 0)
    seams::monotonic_clock().sleep_ns(100000);
  uint64_t const start = seams::monotonic_clock().now_ns();
  EXPECT_EQ(this->gpu_->synchronize(start + 20000000), status::timed_out);
  EXPECT_FALSE(last_message().empty());
  EXPECT_GE(seams::monotonic_clock().now_ns(), start + 20000000);
  EXPECT_EQ(this->gpu_->synchronize(0), status::timed_out);
  EXPECT_EQ(this->gpu_->copy_to_device(addr, bytes.data(), 4096), status::ok);
  EXPECT_EQ(this->gpu_->fill_device(addr, 7, 2048), status::ok);
  EXPECT_EQ(this->gpu_->copy_to_host(bytes.data(), addr, 4096), status::ok);
  EXPECT_EQ(bytes[2047] * 10 + bytes[2048], 79);
  __atomic_store_n(words + 1, 1, __ATOMIC_RELEASE);
  EXPECT_EQ(this->gpu_->synchronize(this->soon()), status::ok) << last_message();
  this->gpu_->free_device(addr);
  this->gpu_->free_host(words);
}

REGISTER_TYPED_TEST_SUITE_P(gpu_contract,
                            says_what_it_is,
                            device_memory_is_aligned_and_holds_what_is_copied,
                            host_memory_is_aligned_and_zeroed,
                            copies_of_nothing_are_ok,
                            refuses_memory_that_does_not_exist_and_says_how_much,
                            kernels_work_on_device_memory,
                            kernels_work_on_host_memory_at_the_same_address,
                            a_running_kernel_holds_up_neither_deadlines_nor_copies);

}  // namespace tanada::contract
