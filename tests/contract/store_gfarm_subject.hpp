// tests/contract/store_gfarm_subject.hpp: the Gfarm plugin in front of the fixture's Gfarm, which
// goes when the binary ends.
#pragma once

#include <cstdlib>

#include "contract/store_url_subject.hpp"

namespace tanada::contract {

struct gfarm_subject final : url_subject {
  gfarm_subject() : url_subject{"gfarm:///"} {
    EXPECT_NE(std::getenv("TND_TEST_GFMD"), nullptr)
        << "run it by: python3 tests/fixtures/gfarm.py run -- ...";
  }
};

}  // namespace tanada::contract
