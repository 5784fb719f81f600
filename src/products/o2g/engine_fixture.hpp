// products/o2g/engine_fixture.hpp: engines in one process, over loopback sockets.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "products/o2g/engine.hpp"
#include "products/o2g/testing/process_driver.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g {

// The message driver of the tests, by O2G_TEST_DRIVER: process, a path of the module's device;
// null without it.
inline std::unique_ptr<message_driver> driver_of_test() {
  char const *const setting = std::getenv("O2G_TEST_DRIVER");
  if (setting == nullptr || *setting == '\0')
    return nullptr;
  if (std::string_view{setting} == "process")
    return std::make_unique<process_driver>();
  auto created = kernel_driver_create(1024, setting);
  EXPECT_TRUE(created.ok()) << setting;
  return created.ok() ? std::move(created).value() : nullptr;
}

// An engine with a sink and registered memory, on a free port.
template <class Sink>
struct loopback_endpoint {
  explicit loopback_endpoint(engine_options options = {},
                             const seams::stream_set_options &stream_options = {}) {
    options.listen_address =
        result<seams::socket_address>{seams::socket_address_parse("127.0.0.1", 0)}.value();
    auto set = seams::stream_set_create(stream_options);
    auto created = engine::create(std::move(set).value(), options, done, memory, driver_of_test());
    EXPECT_TRUE(created.ok());
    speaker = std::move(created).value();
  }
  peer_index peer(const loopback_endpoint &remote) {
    return result<peer_index>{speaker->register_peer(remote.speaker->address())}.value();
  }

  Sink done;
  regions memory;
  std::unique_ptr<engine> speaker;
};

struct kept_completions final : completion_sink {
  void complete(const completion &event) override {
    events.push_back(event);
  }
  std::vector<completion> events;
};
using kept_endpoint = loopback_endpoint<kept_completions>;

// Options for an engine that only polls drive, none of which sleeps: one thread polls several
// engines.
inline engine_options polled(engine_options options = {}) {
  options.has_thread = false;
  options.sleep_ns_max = 0;
  return options;
}

// Polls the endpoints until the condition is true. False: it was not within 20 s.
template <class Condition>
bool poll_until(std::initializer_list<kept_endpoint *> endpoints, Condition condition) {
  uint64_t const end_ns = seams::monotonic_clock().now_ns() + 20'000'000'000;
  while (!condition()) {
    if (seams::monotonic_clock().now_ns() > end_ns)
      return false;
    for (kept_endpoint *const endpoint : endpoints)
      endpoint->speaker->poll();
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
  bool until(Condition condition) {
    return poll_until({a.get(), b.get()}, condition);
  }
  // Waits until a and b have exactly these numbers of completions.
  bool settle(size_t count_a, size_t count_b) {
    return until([&] {
             return a->done.events.size() >= count_a && b->done.events.size() >= count_b;
           }) &&
           a->done.events.size() == count_a && b->done.events.size() == count_b;
  }
  // Waits until b has received this many unexpected messages.
  bool wait_unexpected(uint64_t count) {
    return until([&] { return b->speaker->statistics().unexpected_count >= count; });
  }

  status send(kept_endpoint &source,
              kept_endpoint &target,
              std::vector<char> &bytes,
              uint64_t tag,
              bool delivery_complete = false) {
    iovec const part = part_of(bytes);
    return source.speaker->post_send({.target = source.peer(target),
                                      .parts = {&part, 1},
                                      .tag = tag,
                                      .tagged = true,
                                      .delivery_complete = delivery_complete});
  }
  status receive(kept_endpoint &endpoint,
                 std::vector<char> &bytes,
                 uint64_t tag,
                 uint64_t ignore = 0,
                 void *context = nullptr) {
    iovec const part = part_of(bytes);
    return endpoint.speaker->post_receive({.parts = {&part, 1},
                                           .pattern = {tag, ignore, any_peer},
                                           .tagged = true,
                                           .context = context});
  }

  // Sends the first message from a to b. Afterwards both have one completion.
  void exchange_first() {
    std::vector<char> sent = pattern(64), received(64);
    ASSERT_EQ(receive(*b, received, 1), status::ok);
    ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
    ASSERT_TRUE(settle(1, 1));
  }

  std::unique_ptr<kept_endpoint> a, b;
};

// Sizes in bytes that exercise the different ways of sending.
inline auto sizes() {
  return testing::Values(0, 1, 8, 47, 4096, 100'000, 5'000'000);
}

}  // namespace tanada::o2g
