// The store contract on Gfarm; tests/fixtures/gfarm.py decides whether replicas are local or
// remote.
#include "contract/store_contract_queues.hpp"
#include "contract/store_gfarm_subject.hpp"

namespace tanada::contract {
namespace {

store_case gfarm_case() {
  return {"gfarm", [] {
            return std::make_unique<gfarm_subject>();
          }};
}

std::string case_name(const testing::TestParamInfo<store_case> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(stores, store_contract, testing::Values(gfarm_case()), case_name);

TEST(store_gfarm, takes_urls_with_the_server_in_them) {
  gfarm_subject subject;
  store_driver driver{subject};
  auto const file = driver.must_open(subject.url("a"), store_make);
  EXPECT_EQ(driver.write(file, 0, "here").code, status::ok);
  EXPECT_EQ(driver.close(file).code, status::ok);
  const char *const server = std::getenv("TND_TEST_GFMD");
  ASSERT_NE(server, nullptr);
  auto const full =
      "gfarm://" + std::string{server} + subject.url("a").substr(std::string{"gfarm://"}.size());
  auto const opened = driver.open(full, store_read_only);
  ASSERT_EQ(opened.code, status::ok);
  EXPECT_EQ(driver.read(opened.file, 0, 10), "here");
  EXPECT_EQ(driver.close(opened.file).code, status::ok);
}

TEST(store_gfarm, a_directory_is_no_file) {
  gfarm_subject subject;
  store_driver driver{subject};
  EXPECT_EQ(driver.open("gfarm:///demo", store_read_only).code, status::is_directory);
  EXPECT_EQ(driver.on_name(seams::store_op_kind::list, "gfarm:///de").names,
            std::vector<std::string>{"gfarm:///demo/"});
}

}  // namespace
}  // namespace tanada::contract
