// onesided/job/testing.hpp: jobs whose PEs are threads, for tests.
#pragma once

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backends/local/local.hpp"
#include "onesided/job/job.hpp"

namespace tanada::onesided {

// Options for PEs that are threads. They share one program's data, which are left out.
inline job_options small_options() {
  job_options options;
  options.heap_size = size_t{4} << 20;
  options.control_size = 4096;
  options.shares_program_data = false;
  options.timeout_ns = 20'000'000'000;
  return options;
}

// Runs `part` in each PE, with its job. All PEs finish together.
template <class Part>
void with_pes(pe_index count, const job_options &options, Part part) {
  auto launchers = backends::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto started = job::start(*launcher, options);
      ASSERT_TRUE(started.ok()) << int(started.error());
      part(*started.value());
      EXPECT_EQ(started.value()->finish(), status::ok);
    });
  }
  for (auto &thread : threads)
    thread.join();
}

}  // namespace tanada::onesided
