// products/shmem/collectives/testing.hpp: PEs as threads of a test, each with its teams.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "backends/local/local.hpp"
#include "products/shmem/collectives/collectives.hpp"

namespace tanada::shmem {

// One PE of a test.
struct test_pe {
  onesided::job &job;
  onesided::context &context;
  team_set &teams;
  std::mt19937_64 random;

  std::byte *heap(size_t offset) const {
    return job.heap().data() + offset;
  }

  // Sleeps at random, so that PEs arrive in all orders.
  void dawdle() {
    if (random() % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
};

struct test_world {
  int32_t count;
  team_set::group_mode mode = team_set::group_mode::mapped;
  int32_t node_count = 1;
  size_t heap_size = size_t{16} << 20;
};

inline onesided::job_options test_job_options(const test_world &world,
                                              const seams::bootstrap &launcher) {
  onesided::job_options options;
  options.heap_size = world.heap_size;
  options.control_size = team_set::control_size(world.count);
  options.shares_program_data = false;
  options.timeout_ns = 20'000'000'000;
  if (world.node_count > 1)
    options.node = "node " + std::to_string(launcher.node_ranks().front());
  return options;
}

// Runs `part` with the teams of a job that has started.
template <class Part>
void run_with_teams(onesided::job &job,
                    onesided::lane *lane,
                    team_set::group_mode mode,
                    Part &part) {
  onesided::context context{job.map(), lane};
  onesided::context signals{job.map(), lane, nullptr, true};
  bool const is_ordered = lane != nullptr && lane->is_ordered();
  team_set teams{{&job, &context, is_ordered ? &signals : &context}, mode};
  test_pe self{job, context, teams, std::mt19937_64(uint64_t(job.me()) * 77 + 5)};
  part(self);
  EXPECT_EQ(context.quiet(), status::ok);
  EXPECT_EQ(signals.quiet(), status::ok);
  EXPECT_EQ(job.finish(), status::ok);
}

template <class Part>
void with_teams(const test_world &world, Part part) {
  auto launchers = backends::bootstrap_local(world.count, world.node_count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto started = onesided::job::start(*launcher, test_job_options(world, *launcher));
      ASSERT_TRUE(started.ok()) << int(started.error());
      auto &job = *started.value();
      auto lane = job.lane_acquire(true);
      ASSERT_TRUE(lane.ok()) << int(lane.error());
      run_with_teams(job, lane.value(), world.mode, part);
      job.lane_release(lane.value());
    });
  }
  for (auto &thread : threads)
    thread.join();
}

}  // namespace tanada::shmem
