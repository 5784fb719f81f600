// Limits of connections and handshakes, and the choice of evicted ones.
#include "products/poold/admission.hpp"

#include <gtest/gtest.h>

namespace tanada::poold {
namespace {

TEST(admission, silent_connections_of_one_host_push_out_each_other) {
  admission door{4096};
  for (uint64_t id = 0; id < 512; id++)
    EXPECT_TRUE(door.admit(id, "attacker", false).is_admitted);
  EXPECT_TRUE(door.admit(9000, "client", false).is_admitted);
  for (uint64_t id = 512; id < 20'000; id++) {
    auto const admitted = door.admit(id + 10'000, "attacker", false);
    ASSERT_TRUE(admitted.is_admitted);
    ASSERT_TRUE(admitted.evicted.has_value());
    EXPECT_NE(*admitted.evicted, 9000u);
    door.remove(*admitted.evicted);
  }
  EXPECT_TRUE(door.complete(9000));
}

TEST(admission, the_host_with_the_most_handshakes_gives_way_to_others) {
  admission door{4096};
  uint64_t id = 0;
  for (; id < 512; id++)
    (void)door.admit(id, "first", false);
  for (; id < 1000; id++)
    (void)door.admit(id, "second", false);
  for (; id < 1024; id++)
    EXPECT_FALSE(door.admit(id, "host " + std::to_string(id), false).evicted);
  EXPECT_EQ(door.admit(id, "another", false).evicted, 0u);
  EXPECT_FALSE(door.complete(0));
  EXPECT_TRUE(door.complete(1));
}

TEST(admission, a_full_pool_keeps_some_for_its_own_node) {
  admission door{160};
  for (uint64_t id = 0; id < 160; id++) {
    EXPECT_TRUE(door.admit(id, "host", false).is_admitted);
    EXPECT_TRUE(door.complete(id));
  }
  EXPECT_FALSE(door.admit(1000, "host", false).is_admitted);
  for (uint64_t id = 200; id < 210; id++) {
    EXPECT_TRUE(door.admit(id, "unix", true).is_admitted);
    EXPECT_TRUE(door.complete(id));
  }
  EXPECT_FALSE(door.admit(1001, "unix", true).is_admitted);
  door.remove(200);
  EXPECT_FALSE(door.admit(1002, "host", false).is_admitted);
  EXPECT_TRUE(door.admit(1003, "unix", true).is_admitted);
}

// All allowed connections may start their handshakes at once.
TEST(admission, handshakes_at_once_are_not_evicted_below_the_bound) {
  admission door{64};
  for (uint64_t id = 0; id < 64; id++)
    EXPECT_FALSE(door.admit(id, "host", false).evicted);
  EXPECT_EQ(door.admit(64, "host", false).evicted, 0u);
}

}  // namespace
}  // namespace tanada::poold
