// tests/e2e/pool/pool_fixture.hpp: a daemon in this process and clients that reach it by a given
// path.
#pragma once

#include <gtest/gtest.h>
#include <tanada/pool.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "products/poold/daemon.hpp"

namespace tanada::test {

inline poold::daemon_options small_pool(uint64_t size = 64 << 20) {
  poold::daemon_options options;
  options.port = 0;
  options.size = size;
  options.segment_size = 2 << 20;
  options.worker_count = 2;
  return options;
}

// How a client reaches the daemon. Both unix_socket and shared_memory map the pool's memory, but
// only shared_memory has rings for its requests.
enum class way { shared_memory, unix_socket, tcp, fabric };
#if defined(TND_TEST_FABRIC)
inline auto all_ways() {
  return testing::Values(way::shared_memory, way::unix_socket, way::tcp, way::fabric);
}
#else
inline auto all_ways() {
  return testing::Values(way::shared_memory, way::unix_socket, way::tcp);
}
#endif
inline bool maps_memory(way by) {
  return by == way::shared_memory || by == way::unix_socket;
}

inline const char *from_environment(const char *name, const char *otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : text;
}
inline uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = from_environment(name, "");
  return *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}
// The provider and the interface's address of tests over a fabric.
inline const char *const test_fabric = from_environment("TND_TEST_FABRIC_PROVIDER", "tcp;ofi_rxm");
inline bool test_fabric_is_rdma() {
  return std::string_view{test_fabric}.find("verbs") != std::string_view::npos;
}
inline const char *const test_fabric_node = from_environment("TND_TEST_FABRIC_NODE", "127.0.0.1");

inline poold::daemon_options small_pool(way by) {
  auto options = small_pool();
  if (by == way::fabric) {
    options.fabric = test_fabric;
    options.fabric_node = test_fabric_node;
  }
  return options;
}

inline std::string way_name(const testing::TestParamInfo<way> &which) {
  static constexpr const char *names[] = {"shared_memory", "unix_socket", "tcp", "fabric"};
  return names[size_t(which.param)];
}

inline std::unique_ptr<poold::daemon> started(const poold::daemon_options &options) {
  auto one = poold::daemon::start(options);
  EXPECT_TRUE(one.ok());
  return one.ok() ? std::move(one).value() : nullptr;
}

inline std::string url_of(const poold::daemon &of, const std::string &space = "test") {
  return "pool://127.0.0.1:" + std::to_string(of.port()) + "/" + space;
}

struct connection {
  tnd_pool *pool = nullptr;
  tnd_status code = TND_OK;
  connection(const std::string &url, way by) {
    tnd_pool_config config = TND_POOL_CONFIG_INIT;
    config.shared_memory = maps_memory(by);
    config.flags = by == way::unix_socket ? uint32_t{TND_POOL_NO_RING} : 0;
    config.timeout_ns = 10'000'000'000;
    if (by == way::fabric)
      config.fabric = test_fabric;
    code = tnd_pool_connect(url.c_str(), &config, &pool);
  }
  connection(const std::string &url,
             bool shared_memory,
             uint64_t timeout_ns = 10'000'000'000,
             const char *key_file = nullptr) {
    tnd_pool_config config = TND_POOL_CONFIG_INIT;
    config.shared_memory = shared_memory;
    config.timeout_ns = timeout_ns;
    config.key_file = key_file;
    code = tnd_pool_connect(url.c_str(), &config, &pool);
  }
  connection(const connection &) = delete;
  connection &operator=(const connection &) = delete;
  ~connection() {
    tnd_pool_disconnect(pool);
  }
  operator tnd_pool *() const {
    return pool;
  }
};

// A connection without a namespace.
struct lister {
  tnd_pool *pool = nullptr;
  tnd_status code = TND_OK;
  lister(const poold::daemon &of, const char *key_file) {
    tnd_pool_config config = TND_POOL_CONFIG_INIT;
    config.flags = TND_POOL_NO_NAMESPACE;
    config.timeout_ns = 5'000'000'000;
    config.key_file = key_file;
    code = tnd_pool_connect(url_of(of, "").c_str(), &config, &pool);
  }
  lister(const lister &) = delete;
  lister &operator=(const lister &) = delete;
  ~lister() {
    tnd_pool_disconnect(pool);
  }
  operator tnd_pool *() const {
    return pool;
  }
};

struct handle {
  tnd_pool_object *object = nullptr;
  handle() = default;
  handle(const handle &) = delete;
  handle &operator=(const handle &) = delete;
  ~handle() {
    tnd_pool_close(object);
  }
  tnd_pool_object **operator&() {
    return &object;
  }
  operator tnd_pool_object *() const {
    return object;
  }
};

inline std::vector<char> pattern(size_t size, uint32_t seed) {
  std::vector<char> bytes(size);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (char &one : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    one = char(state >> 56);
  }
  return bytes;
}

inline std::vector<char> get(tnd_pool *pool,
                             const std::string &name,
                             tnd_status expected = TND_OK,
                             size_t capacity = 16 << 20) {
  std::vector<char> bytes(capacity);
  uint64_t size = 0;
  EXPECT_EQ(tnd_pool_get(pool, name.c_str(), bytes.data(), bytes.size(), &size, TND_POOL_VERIFY),
            expected)
      << tnd_last_message();
  bytes.resize(expected == TND_OK ? size : 0);
  return bytes;
}

inline tnd_status put(tnd_pool *pool,
                      const std::string &name,
                      const std::vector<char> &bytes,
                      uint32_t flags = 0) {
  return tnd_pool_put(pool, name.c_str(), bytes.data(), bytes.size(), flags, nullptr);
}

}  // namespace tanada::test
