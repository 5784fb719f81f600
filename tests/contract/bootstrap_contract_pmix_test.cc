// The bootstrap contract in a job of a PMIx launcher: every process of it runs this program.
#include <cstdio>

#include "contract/descriptor_contract.hpp"

namespace tanada::contract {
namespace {

// Joined and left in each test: a process may do so again and again.
struct pmix_subject {
  void run(const std::function<void(seams::bootstrap &)> &body) {
    auto opened = seams::bootstrap_open();
    ASSERT_TRUE(opened.ok()) << last_message();
    EXPECT_STREQ(opened.value()->name(), "pmix");
    body(*opened.value());
    EXPECT_EQ(opened.value()->barrier(bootstrap_patience_ns), status::ok) << last_message();
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(pmix, bootstrap_contract, pmix_subject);
INSTANTIATE_TYPED_TEST_SUITE_P(pmix, descriptor_contract, pmix_subject);

}  // namespace
}  // namespace tanada::contract
