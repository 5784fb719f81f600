#include "products/poold/cluster/identity.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tanada::poold {
namespace {

class cluster_identity : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
  }

  std::string const folder_ = testing::TempDir() + "identity-" +
                              testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(cluster_identity, is_random) {
  EXPECT_EQ(identity_create().size(), 32u);
  EXPECT_NE(identity_create(), identity_create());
}

TEST_F(cluster_identity, stays_in_its_folder) {
  EXPECT_EQ(identity_read(folder_).value(), "");
  for (int i = 0; i < 2; i++) {
    std::string const identity = identity_create();
    ASSERT_EQ(identity_write(folder_, identity), status::ok);
    EXPECT_EQ(identity_read(folder_).value(), identity);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder_}, {}), 1);
}

TEST_F(cluster_identity, is_refused_where_the_file_has_another_content) {
  for (const char *const text : {"", "short", "0123456789abcdef0123456789abcdeX"}) {
    std::ofstream{folder_ + "/cluster"} << text;
    EXPECT_EQ(identity_read(folder_).error(), status::protocol) << text;
  }
}

TEST_F(cluster_identity, is_not_written_without_its_folder) {
  EXPECT_EQ(identity_write(folder_ + "/none", identity_create()), status::no_entry);
}

}  // namespace
}  // namespace tanada::poold
