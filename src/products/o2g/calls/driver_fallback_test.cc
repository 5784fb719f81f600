// Which service receives on a machine without the driver. The other half, with a driver, is
// tests/e2e/o2g/paper_driver_test.cc.
#include "products/o2g/calls/driver_fallback.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "core/base/log.hpp"
#include "products/o2g/calls/receiver.hpp"

namespace tanada::o2g::calls {
namespace {

class paths : public testing::Test {
 protected:
  std::string const file_ = testing::TempDir() + "/o2g_device_" + std::to_string(getpid());
  void TearDown() override {
    (void)unlink(file_.c_str());
  }
};

void expect_receiver(const char *setting, const char *path, const char *reason) {
  auto chosen = create_service(1, setting, path);
  ASSERT_TRUE(chosen.ok());
  EXPECT_NE(dynamic_cast<receiver *>(chosen.value().service.get()), nullptr);
  EXPECT_NE(chosen.value().reason.find("this process receives"), std::string::npos);
  EXPECT_NE(chosen.value().reason.find(reason), std::string::npos) << chosen.value().reason;
}

void expect_refusal(const char *path, const char *reason) {
  auto const chosen = create_service(1, "required", path);
  EXPECT_EQ(chosen.error(), status::no_device);
  EXPECT_NE(last_message().find("TND_O2G_DRIVER=required"), std::string::npos) << last_message();
  EXPECT_NE(last_message().find(reason), std::string::npos) << last_message();
}

TEST_F(paths, a_device_that_does_not_exist) {
  expect_receiver(nullptr, file_.c_str(), "the module o2g is not loaded");
  expect_receiver("", file_.c_str(), "the module o2g is not loaded");
  expect_receiver("auto", file_.c_str(), "the module o2g is not loaded");
  expect_receiver("off", file_.c_str(), "TND_O2G_DRIVER=off");
  expect_refusal(file_.c_str(), "the module o2g is not loaded");
}

TEST_F(paths, a_file_or_fifo_instead_of_the_device) {
  fclose(fopen(file_.c_str(), "w"));
  expect_receiver("auto", file_.c_str(), "is not a character device");
  expect_refusal(file_.c_str(), "is not a character device");
  ASSERT_EQ(unlink(file_.c_str()), 0);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  expect_receiver("auto", file_.c_str(), "is not a character device");
  expect_refusal(file_.c_str(), "is not a character device");
}

TEST_F(paths, a_folder_instead_of_the_device) {
  expect_receiver("auto", testing::TempDir().c_str(), testing::TempDir().c_str());
  expect_refusal(testing::TempDir().c_str(), testing::TempDir().c_str());
}

TEST_F(paths, another_device) {
  for (const char *const path : {"/dev/null", "/dev/zero", "/dev/full"}) {
    expect_receiver("auto", path, "is not the device of the module o2g");
    expect_refusal(path, "is not the device of the module o2g");
  }
}

TEST_F(paths, an_attempt_leaves_no_descriptor) {
  int const before = dup(0);
  ASSERT_GE(before, 0);
  close(before);
  for (const char *const path : {"/dev/null", "/dev/zero", "/"})
    EXPECT_FALSE(create_service(1, "required", path).ok());
  int const after = dup(0);
  close(after);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace tanada::o2g::calls
