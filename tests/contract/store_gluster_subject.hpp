// tests/contract/store_gluster_subject.hpp: the GlusterFS plugin in front of the fixture's volume.
#pragma once

#include <atomic>
#include <cstdlib>

#include "contract/store_subject.hpp"
#include "port/store/registry.hpp"

namespace tanada::port {

// Names have a prefix of the test's own; the whole volume goes when the binary ends.
class gluster_subject final : public store_subject {
 public:
  gluster_subject() {
    static std::atomic<uint32_t> count{0};
    const char *const volume = std::getenv("TND_TEST_GLUSTER");
    EXPECT_NE(volume, nullptr) << "run it by: python3 tests/fixtures/gluster.py run -- ...";
    prefix_ = std::string{volume == nullptr ? "gluster://nowhere/none/" : volume} + "t" + std::to_string(count++) + "_";
    auto found = registry_.find(prefix_);
    EXPECT_TRUE(found.ok());
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
