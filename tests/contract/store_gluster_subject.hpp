// tests/contract/store_gluster_subject.hpp: the GlusterFS plugin in front of the fixture's volume,
// which goes when the binary ends.
#pragma once

#include <cstdlib>

#include "contract/store_url_subject.hpp"

namespace tanada::contract {

struct gluster_subject final : url_subject {
  gluster_subject() : url_subject{volume()} {}

 private:
  static std::string volume() {
    const char *const given = std::getenv("TND_TEST_GLUSTER");
    EXPECT_NE(given, nullptr) << "run it by: python3 tests/fixtures/gluster.py run -- ...";
    return given == nullptr ? "gluster://nowhere/none/" : given;
  }
};

}  // namespace tanada::contract
