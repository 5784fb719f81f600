// tests/contract/stream_set_subject.hpp: a stream_set under test, and the handler and the few calls
// that the suite drives it with.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "seams/clock/clock.hpp"
#include "seams/stream/stream_set.hpp"
#include "sim/world.hpp"

namespace tanada::contract {

// One implementation in the place the suite runs it in: made for a test, gone with it.
class stream_set_subject {
 public:
  virtual ~stream_set_subject() = default;
  virtual result<std::unique_ptr<seams::stream_set>> open(
      const seams::stream_set_options &options) = 0;
  virtual seams::clock &time() {
    return seams::monotonic_clock();
  }
  virtual void idle() {
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }  // between two looks at all
  virtual bool has_sockets() const {
    return true;
  }  // the system's, and threads may be used
  // The number of connections between two sets that the suite tries.
  virtual size_t connection_count_max() const {
    return 1'500;
  }
  virtual uint64_t patience_ns() const {
    return 30'000'000'000;
  }
};

struct stream_set_case {
  std::string name;
  std::function<std::unique_ptr<stream_set_subject>()> make;
};

inline void PrintTo(const stream_set_case &which, std::ostream *out) {
  *out << which.name;
}

inline seams::socket_address loopback(uint16_t port = 0, uint8_t last = 1) {
  seams::socket_address address{.family = seams::socket_address::family_kind::ipv4, .port = port};
  address.bytes = {127, 0, 0, last};
  return address;
}

// Byte `at` of the stream with this number.
inline std::byte stream_byte(uint64_t number, uint64_t at) {
  uint64_t const mixed = (at + 1) * 0x9E3779B97F4A7C15u ^ number * 0xBF58476D1CE4E5B9u;
  return std::byte(mixed >> 40);
}

// How a connection takes its bytes. turns: at random, pieces of all sizes.
enum class taking : uint8_t { shown, landed, turns };

struct stream_node;

// What a node knows of a connection; its word is its place in the node's list.
struct stream_end {
  uint64_t word = 0, number = 0;  // number: of the stream of bytes it receives
  seams::stream_id id = seams::no_stream;
  bool is_accepted = false, is_connected = false, is_closed = false, is_right = true;
  uint32_t ended_count = 0, writable_count = 0;
  status why = status::ok;
  uint64_t received = 0, landed_size = 0, sent = 0;
  taking how = taking::shown;
  std::vector<std::byte> place;  // where the next bytes are to be put
};

// A set and its handler, which checks every byte and every rule of the calls.
struct stream_node final : seams::stream_handler {
  explicit stream_node(uint64_t seed) : random{seed} {}

  uint64_t on_accepted(seams::stream_id id) override {
    auto &made = add();
    made.id = id;
    made.is_accepted = true;
    on_event(made, "accepted");
    return made.word;
  }
  void on_connected(uint64_t word) override {
    auto &end = at(word);
    EXPECT_FALSE(end.is_connected || end.is_accepted);
    end.is_connected = true;
    on_event(end, "connected");
  }
  std::span<std::byte> receive_target(uint64_t word) override {
    return at(word).place;
  }
  void on_placed(uint64_t word, size_t size) override {
    auto &end = at(word);
    EXPECT_GE(size, 1u);
    ASSERT_LE(size, end.place.size());
    check(end, std::span{end.place}.first(size));
    end.landed_size += size;
    // What is left of the place is the place, as for somebody who waits for a whole message.
    end.place.erase(end.place.begin(), end.place.begin() + std::ptrdiff_t(size));
    if (end.place.empty())
      choose(end);
    on_event(end, "bytes");
  }
  size_t on_received(uint64_t word, std::span<const std::byte> bytes) override {
    auto &end = at(word);
    EXPECT_TRUE(end.place.empty());
    EXPECT_GE(bytes.size(), 1u);
    size_t const part = end.how == taking::shown ? bytes.size() : random.between(1, bytes.size());
    check(end, bytes.first(part));
    choose(end);
    size_t const taken = end.place.empty() ? bytes.size() : part;
    check(end, bytes.subspan(part, taken - part));
    on_event(end, "bytes");
    return taken;
  }
  void on_writable(uint64_t word) override {
    at(word).writable_count++;
    on_event(at(word), "writable");
  }
  void on_closed(uint64_t word, status why) override {
    auto &end = at(word);
    end.ended_count++;
    end.why = why;
    on_event(end, "ended");
  }

  bool should_stop() const noexcept override {
    return wants_breaks;
  }

  stream_end &add() {
    auto &made = ends.emplace_back();
    made.word = ends.size() - 1;
    made.how = accept_how;
    choose(made);
    return made;
  }
  stream_end &at(uint64_t word) {
    EXPECT_LT(word, ends.size());
    EXPECT_FALSE(ends[word].is_closed) << "told of what was closed";
    EXPECT_FALSE(ends[word].ended_count > 0 && ends[word].why != status::ok)
        << "told of what had ended";
    return ends[word];
  }
  void choose(stream_end &end) {
    bool const lands = end.how == taking::landed || (end.how == taking::turns && random.chance(60));
    end.place.assign(
        lands ? random.chance(50) ? random.between(1, 40) : random.between(1, 20'000) : 0,
        std::byte{});
  }
  void check(stream_end &end, std::span<const std::byte> bytes) {
    for (auto const each : bytes)
      end.is_right = end.is_right && each == stream_byte(end.number, end.received++);
  }
  void close(stream_end &end) {
    end.is_closed = true;
    set->close(end.id);
  }

  // Bytes of the stream `number`, in parts of all sizes; how many were taken.
  size_t send(stream_end &end, uint64_t number, size_t size) {
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; i++)
      bytes[i] = stream_byte(number, end.sent + i);
    std::vector<iovec> parts;
    for (size_t done = 0; done < size && parts.size() < 8;) {
      size_t const part = parts.size() == 7 ? size - done : random.between(1, size - done);
      parts.push_back({bytes.data() + done, part});
      done += part;
    }
    auto const taken = set->send(end.id, parts);
    size_t const count = taken.ok() ? result<size_t>{taken}.value() : 0;
    EXPECT_LE(count, size);
    end.sent += count;
    return count;
  }

  sim::prng random;
  std::unique_ptr<seams::stream_set> set;
  seams::socket_address address{};
  std::deque<stream_end> ends;
  taking accept_how = taking::shown;  // of new ends
  bool wants_breaks = false;          // after every call
  bool is_driven = true;
  std::function<void(stream_end &, const std::string &)> on_event = [](stream_end &,
                                                                       const std::string &) {
  };
};

// Several sets in one thread, each driven in turn.
class stream_driver {
 public:
  explicit stream_driver(stream_set_subject &subject) : subject_{subject} {}

  stream_node &node(const seams::stream_set_options &options = {},
                    const seams::socket_address &at = loopback()) {
    auto &added = *nodes_.emplace_back(std::make_unique<stream_node>(nodes_.size() + 1));
    auto made = subject_.open(options);
    EXPECT_TRUE(made.ok());
    added.set = std::move(made).value();
    added.set->attach(added);
    auto address = added.set->listen(at);
    EXPECT_TRUE(address.ok());
    if (address.ok())
      added.address = std::move(address).value();
    return added;
  }

  // Begins only.
  stream_end &connect(stream_node &from,
                      const seams::socket_address &to,
                      const seams::socket_address &interface = {}) {
    auto &made = from.add();
    auto id = from.set->connect(to, interface, made.word);
    EXPECT_TRUE(id.ok());
    if (id.ok())
      made.id = std::move(id).value();
    return made;
  }

  // Both ends of a connection that is up.
  std::pair<stream_end *, stream_end *> pair(stream_node &from, stream_node &to) {
    size_t const before = to.ends.size();
    auto &ours = connect(from, to.address);
    EXPECT_TRUE(until([&] { return ours.is_connected && to.ends.size() > before; }))
        << "no connection";
    return {&ours, &to.ends.back()};
  }

  size_t drive_all() {
    size_t count = 0;
    for (auto &each : nodes_)
      if (each->is_driven)
        count += each->set->progress();
    return count;
  }

  bool until(const std::function<bool()> &condition) {
    uint64_t const limit_ns = subject_.time().now_ns() + subject_.patience_ns();
    for (;;) {
      size_t const count = drive_all();
      if (condition())
        return true;
      if (subject_.time().now_ns() > limit_ns)
        return false;
      if (count == 0)
        subject_.idle();
    }
  }

  // As long as anything happens, and a little longer: for what must not happen.
  void settle() {
    for (int quiet = 0; quiet < 200;) {
      quiet = drive_all() == 0 ? quiet + 1 : 0;
      subject_.idle();
    }
  }

 private:
  stream_set_subject &subject_;
  std::vector<std::unique_ptr<stream_node>> nodes_;
};

}  // namespace tanada::contract
