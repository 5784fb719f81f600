// Files with keys and tokens are read only if nobody else may read or change them.
#include "seams/os/secret_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "core/base/message.hpp"

namespace tanada::seams {
namespace {

class secret_file : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream{path_} << "secret\n";
    chmod(path_.c_str(), 0600);
  }
  void TearDown() override {
    std::remove(path_.c_str());
  }
  std::string const path_ = testing::TempDir() + "tanada_secret_" + std::to_string(getpid());
};

TEST_F(secret_file, of_this_user_is_accepted) {
  EXPECT_EQ(check_secret_file(path_, "token"), status::ok);
}

TEST_F(secret_file, that_others_may_read_is_refused) {
  chmod(path_.c_str(), 0640);
  EXPECT_EQ(check_secret_file(path_, "token"), status::access);
  EXPECT_EQ(last_message().find("token " + path_), 0u) << last_message();
}

TEST_F(secret_file, of_another_user_is_refused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(check_secret_file(path_, "token"), status::access);
  EXPECT_NE(last_message().find("65534"), std::string::npos) << last_message();
}

TEST_F(secret_file, that_is_missing_has_a_status_of_its_own) {
  EXPECT_EQ(check_secret_file(path_ + "_", "token"), status::no_entry);
}

}  // namespace
}  // namespace tanada::seams
