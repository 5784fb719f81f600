#include "seams/gpu/gpu.hpp"
#include "seams/gpu/gpu_plugin.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

class cuda_plugin_variable : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("TND_CUDA_PLUGIN");
  }
};

TEST_F(cuda_plugin_variable, of_a_file_that_is_not_there_is_the_reason) {
  setenv("TND_CUDA_PLUGIN", "/nowhere/libtanada_cuda.so", 1);
  EXPECT_NE(seams::cuda_unavailable_reason().find("/nowhere/libtanada_cuda.so"), std::string::npos);
  EXPECT_EQ(seams::cuda_unavailable_reason().find('\n'), std::string::npos);
  auto const opened = seams::gpu_open(seams::gpu_choice::cuda, 0);
  EXPECT_EQ(opened.error(), status::no_plugin);
  EXPECT_EQ(last_message(), seams::cuda_unavailable_reason());
}

TEST_F(cuda_plugin_variable, of_a_library_without_the_table_is_the_reason) {
  setenv("TND_CUDA_PLUGIN", "libm.so.6", 1);
  EXPECT_NE(seams::cuda_unavailable_reason().find("has no symbol tnd_gpu_plugin"),
            std::string::npos);
}

TEST_F(cuda_plugin_variable, makes_automatic_choice_take_the_host_executor) {
  setenv("TND_CUDA_PLUGIN", "/nowhere/libtanada_cuda.so", 1);
  auto opened = seams::gpu_open(seams::gpu_choice::automatic, 0);
  ASSERT_TRUE(opened.ok());
  EXPECT_FALSE(opened.value()->info().is_cuda);
}

TEST_F(cuda_plugin_variable, of_another_abi_is_the_reason) {
  setenv("TND_CUDA_PLUGIN", TND_TEST_OLD_PLUGIN, 1);
  EXPECT_NE(seams::cuda_unavailable_reason().find("has ABI 0, this library needs " +
                                                  std::to_string(TND_GPU_PLUGIN_ABI)),
            std::string::npos)
      << seams::cuda_unavailable_reason();
}

TEST(gpu_open, gives_cuda_exactly_when_there_is_no_reason_against_it) {
  auto opened = seams::gpu_open(seams::gpu_choice::automatic, 0);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened.value()->info().is_cuda, seams::cuda_unavailable_reason().empty());
}

TEST(gpu_open, refuses_a_device_that_is_not_there) {
  auto const opened = seams::gpu_open(seams::gpu_choice::cuda, 1000);
  EXPECT_TRUE(opened.error() == status::no_device || opened.error() == status::no_plugin);
  EXPECT_FALSE(last_message().empty());
}

TEST_F(cuda_plugin_variable, leaves_no_device_current) {
  setenv("TND_CUDA_PLUGIN", "/nowhere/libtanada_cuda.so", 1);
  EXPECT_EQ(seams::gpu_current(), -1);
  EXPECT_EQ(seams::gpu_count(), 0u);
}

class guarded_device : public testing::Test {
 protected:
  guarded_device() {
    setenv("TND_HOST_DEVICE", "guarded", 1);
  }
  ~guarded_device() override {
    device->free_shared(block.addr, block.size);
    close(block.descriptor);
  }
  void SetUp() override {
    device = seams::host_gpu_open();
    unsetenv("TND_HOST_DEVICE");
    auto allocated = device->allocate_shared(100);
    ASSERT_TRUE(allocated.ok());
    block = allocated.value();
  }
  // Lets a system call load from the address.
  bool is_loadable(const void *addr) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    bool const is_written = write(ends[1], addr, 1) == 1;
    EXPECT_TRUE(is_written || errno == EFAULT);
    for (int const end : ends)
      close(end);
    return is_written;
  }

  std::unique_ptr<seams::gpu> device;
  seams::shared_block block;
};

TEST_F(guarded_device, its_memory_is_for_queues_and_copies_alone) {
  auto *const words = static_cast<uint64_t *>(block.addr);
  EXPECT_TRUE(device->is_device_memory(words));
  EXPECT_FALSE(is_loadable(words));
  uint64_t value = 0, before = 0;
  EXPECT_TRUE(is_loadable(&value));
  ASSERT_EQ(device->fill_device(words, 1, 64), status::ok);
  ASSERT_EQ(device->copy_to_host(&value, words + 7, 8), status::ok);
  EXPECT_EQ(value, 0x0101010101010101u);
  auto queue = device->queue_open(1'000'000'000);
  ASSERT_TRUE(queue.ok());
  value = 40;
  ASSERT_EQ(queue.value()->put(words, &value, 8), status::ok);
  ASSERT_EQ(queue.value()->update(
                words, {seams::fabric_atomic::add, seams::fabric_element::u64, 2}, &before),
            status::ok);
  ASSERT_EQ(queue.value()->copy_rows(words + 1, words, {4, 2, 4, 0}), status::ok);
  ASSERT_EQ(queue.value()->get(&value, words + 1, 8), status::ok);
  EXPECT_EQ(before, 40u);
  EXPECT_EQ(value, (uint64_t{42} << 32) + 42);
  ASSERT_EQ(device->store_word(words, 7), status::ok);
  ASSERT_EQ(device->copy_to_device(words + 1, words, 8), status::ok);
  ASSERT_EQ(device->copy_to_host(&value, words + 1, 8), status::ok);
  EXPECT_EQ(value, 7u);
}

}  // namespace
}  // namespace tanada::backends
