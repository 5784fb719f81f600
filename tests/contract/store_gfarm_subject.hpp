// tests/contract/store_gfarm_subject.hpp: the Gfarm plugin in front of the fixture's Gfarm.
#pragma once

#include <atomic>
#include <cstdlib>

#include "contract/store_subject.hpp"
#include "port/store/registry.hpp"

namespace tanada::port {

// Names have a prefix of the test's own; the whole Gfarm goes when the binary ends.
class gfarm_subject final : public store_subject {
 public:
  gfarm_subject() {
    static std::atomic<uint32_t> count{0};
    prefix_ = "gfarm:///t" + std::to_string(count++) + "_";
    auto found = registry_.find(prefix_);
    EXPECT_TRUE(found.ok()) << "run it by: python3 tests/fixtures/gfarm.py run -- ...";
    store_ = found.ok() ? found.value() : nullptr;
  }
  port::store &store() override { return *store_; }
  std::string url(const std::string &name) override { return prefix_ + name; }

 private:
  store_registry registry_;
  port::store *store_;
  std::string prefix_;
};

}  // namespace tanada::port
