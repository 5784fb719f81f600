#include "port/gpu/gpu.hpp"
#include "port/gpu/plugin.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/log.hpp"

namespace tanada::port {
namespace {

class cuda_plugin_variable : public testing::Test {
 protected:
  void TearDown() override { unsetenv("TND_CUDA_PLUGIN"); }
};

TEST_F(cuda_plugin_variable, of_a_file_that_is_not_there_is_the_reason) {
  setenv("TND_CUDA_PLUGIN", "/nowhere/libtanada_cuda.so", 1);
  EXPECT_NE(cuda_unavailable_reason().find("/nowhere/libtanada_cuda.so"), std::string::npos);
  EXPECT_EQ(cuda_unavailable_reason().find('\n'), std::string::npos);
  auto const opened = gpu_open(gpu_choice::cuda, 0);
  EXPECT_EQ(opened.error(), status::no_plugin);
  EXPECT_EQ(last_message(), cuda_unavailable_reason());
}

TEST_F(cuda_plugin_variable, of_a_library_without_the_table_is_the_reason) {
  setenv("TND_CUDA_PLUGIN", "libm.so.6", 1);
  EXPECT_NE(cuda_unavailable_reason().find("has no symbol tnd_gpu_plugin"), std::string::npos);
}

TEST_F(cuda_plugin_variable, makes_automatic_choice_take_the_host_executor) {
  setenv("TND_CUDA_PLUGIN", "/nowhere/libtanada_cuda.so", 1);
  auto opened = gpu_open(gpu_choice::automatic, 0);
  ASSERT_TRUE(opened.ok());
  EXPECT_FALSE(opened.value()->info().is_cuda);
}

TEST_F(cuda_plugin_variable, of_another_abi_is_the_reason) {
  setenv("TND_CUDA_PLUGIN", TND_TEST_OLD_PLUGIN, 1);
  EXPECT_NE(cuda_unavailable_reason().find("has ABI 0, this library wants " + std::to_string(TND_GPU_PLUGIN_ABI)), std::string::npos)
      << cuda_unavailable_reason();
}

TEST(gpu_open, gives_cuda_exactly_when_there_is_no_reason_against_it) {
  auto opened = gpu_open(gpu_choice::automatic, 0);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened.value()->info().is_cuda, cuda_unavailable_reason().empty());
}

TEST(gpu_open, refuses_a_device_that_is_not_there) {
  auto const opened = gpu_open(gpu_choice::cuda, 1000);
  EXPECT_TRUE(opened.error() == status::no_device || opened.error() == status::no_plugin);
  EXPECT_FALSE(last_message().empty());
}

}  // namespace
}  // namespace tanada::port
