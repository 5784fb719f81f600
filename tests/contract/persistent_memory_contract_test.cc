// The contract of persistent memory on libpmem and on simulated memory.
#include "contract/persistent_memory_contract.hpp"

#include "backends/pmem/pmem_memory.hpp"
#include "core/base/log.hpp"
#include "sim/persistent_memory.hpp"

namespace tanada::contract {
namespace {

struct libpmem_subject {
  seams::persistent_memory &memory() {
    return backends::pmem_memory();
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(libpmem, persistent_memory_contract, libpmem_subject);

struct simulated_subject {
  seams::persistent_memory &memory() {
    return memory_;
  }
  sim::persistent_memory memory_{persistent_size};
};
INSTANTIATE_TYPED_TEST_SUITE_P(simulated, persistent_memory_contract, simulated_subject);

TEST(pmem_memory, an_ordinary_file_is_refused_with_a_reason) {
  if (std::getenv("PMEM_IS_PMEM_FORCE") != nullptr)
    GTEST_SKIP() << "libpmem has to treat all files as persistent memory";
  int const descriptor = make_persistent_file();
  EXPECT_EQ(backends::pmem_memory().map(descriptor).error(), status::not_supported);
  EXPECT_NE(last_message(), "");
  close(descriptor);
}

}  // namespace
}  // namespace tanada::contract
