// products/comex/testing.hpp: runs the processes of a test as threads.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "backends/local/local.hpp"
#include "core/base/log.hpp"
#include "products/comex/engine.hpp"

namespace tanada::comex {

inline settings small_settings(const std::string &node = {}) {
  settings config;
  config.heap_size = size_t{8} << 20;
  config.job.timeout_ns = 20'000'000'000;
  config.job.node = node;
  config.has_common_addresses = false;
  return config;
}

// Starts an engine in one thread for each process, and runs `part` there.
template <class Part>
void with_processes(pe_index count, const settings &config, const Part &part) {
  auto launchers = backends::bootstrap_local(count);
  std::vector<std::thread> threads;
  for (auto &launcher : launchers) {
    threads.emplace_back([&] {
      auto started = engine::start(*launcher, config);
      ASSERT_TRUE(started.ok()) << last_message();
      auto const barrier = [&] {
        ASSERT_EQ(launcher->barrier(20'000'000'000), status::ok);
      };
      part(*started.value(), barrier);
      EXPECT_EQ(started.value()->stop(), status::ok);
    });
  }
  for (auto &thread : threads)
    thread.join();
}

// With `node` "none" each process is on a node of its own.
template <class Part>
void with_processes(pe_index count, const std::string &node, const Part &part) {
  with_processes(count, small_settings(node), part);
}

inline strided_shape block(size_t size) {
  return strided_shape{size};
}

}  // namespace tanada::comex
