// gfile: the parts of the host side that need no kernel: settings, the order of calls, byte ranges.
#include <gtest/gtest.h>
#include <tanada/gfile.h>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "products/gfile/host/range_set.hpp"
#include "products/gfile/host/session.hpp"

namespace tanada::gfile {
namespace {

TEST(range_set, agrees_with_a_bitmap) {
  std::mt19937 random{7};
  for (int round = 0; round < 200; round++) {
    range_set ranges;
    std::vector<bool> bitmap(64);
    for (int i = 0; i < 12; i++) {
      uint32_t const begin = random() % 63, end = begin + 1 + random() % (64 - begin - 1 + 1);
      ranges.add({begin, std::min(end, 64u)});
      for (uint32_t k = begin; k < std::min(end, 64u); k++)
        bitmap[k] = true;
      std::vector<bool> covered(64);
      uint32_t last_end = 0;
      for (byte_range const &range : ranges.ranges()) {
        ASSERT_LT(range.begin, range.end);
        ASSERT_TRUE(last_end == 0 || range.begin > last_end) << "ranges touch or overlap";
        last_end = range.end;
        for (uint32_t k = range.begin; k < range.end; k++)
          covered[k] = true;
      }
      ASSERT_EQ(covered, bitmap);
    }
  }
}

struct bad_setting {
  const char *name;
  void (*spoil)(tnd_gfile_config &);
};

class bad_settings : public testing::TestWithParam<bad_setting> {};

TEST_P(bad_settings, are_refused_with_the_fields_name) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  GetParam().spoil(config);
  tnd_gfile *gfile = nullptr;
  EXPECT_EQ(tnd_gfile_create(&config, &gfile), -EINVAL);
  EXPECT_EQ(gfile, nullptr);
  EXPECT_NE(std::string{tnd_last_message()}.find(GetParam().name), std::string::npos)
      << tnd_last_message();
}

INSTANTIATE_TEST_SUITE_P(fields,
                         bad_settings,
                         testing::Values(bad_setting{"page_size",
                                                     [](tnd_gfile_config &c) {
                                                       c.page_size = 5000;
                                                     }},
                                         bad_setting{"page_size",
                                                     [](tnd_gfile_config &c) {
                                                       c.page_size = 2048;
                                                     }},
                                         bad_setting{"page_size",
                                                     [](tnd_gfile_config &c) {
                                                       c.page_size = 4u << 20;
                                                     }},
                                         bad_setting{"device_tier_size",
                                                     [](tnd_gfile_config &c) {
                                                       c.device_tier_size = 100;
                                                     }},
                                         bad_setting{"host_tier_size",
                                                     [](tnd_gfile_config &c) {
                                                       c.host_tier_size = 0;
                                                     }},
                                         bad_setting{"replacement",
                                                     [](tnd_gfile_config &c) {
                                                       c.replacement = 3;
                                                     }},
                                         bad_setting{"service_threads",
                                                     [](tnd_gfile_config &c) {
                                                       c.service_threads = 65;
                                                     }},
                                         bad_setting{"file_count_max",
                                                     [](tnd_gfile_config &c) {
                                                       c.file_count_max = 0;
                                                     }},
                                         bad_setting{"file_count_max",
                                                     [](tnd_gfile_config &c) {
                                                       c.file_count_max = 16385;
                                                     }},
                                         bad_setting{"device",
                                                     [](tnd_gfile_config &c) {
                                                       c.device = 9;
                                                     }},
                                         bad_setting{"flags",
                                                     [](tnd_gfile_config &c) {
                                                       c.flags = 1;
                                                     }},
                                         bad_setting{"timeout_ns",
                                                     [](tnd_gfile_config &c) {
                                                       c.timeout_ns = 0;
                                                     }},
                                         bad_setting{"struct_size",
                                                     [](tnd_gfile_config &c) {
                                                       c.struct_size = 4;
                                                     }}),
                         [](const auto &instance) {
                           return instance.param.name + std::to_string(instance.index);
                         });

TEST(gfile_settings, the_environment_wins_and_is_checked) {
  setenv("TND_GFILE_PAGE_SIZE", "8KiB", 1);
  setenv("TND_GFILE_REPLACEMENT", "clock", 1);
  setenv("TND_GFILE_TIMEOUT", "250ms", 1);
  auto good = configure(nullptr);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.value().page_size, 8192u);
  EXPECT_EQ(good.value().replacement, uint32_t(TND_GFILE_CLOCK));
  EXPECT_EQ(good.value().timeout_ns, 250'000'000u);
  setenv("TND_GFILE_REPLACEMENT", "random", 1);
  EXPECT_EQ(configure(nullptr).error(), status::invalid);
  EXPECT_NE(std::string{tnd_last_message()}.find("TND_GFILE_REPLACEMENT"), std::string::npos);
  unsetenv("TND_GFILE_PAGE_SIZE");
  unsetenv("TND_GFILE_REPLACEMENT");
  unsetenv("TND_GFILE_TIMEOUT");
}

TEST(gfile_calls, out_of_order_say_so) {
  EXPECT_EQ(ghandle(), -TND_ESTATE);
  EXPECT_EQ(gfinalize(), -TND_ESTATE);
  EXPECT_EQ(tnd_gfile_default(), nullptr);
  EXPECT_EQ(tnd_gfile_get_ref(nullptr).state, nullptr);
  EXPECT_EQ(tnd_gfile_destroy(nullptr), TND_OK);
  EXPECT_EQ(tnd_gfile_wait(nullptr, 1), -EINVAL);
  EXPECT_NE(std::string{tnd_last_message()}.find("tnd_gfile_wait"), std::string::npos)
      << tnd_last_message();
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  ASSERT_EQ(ginitialize(&config), TND_OK);
  EXPECT_EQ(ginitialize(&config), -EBUSY);
  EXPECT_EQ(ghandle(), TND_OK);
  tnd_gfile_statistics small = TND_GFILE_STATISTICS_INIT;
  small.struct_size = 8;
  EXPECT_EQ(tnd_gfile_get_statistics(tnd_gfile_default(), &small), -EINVAL);
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  EXPECT_EQ(tnd_gfile_get_fault(tnd_gfile_default(), &fault), TND_OK);
  EXPECT_EQ(fault.status, TND_OK);
  EXPECT_EQ(gfinalize(), TND_OK);
}

// Runs in a process of its own, with address space for the stacks of only some threads.
void create_with_few_threads() {
  constexpr size_t stack_size = 256u << 20, spare_size = 2 * stack_size + (192u << 20);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_size);
  pthread_setattr_default_np(&attributes);
  size_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  size_t const limit = pages * size_t(sysconf(_SC_PAGESIZE)) + spare_size;
  rlimit const address_limit{limit, limit};
  setrlimit(RLIMIT_AS, &address_limit);
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  config.device_tier_size = 1u << 20;
  config.host_tier_size = 1u << 20;
  config.service_threads = 16;
  tnd_gfile *gfile = nullptr;
  tnd_status const code = tnd_gfile_create(&config, &gfile);
  std::fprintf(stderr, "%s: %s\n", tnd_status_name(code), tnd_last_message());
  _exit(gfile == nullptr ? 0 : 1);
}

TEST(gfile_create, says_so_when_threads_are_few) {
  size_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  if (pages >> 28 != 0)
    GTEST_SKIP() << "a sanitizer has taken a terabyte of address space";
  EXPECT_EXIT(create_with_few_threads(),
              testing::ExitedWithCode(0),
              "EAGAIN: service thread [0-9]+ of 16: ");
}

// The state last passed to a module of the host executor.
void *module_state = nullptr;
tnd_status refusal = TND_OK;

TEST(gfile_modules, none_keeps_an_instance_that_one_refused) {
  ASSERT_EQ(tnd_gfile_register_module(0,
                                      [](const tnd_gfile_ref *ref) {
                                        module_state = ref->state;
                                        return tnd_status(TND_OK);
                                      }),
            TND_OK);
  ASSERT_EQ(
      tnd_gfile_register_module(0, [](const tnd_gfile_ref *) -> tnd_status { return refusal; }),
      TND_OK);
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  refusal = -EIO;
  EXPECT_EQ(ginitialize(&config), -EIO);
  EXPECT_EQ(module_state, nullptr) << "the address of memory that is freed";
  refusal = TND_OK;
  ASSERT_EQ(ginitialize(&config), TND_OK);
  EXPECT_NE(module_state, nullptr);
  EXPECT_EQ(gfinalize(), TND_OK);
  EXPECT_EQ(module_state, nullptr);
}

// For the sanitizers: a module that registers during gfinalize gets a live instance, or none.
TEST(gfile_modules, may_come_while_the_instance_goes) {
  std::atomic<bool> done = false;
  std::thread loader{[&] {
    for (int i = 0; i < 400 && !done; i++) {
      ASSERT_EQ(
          tnd_gfile_register_module(0, [](const tnd_gfile_ref *) -> tnd_status { return TND_OK; }),
          TND_OK);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }};
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  config.device_tier_size = config.page_size;
  config.host_tier_size = config.page_size;
  for (int i = 0; i < 20; i++) {
    ASSERT_EQ(ginitialize(&config), TND_OK);
    ASSERT_EQ(gfinalize(), TND_OK);
  }
  done = true;
  loader.join();
}

}  // namespace
}  // namespace tanada::gfile
