// tests/e2e/pool/pool_contract.hpp: one pool and one connection, for contracts that hold on every
// path.
#pragma once

#include "e2e/pool/pool_fixture.hpp"

namespace tanada::test {

class pool_contract : public testing::TestWithParam<way> {
 protected:
  std::unique_ptr<poold::daemon> daemon = started(small_pool(GetParam()));
  connection pool{url_of(*daemon), GetParam()};

  tnd_pool_statistics statistics() {
    tnd_pool_statistics all{};
    all.struct_size = sizeof all;
    EXPECT_EQ(tnd_pool_get_statistics(pool, &all), TND_OK);
    return all;
  }
};

}  // namespace tanada::test
