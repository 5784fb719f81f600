// The fabric contract on libfabric's providers that need nothing but this machine, or, with
// --provider NAME and --node ADDRESS, on that one: what `make test-rdma` does in a guest with a
// (soft) RDMA device.
#include <cstdlib>
#include <cstring>

#include "backends/libfabric/libfabric_setup.hpp"
#include "contract/fabric_contract_atomics.hpp"
#include "contract/fabric_contract_faults.hpp"
#include "contract/fabric_contract_order.hpp"
#include "contract/fabric_libfabric_subject.hpp"

namespace tanada::contract {
namespace {

std::vector<libfabric_place> places{{.provider = "tcp;ofi_rxm", .node = "127.0.0.1"},
                                    {.provider = "shm", .node = ""},
                                    {.provider = "o2g", .node = "127.0.0.1"}};

std::vector<fabric_case> cases() {
  std::vector<fabric_case> made;
  for (auto const &place : places) {
    std::string name = place.provider;
    for (char &c : name) {
      if (isalnum(static_cast<unsigned char>(c)) == 0)
        c = '_';
    }
    made.push_back({name, [place] {
                      return std::make_unique<libfabric_subject>(place);
                    }});
  }
  return made;
}

std::string case_name(const testing::TestParamInfo<fabric_case> &which) {
  return which.param.name;
}

INSTANTIATE_TEST_SUITE_P(fabrics, fabric_contract, testing::ValuesIn(cases()), case_name);
INSTANTIATE_TEST_SUITE_P(fabrics, fabric_contract_atomics, testing::ValuesIn(cases()), case_name);

TEST(libfabric_endpoint, what_is_not_there_is_said) {
  EXPECT_EQ(backends::libfabric_endpoint_open({.provider = "nosuch"}).error(), status::no_plugin);
  EXPECT_EQ(backends::libfabric_endpoint_open({.provider = "shm", .depth = 0}).error(),
            status::invalid);
  EXPECT_EQ(
      backends::libfabric_endpoint_open({.provider = "shm", .message_size_max = 1 << 20}).error(),
      status::invalid);
  auto const known = backends::libfabric_providers();
  EXPECT_TRUE(std::find(known.begin(), known.end(), "tcp;ofi_rxm") != known.end());
  EXPECT_TRUE(std::find(known.begin(), known.end(), "o2g") != known.end());
}

// It was found where it is, and programs that this one starts know nothing of that.
TEST(libfabric_endpoint, what_only_the_start_needs_is_taken_back) {
  EXPECT_EQ(getenv("FI_PROVIDER_PATH"), nullptr);
  EXPECT_EQ(getenv("FI_PROVIDER"), nullptr);
  EXPECT_STREQ(getenv("FI_MR_CACHE_MAX_COUNT"), "0");
}

}  // namespace
}  // namespace tanada::contract

int main(int argc, char **argv) {
  using namespace tanada::contract;
  if (argc == 5 && strcmp(argv[1], "--victim") == 0)
    return libfabric_victim_main(argv[2], argv[3], argv[4]);
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--provider") == 0) {
      places = {{.provider = argv[i + 1],
                 .node = "",
                 .patience_ns = 60'000'000'000,
                 .short_ns = 5'000'000'000}};
    }
    if (strcmp(argv[i], "--node") == 0)
      places[0].node = argv[i + 1];
  }
  unsetenv("FI_PROVIDER_PATH");
  unsetenv("FI_PROVIDER");
  tanada::backends::libfabric_prepare({.provider = "o2g"});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
