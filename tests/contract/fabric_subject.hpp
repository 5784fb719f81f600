// tests/contract/fabric_subject.hpp: a fabric under test, and the calls with which the suite drives
// it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric.hpp"
#include "seams/fabric/registration_cache.hpp"

namespace tanada::contract {

inline void PrintTo(const seams::fabric_completion &completion, std::ostream *out) {
  *out << "{op " << completion.op_id << ", code " << int(completion.code) << ", size "
       << completion.size << (completion.settled ? "}" : ", not settled}");
}

struct fabric_subject_options {
  uint32_t depth = 64;
  seams::registration_cache_limits cache{};
  bool cuda = false;  // the endpoint must accept GPU memory
};

// The address of a peer that runs independently of the test, and a region of 1 MiB of bytes 0x5a
// that can be read and written.
struct fabric_peer_card {
  seams::fabric_address address;
  seams::fabric_remote remote;
};

// A peer that can be killed. It serves its memory, and sends each message back to the peer whose
// number is in the first 4 bytes.
class fabric_victim {
 public:
  virtual ~fabric_victim() = default;
  virtual fabric_peer_card card() = 0;
  virtual void kill() = 0;
  virtual void stop() = 0;  // suspends the peer until resume()
  virtual void resume() = 0;
  // Called after kill(). The address is the same where the fabric allows a choice.
  virtual void restart() = 0;
  virtual bool keeps_address() const = 0;
};

// One implementation in its environment, created for a test and destroyed after it.
class fabric_subject {
 public:
  virtual ~fabric_subject() = default;
  virtual result<std::unique_ptr<seams::fabric_endpoint>> open(
      const fabric_subject_options &options) = 0;
  virtual std::unique_ptr<fabric_victim> victim() = 0;
  virtual seams::clock &time() {
    return seams::monotonic_clock();
  }
  // Called between two polls of all endpoints.
  virtual void idle() {
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
  // Whether several threads may use endpoints of their own.
  virtual bool threads() const {
    return true;
  }
  // The timeout of operations that must succeed.
  virtual uint64_t patience_ns() const {
    return 10'000'000'000;
  }
  // The timeout of operations that must fail, longer than a successful one takes.
  virtual uint64_t short_ns() const {
    return 200'000'000;
  }
};

struct fabric_case {
  std::string name;
  std::function<std::unique_ptr<fabric_subject>()> make;
};

inline void PrintTo(const fabric_case &which, std::ostream *out) {
  *out << which.name;
}

// Bytes that differ by position and seed.
inline std::vector<std::byte> fabric_pattern(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < size; i++) {
    if (i % 8 == 0)
      state = (state ^ (state >> 29)) * 0xBF58476D1CE4E5B9u + 1;
    bytes[i] = std::byte(state >> (i % 8 * 8));
  }
  return bytes;
}

// An endpoint of a test, and the completions that it has reaped.
struct fabric_node {
  std::unique_ptr<seams::fabric_endpoint> endpoint;
  std::vector<seams::fabric_completion> done;
  uint64_t last_id = 0;
  bool polled = true;  // false: the owner does not poll
};

// Several endpoints in one thread, each polled in turn.
class fabric_driver {
 public:
  explicit fabric_driver(fabric_subject &subject) : subject_{subject} {}

  fabric_node &node(const fabric_subject_options &options = {}) {
    auto made = subject_.open(options);
    EXPECT_TRUE(made.ok());
    auto &added = *nodes_.emplace_back(std::make_unique<fabric_node>());
    added.endpoint = std::move(made).value();
    return added;
  }
  static seams::fabric_peer peer(fabric_node &of, const fabric_node &other) {
    auto added = of.endpoint->peer_add(other.endpoint->address().span());
    EXPECT_TRUE(added.ok());
    return added.value();
  }
  seams::fabric_region region(fabric_node &of,
                              std::span<std::byte> memory,
                              seams::fabric_access access = {true, true}) {
    auto made =
        of.endpoint->region_register({.addr = memory.data(), .size = memory.size()}, access);
    EXPECT_TRUE(made.ok());
    return made.value();
  }

  uint64_t deadline(uint64_t timeout_ns) {
    return seams::deadline_after(subject_.time().now_ns(), timeout_ns);
  }

  void poll_all() {
    for (auto &each : nodes_) {
      if (!each->polled)
        continue;
      std::array<seams::fabric_completion, 16> done;
      size_t const count = each->endpoint->poll(done);
      each->done.insert(each->done.end(), done.begin(), done.begin() + count);
    }
  }

  // Polls until the condition holds. Returns false after three times patience_ns(), which is
  // simulated time in the simulated fabric.
  bool until(const std::function<bool()> &condition) {
    uint64_t const limit_ns = deadline(3 * subject_.patience_ns());
    for (;;) {
      poll_all();
      if (condition())
        return true;
      if (subject_.time().now_ns() > limit_ns)
        return false;
      subject_.idle();
    }
  }

  // Posts the operation, by default with a deadline of patience_ns(). Returns its number.
  uint64_t post(fabric_node &from, seams::fabric_op op) {
    op.op_id = ++from.last_id;
    if (op.deadline_ns == TND_NO_DEADLINE)
      op.deadline_ns = deadline(subject_.patience_ns());
    status code = status::again;
    EXPECT_TRUE(until([&] {
      code = from.endpoint->post(op);
      return code != status::again;
    }));
    EXPECT_EQ(code, status::ok);
    return op.op_id;
  }
  // Waits for a completion of the operation: the settled one, or the first of any kind.
  seams::fabric_completion wait(fabric_node &from, uint64_t op_id, bool settled = true) {
    seams::fabric_completion found{.code = status::bad_state};
    EXPECT_TRUE(until([&] {
      for (auto const &each : from.done) {
        if (each.op_id == op_id && (each.settled || !settled)) {
          found = each;
          return true;
        }
      }
      return false;
    })) << "no completion";
    return found;
  }
  seams::fabric_completion run(fabric_node &from, const seams::fabric_op &op) {
    return wait(from, post(from, op));
  }

 private:
  fabric_subject &subject_;
  std::vector<std::unique_ptr<fabric_node>> nodes_;
};

inline seams::fabric_op fabric_message(seams::fabric_op_kind kind,
                                       seams::fabric_peer peer,
                                       std::span<std::byte> memory) {
  seams::fabric_op op;
  op.kind = kind;
  op.peer = peer;
  op.addr = memory.data();
  op.size = memory.size();
  return op;
}

inline seams::fabric_op fabric_transfer(seams::fabric_op_kind kind,
                                        seams::fabric_peer peer,
                                        std::span<std::byte> memory,
                                        const seams::fabric_remote &remote,
                                        uint64_t offset = 0) {
  auto op = fabric_message(kind, peer, memory);
  op.remote = remote;
  op.offset = offset;
  return op;
}

// An atomic on one element.
inline seams::fabric_op fabric_update(seams::fabric_peer peer,
                                      const seams::fabric_remote &remote,
                                      uint64_t offset,
                                      seams::fabric_atomic atomic,
                                      uint64_t operand,
                                      seams::fabric_element element = seams::fabric_element::u64) {
  seams::fabric_op op;
  op.kind = seams::fabric_op_kind::atomic;
  op.atomic = atomic;
  op.element = element;
  op.peer = peer;
  op.remote = remote;
  op.offset = offset;
  op.operand = operand;
  return op;
}

inline seams::fabric_op fabric_fetch_add(seams::fabric_peer peer,
                                         const seams::fabric_remote &remote,
                                         uint64_t offset,
                                         uint64_t operand) {
  auto op = fabric_update(peer, remote, offset, seams::fabric_atomic::add, operand);
  op.returns_value = true;
  return op;
}

inline seams::fabric_op fabric_vector(seams::fabric_peer peer,
                                      const seams::fabric_remote &remote,
                                      uint64_t offset,
                                      seams::fabric_element element,
                                      std::span<std::byte> source) {
  auto op = fabric_update(peer, remote, offset, seams::fabric_atomic::add, 0, element);
  op.addr = source.data();
  op.size = source.size();
  return op;
}

}  // namespace tanada::contract
