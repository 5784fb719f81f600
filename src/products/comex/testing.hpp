// products/comex/testing.hpp: processes that are threads, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "backends/local/local.hpp"
#include "core/base/log.hpp"
#include "products/comex/engine.hpp"

namespace tanada::comex {

inline settings small(const std::string &node = {}) {
  settings chosen;
  chosen.heap_size = size_t{8} << 20;
  chosen.job.timeout_ns = 20'000'000'000;
  chosen.job.node = node;
  chosen.has_common_addresses = false;
  return chosen;
}

// Each process, a thread here, its part of the test.
template <class Part>
void with_processes(pe_index count, const settings &chosen, const Part &part) {
  auto launchers = port::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto made = engine::start(*launcher, chosen);
      ASSERT_TRUE(made.ok()) << last_message();
      auto const everybody = [&] {
        ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      };
      part(*made.value(), everybody);
      EXPECT_EQ(made.value()->stop(), status::ok);
    });
  }
  for (auto &each : threads)
    each.join();
}

// `node` "none": each is on a node of its own.
template <class Part>
void with_processes(pe_index count, const std::string &node, const Part &part) {
  with_processes(count, small(node), part);
}

inline strided_shape block(size_t size) {
  return strided_shape{size};
}

}  // namespace tanada::comex
