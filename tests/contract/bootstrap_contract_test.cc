// The bootstrap contract on a job of one process and on jobs of threads, and what only those can be
// asked.
#include <sys/resource.h>

#include <thread>

#include "backends/local/local.hpp"
#include "contract/descriptor_contract.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::contract {
namespace {

// 64 ranks in one process hold 64 descriptors each, and more, at once: login shells allow 1,024.
class many_descriptors final : public testing::Environment {
  void SetUp() override {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
};
testing::Environment *const descriptors = testing::AddGlobalTestEnvironment(new many_descriptors);

struct alone_subject {
  void run(const std::function<void(seams::bootstrap &)> &body) {
    body(*seams::bootstrap_alone());
  }
};

template <int32_t count, int32_t node_count>
struct local_subject {
  void run(const std::function<void(seams::bootstrap &)> &body) {
    auto const ranks = backends::bootstrap_local(count, node_count);
    std::vector<std::thread> threads;
    for (auto const &each : ranks)
      threads.emplace_back([&] { body(*each); });
    for (auto &each : threads)
      each.join();
  }
};

using subjects = testing::Types<alone_subject,
                                local_subject<1, 1>,
                                local_subject<4, 1>,
                                local_subject<5, 2>,
                                local_subject<64, 1>>;
INSTANTIATE_TYPED_TEST_SUITE_P(in_one_process, bootstrap_contract, subjects);
INSTANTIATE_TYPED_TEST_SUITE_P(in_one_process, descriptor_contract, subjects);

TEST(bootstrap_local, ranks_are_on_nodes_in_blocks) {
  auto const ranks = backends::bootstrap_local(5, 2);
  EXPECT_EQ(ranks[0]->node_ranks(), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(ranks[4]->node_ranks(), (std::vector<int32_t>{3, 4}));
  int32_t const nodes[] = {7, 3, 7};
  auto const chosen = backends::bootstrap_local(nodes);
  EXPECT_EQ(chosen[0]->node_ranks(), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(chosen[1]->node_ranks(), (std::vector<int32_t>{1}));
}

TEST(bootstrap_local, who_does_not_come_is_waited_for_until_the_deadline) {
  auto const ranks = backends::bootstrap_local(2);
  uint64_t const start_ns = seams::monotonic_clock().now_ns();
  EXPECT_EQ(ranks[0]->barrier(50'000'000), status::timed_out);
  EXPECT_GE(seams::monotonic_clock().now_ns() - start_ns, 50'000'000u);
  EXPECT_EQ(ranks[1]->barrier(50'000'000), status::bad_state);
}

TEST(bootstrap_local, the_loss_of_a_rank_ends_what_others_wait_for) {
  auto const ranks = backends::bootstrap_local(3);
  std::thread waiting{[&] {
    EXPECT_EQ(ranks[0]->exchange(TND_NO_DEADLINE), status::peer_lost);
  }};
  std::thread doomed{[&] {
    EXPECT_EQ(ranks[2]->barrier(TND_NO_DEADLINE), status::canceled);
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  ranks[2]->kill();
  waiting.join();
  doomed.join();
  EXPECT_EQ(ranks[0]->find_failed_rank(), 2);
  EXPECT_EQ(ranks[1]->barrier(0), status::peer_lost);
}

TEST(bootstrap_local, an_abort_is_seen_by_all) {
  auto const ranks = backends::bootstrap_local(2);
  EXPECT_EQ(ranks[0]->abort_code(), -1);
  ranks[1]->abort(7, "on purpose");
  EXPECT_EQ(ranks[0]->abort_code(), 7);
  EXPECT_EQ(ranks[0]->find_failed_rank(), 1);
}

TEST(descriptor_exchange, has_to_wait_for_the_first_exchange) {
  auto const ranks = backends::bootstrap_local(2);
  EXPECT_EQ(seams::descriptor_exchange(*ranks[0], ranks[0]->node_ranks(), "early", {}, 0).error(),
            status::bad_state);
}

TEST(descriptor_exchange, ranks_of_other_nodes_are_refused) {
  auto const ranks = backends::bootstrap_local(2, 2);
  int32_t const both[] = {0, 1};
  EXPECT_EQ(seams::descriptor_exchange(*ranks[0], both, "far", {}, 0).error(), status::invalid);
}

}  // namespace
}  // namespace tanada::contract
