// onesided/job/testing.hpp: jobs whose PEs are threads, for tests.
#pragma once

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backends/local/local.hpp"
#include "onesided/job/job.hpp"

namespace tanada::pgas {

// PEs as threads; their program's data are one, so it is left out.
inline job_options small() {
  job_options options;
  options.heap_size = size_t{4} << 20;
  options.control_size = 4096;
  options.shares_program_data = false;
  options.timeout_ns = 20'000'000'000;
  return options;
}

// Each PE's part of a test, with its job; all finish together.
template <class Part>
void with_pes(pe_index count, const job_options &options, Part part) {
  auto launchers = port::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto made = job::start(*launcher, options);
      ASSERT_TRUE(made.ok()) << int(made.error());
      part(*made.value());
      EXPECT_EQ(made.value()->finish(), status::ok);
    });
  }
  for (auto &each : threads)
    each.join();
}

}  // namespace tanada::pgas
