// products/o2g/engine_fixture.hpp: engines in one process, over real sockets of the loopback.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <vector>

#include "products/o2g/engine.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g {

// An engine with all that it needs, on a free port.
template <class Sink>
struct loopback_endpoint {
  explicit loopback_endpoint(engine_options options = {},
                             const port::stream_set_options &with = {}) {
    options.at = result<port::socket_address>{port::socket_address_parse("127.0.0.1", 0)}.value();
    auto set = port::stream_set_create(with);
    auto made = engine::create(std::move(set).value(), options, done, memory);
    EXPECT_TRUE(made.ok());
    speaker = std::move(made).value();
  }
  peer_index peer(const loopback_endpoint &other) {
    return result<peer_index>{speaker->peer_of(other.speaker->address())}.value();
  }

  Sink done;
  regions memory;
  std::unique_ptr<engine> speaker;
};

struct kept_completions final : completion_sink {
  void complete(const completion &what) override {
    all.push_back(what);
  }
  std::vector<completion> all;
};
using kept_endpoint = loopback_endpoint<kept_completions>;

// Nothing drives it but polls, and none of them sleeps: one thread polls several engines.
inline engine_options polled(engine_options options = {}) {
  options.has_thread = false;
  options.sleep_ns_max = 0;
  return options;
}

// Polls all of them until `is` says so. False: it did not for 20 s.
template <class Condition>
bool poll_until(std::initializer_list<kept_endpoint *> all, Condition is) {
  uint64_t const end_ns = port::monotonic_clock().now_ns() + 20'000'000'000;
  while (!is()) {
    if (port::monotonic_clock().now_ns() > end_ns)
      return false;
    for (kept_endpoint *const each : all)
      each->speaker->poll();
  }
  return true;
}

inline iovec part_of(std::vector<char> &bytes) {
  return {bytes.data(), bytes.size()};
}

inline std::vector<char> pattern(size_t size, int seed = 1) {
  std::vector<char> bytes(size);
  for (size_t i = 0; i < size; i++)
    bytes[i] = char(i * 31 + size_t(seed) + (i >> 8));
  return bytes;
}

struct two_engines : testing::Test {
  static std::unique_ptr<kept_endpoint> open(const engine_options &options = {}) {
    return std::make_unique<kept_endpoint>(polled(options));
  }
  void make(const engine_options &options = {}) {
    a = open(options);
    b = open(options);
  }
  void SetUp() override {
    make();
  }

  template <class Condition>
  bool until(Condition is) {
    return poll_until({a.get(), b.get()}, is);
  }
  // They have so many completions, and no more.
  bool settle(size_t at_a, size_t at_b) {
    return until([&] { return a->done.all.size() >= at_a && b->done.all.size() >= at_b; }) &&
           a->done.all.size() == at_a && b->done.all.size() == at_b;
  }
  // b has so many messages that it did not expect.
  bool unexpected(uint64_t count) {
    return until([&] { return b->speaker->statistics().unexpected_count >= count; });
  }

  status send(kept_endpoint &from, kept_endpoint &to, std::vector<char> &bytes, uint64_t tag,
              bool delivered = false) {
    iovec const part = part_of(bytes);
    return from.speaker->post_send({.to = from.peer(to),
                                    .parts = {&part, 1},
                                    .tag = tag,
                                    .tagged = true,
                                    .delivered = delivered});
  }
  status receive(kept_endpoint &at, std::vector<char> &bytes, uint64_t tag, uint64_t ignore = 0,
                 void *context = nullptr) {
    iovec const part = part_of(bytes);
    return at.speaker->post_receive({.parts = {&part, 1},
                                     .pattern = {tag, ignore, any_peer},
                                     .tagged = true,
                                     .context = context});
  }

  // One message from a to b, the first: both have one completion after it.
  void greet() {
    std::vector<char> sent = pattern(64), came(64);
    ASSERT_EQ(receive(*b, came, 1), status::ok);
    ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
    ASSERT_TRUE(settle(1, 1));
  }

  std::unique_ptr<kept_endpoint> a, b;
};

// The sizes in bytes at which things are done in different ways.
inline auto sizes() {
  return testing::Values(0, 1, 8, 47, 4096, 100'000, 5'000'000);
}

}  // namespace tanada::o2g
