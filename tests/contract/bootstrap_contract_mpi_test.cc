// The bootstrap contract in a job that MPI has started, and tests that only such a job can run.
// Every process of the job runs this program. One part of the contract does not apply: MPI's
// launcher ends all processes when one dies, so find_failed_rank() reports none, and no call
// returns peer_lost. tests/e2e/launch verifies that the processes end.
#include <mpi.h>

#include "contract/descriptor_contract.hpp"
#include "products/comex/mpi/mpi_bootstrap.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::comex {
namespace {

using contract::bootstrap_patience_ns;

// Each test has its own communicator, so that the job is joined and left once per test.
struct mpi_job {
  mpi_job() {
    EXPECT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), MPI_SUCCESS);
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    auto opened = mpi_bootstrap::open(communicator);
    EXPECT_TRUE(opened.ok()) << last_message();
    if (opened.ok())
      launcher = std::move(opened).value();
  }
  ~mpi_job() {
    launcher.reset();
    if (!has_unfinished)
      MPI_Comm_free(&communicator);
  }

  MPI_Comm communicator = MPI_COMM_NULL;
  bool has_unfinished = false;  // unfinished collectives still use the communicator
  std::unique_ptr<mpi_bootstrap> launcher;
};

struct mpi_subject {
  void run(const std::function<void(seams::bootstrap &)> &body) {
    mpi_job job;
    ASSERT_NE(job.launcher, nullptr);
    EXPECT_STREQ(job.launcher->name(), "mpi");
    body(*job.launcher);
    EXPECT_EQ(job.launcher->barrier(bootstrap_patience_ns), status::ok) << last_message();
  }
};

// The last rank arrives after the calls of all others have timed out. MPI_Barrier orders the two.
struct mpi_bootstrap_late : testing::Test {
  static constexpr uint64_t timeout_ns = 50'000'000;

  void SetUp() override {
    ASSERT_NE(job.launcher, nullptr);
    if (job.launcher->count() == 1)
      GTEST_SKIP() << "needs at least two ranks";
    job.has_unfinished = true;
    is_late = job.launcher->rank() == job.launcher->count() - 1;
  }
  static void meet() {
    ASSERT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  }

  mpi_job job;
  bool is_late = false;
};

TEST_F(mpi_bootstrap_late, who_does_not_come_is_waited_for_until_the_deadline) {
  auto &launcher = *job.launcher;
  if (!is_late) {
    auto &clock = seams::monotonic_clock();
    uint64_t const start_ns = clock.now_ns();
    EXPECT_EQ(launcher.barrier(timeout_ns), status::timed_out);
    EXPECT_GE(clock.now_ns() - start_ns, timeout_ns);
    EXPECT_NE(last_message().find("in time"), std::string::npos) << last_message();
    EXPECT_EQ(launcher.barrier(bootstrap_patience_ns), status::bad_state);
    EXPECT_EQ(launcher.exchange(bootstrap_patience_ns), status::bad_state);
  }
  meet();
  // All other ranks have entered the barrier that the late rank enters first, and none a second
  // one.
  if (is_late) {
    EXPECT_EQ(launcher.barrier(bootstrap_patience_ns), status::ok) << last_message();
    EXPECT_EQ(launcher.barrier(timeout_ns), status::timed_out);
  }
  meet();
}

// MPI may write the late rank's data to the buffers of the calls that have timed out. They must not
// be memory that is in use again.
TEST_F(mpi_bootstrap_late, what_comes_after_the_deadline_is_not_put_where_others_are) {
  auto &launcher = *job.launcher;
  size_t const count = size_t(launcher.count());
  ASSERT_EQ(launcher.publish("late", contract::bootstrap_pattern(1000, launcher.rank())),
            status::ok);
  std::vector<std::vector<uint64_t>> others;  // allocations of the sizes that the exchange used
  if (!is_late) {
    EXPECT_EQ(launcher.exchange(timeout_ns), status::timed_out);
    for (size_t i = 0; i < 64; i++)
      others.emplace_back(i % 2 == 0 ? count : (count + 1) / 2, 0);
  }
  meet();
  if (is_late) {
    EXPECT_EQ(launcher.exchange(timeout_ns), status::timed_out);
  }
  meet();
  for (auto const &each : others)
    EXPECT_EQ(each, std::vector<uint64_t>(each.size(), 0));
}

}  // namespace
}  // namespace tanada::comex

namespace tanada::contract {

INSTANTIATE_TYPED_TEST_SUITE_P(mpi, bootstrap_contract, comex::mpi_subject);
INSTANTIATE_TYPED_TEST_SUITE_P(mpi, descriptor_contract, comex::mpi_subject);

}  // namespace tanada::contract

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
    return 64;
  int const code = RUN_ALL_TESTS();
  MPI_Finalize();
  return code;
}
