// tests/contract/store_url_subject.hpp: the store that a registry finds for a URL, as programs find
// it.
#pragma once

#include <atomic>

#include "backends/registry/store_registry.hpp"
#include "contract/store_subject.hpp"

namespace tanada::contract {

// Names have a prefix of the test's own below `root`; what is there goes with the fixture that runs
// the servers.
class url_subject : public store_subject {
 public:
  explicit url_subject(const std::string &root) {
    static std::atomic<uint32_t> count{0};
    prefix_ = root + "t" + std::to_string(count++) + "_";
    auto found = registry_.find(prefix_);
    EXPECT_TRUE(found.ok()) << prefix_;
    store_ = found.ok() ? found.value() : nullptr;
  }
  seams::store &store() override {
    return *store_;
  }
  std::string url(const std::string &name) override {
    return prefix_ + name;
  }

 private:
  backends::store_registry registry_;
  seams::store *store_;
  std::string prefix_;
};

}  // namespace tanada::contract
