// Tests of the settings of the environment.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/log.hpp"
#include "products/shmem/runtime.hpp"
#include "products/shmem/symmetric_size.hpp"

namespace tanada::shmem {
namespace {

size_t size_of(const char *text) {
  auto const size = parse_symmetric_size(text);
  return size.ok() ? result{size}.value() : SIZE_MAX;
}

// The specification's own examples, section 8.
TEST(symmetric_size, is_as_specified) {
  EXPECT_EQ(size_of("20m"), 20971520u);
  EXPECT_EQ(size_of("3.1M"), 3250586u);
  EXPECT_EQ(size_of("20kk"), 20480u);
  EXPECT_EQ(size_of(".5m"), 524288u);
  EXPECT_EQ(size_of("0.5m"), 524288u);
  EXPECT_EQ(size_of("2G"), size_t{2} << 30);
  EXPECT_EQ(size_of("1t"), size_t{1} << 40);
  EXPECT_EQ(size_of("4097"), 4097u);
  EXPECT_EQ(size_of("0"), 0u);
  EXPECT_EQ(size_of("64KiB"), 65536u);
}

TEST(symmetric_size, rubbish_is_refused) {
  for (const char *const text :
       {"", "m", "-1", "-0.5k", "20x", "inf", "nan", "1e300", "999999t", "0x", " 1", "+1", "1.m"}) {
    EXPECT_FALSE(parse_symmetric_size(text).ok()) << text;
  }
}

class settings_test : public testing::Test {
 protected:
  ~settings_test() override {
    for (const char *const name : {"SHMEM_SYMMETRIC_SIZE",
                                   "SMA_SYMMETRIC_SIZE",
                                   "SHMEM_DEVICE_SYMMETRIC_SIZE",
                                   "SHMEM_DEBUG",
                                   "SMA_DEBUG"})
      unsetenv(name);
  }
};

TEST_F(settings_test, old_names_count_where_the_new_are_not_set) {
  setenv("SMA_SYMMETRIC_SIZE", "1m", 1);
  setenv("SMA_DEBUG", "1", 1);
  settings read;
  ASSERT_EQ(read.read_environment(), status::ok);
  EXPECT_EQ(read.job.heap_size, size_t{1} << 20);
  EXPECT_TRUE(read.is_debug);
  setenv("SHMEM_SYMMETRIC_SIZE", "2m", 1);
  setenv("SHMEM_DEBUG", "0", 1);
  settings again;
  ASSERT_EQ(again.read_environment(), status::ok);
  EXPECT_EQ(again.job.heap_size, size_t{2} << 20);
  EXPECT_FALSE(again.is_debug);
}

TEST_F(settings_test, an_empty_size_is_the_default) {
  setenv("SHMEM_SYMMETRIC_SIZE", "", 1);
  settings read;
  size_t const by_default = read.job.heap_size;
  ASSERT_EQ(read.read_environment(), status::ok);
  EXPECT_EQ(read.job.heap_size, by_default);
  setenv("SMA_SYMMETRIC_SIZE", "3m", 1);
  ASSERT_EQ(read.read_environment(), status::ok);
  EXPECT_EQ(read.job.heap_size, size_t{3} << 20);
}

TEST_F(settings_test, a_bad_size_is_named) {
  setenv("SHMEM_SYMMETRIC_SIZE", "lots", 1);
  settings read;
  EXPECT_EQ(read.read_environment(), status::invalid);
  EXPECT_NE(last_message().find("SHMEM_SYMMETRIC_SIZE=lots"), std::string::npos);
}

TEST_F(settings_test, the_device_heap_is_as_large_as_the_hosts_unless_told) {
  setenv("SHMEM_SYMMETRIC_SIZE", "3m", 1);
  settings read;
  read.device_support = SHMEM_DEVICE_HOST_INIT;
  ASSERT_EQ(read.read_environment(), status::ok);
  EXPECT_EQ(read.job.device_heap_size, size_t{3} << 20);
  setenv("SHMEM_DEVICE_SYMMETRIC_SIZE", ".5m", 1);
  ASSERT_EQ(read.read_environment(), status::ok);
  EXPECT_EQ(read.job.device_heap_size, size_t{1} << 19);
  EXPECT_EQ(read.job.heap_size, size_t{3} << 20);
}

TEST_F(settings_test, its_size_counts_with_a_device_alone) {
  setenv("SHMEM_DEVICE_SYMMETRIC_SIZE", "lots", 1);
  settings read;
  ASSERT_EQ(read.read_environment(), status::ok);
  EXPECT_EQ(read.job.device_heap_size, 0u);
  read.device_support = SHMEM_DEVICE_KERNEL_INIT;
  EXPECT_EQ(read.read_environment(), status::invalid);
  EXPECT_NE(last_message().find("SHMEM_DEVICE_SYMMETRIC_SIZE=lots"), std::string::npos);
}

}  // namespace
}  // namespace tanada::shmem
