// tests/contract/store_subject.hpp: a store under test, and the few calls that the suite drives it
// with.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "seams/clock/clock.hpp"
#include "seams/store/store.hpp"

namespace tanada::contract {

inline void PrintTo(const seams::store_completion &completion, std::ostream *out) {
  *out << "{code " << int(completion.code) << ", size " << completion.size << "}";
}

// One implementation in the place the suite runs it in: made for a test, gone with it.
class store_subject {
 public:
  virtual ~store_subject() = default;
  virtual seams::store &store() = 0;
  virtual std::string url(const std::string &name) = 0;
  virtual seams::clock &time() {
    return seams::monotonic_clock();
  }
  virtual void idle() {
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }  // between two polls
  virtual bool threads() const {
    return true;
  }  // several threads may drive it
  virtual uint64_t settle_ns() const {
    return 0;
  }  // until a version may be relied on
};

struct store_case {
  std::string name;
  std::function<std::unique_ptr<store_subject>()> make;
};

inline void PrintTo(const store_case &which, std::ostream *out) {
  *out << which.name;
}

// A queue and the habit of waiting for one operation at a time.
class store_driver {
 public:
  store_driver(store_subject &subject, uint32_t depth = 64) : subject_{subject} {
    auto made = subject.store().queue_create(depth);
    EXPECT_TRUE(made.ok());
    queue = std::move(made).value();
  }

  // Reap one completion; fails the test after 30 s of wall time.
  seams::store_completion wait() {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    seams::store_completion done[1];
    while (queue->poll(done) == 0) {
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "no completion after 30 s";
        done[0].code = status::timed_out;
        return done[0];
      }
      subject_.idle();
    }
    return done[0];
  }

  seams::store_completion run(seams::store_op op) {
    op.op_id = ++last_id_;
    EXPECT_EQ(queue->post(std::move(op)), status::ok);
    EXPECT_EQ(queue->pending_count(), 1u);
    auto const done = wait();
    EXPECT_EQ(done.op_id, last_id_);
    EXPECT_EQ(queue->pending_count(), 0u);
    return done;
  }

  seams::store_completion open(const std::string &url, seams::store_open_flags flags) {
    seams::store_op op;
    op.kind = seams::store_op_kind::open;
    op.url = url;
    op.open_flags = flags;
    return run(op);
  }
  seams::store_file must_open(const std::string &url, seams::store_open_flags flags) {
    auto const done = open(url, flags);
    EXPECT_EQ(done.code, status::ok) << url;
    return done.file;
  }
  seams::store_completion on_file(seams::store_op_kind kind,
                                  seams::store_file file,
                                  uint64_t size = 0) {
    seams::store_op op;
    op.kind = kind;
    op.file = file;
    op.size = size;
    return run(op);
  }
  seams::store_completion on_name(seams::store_op_kind kind, const std::string &url) {
    seams::store_op op;
    op.kind = kind;
    op.url = url;
    return run(op);
  }
  seams::store_completion transfer(seams::store_op_kind kind,
                                   seams::store_file file,
                                   uint64_t offset,
                                   std::vector<seams::store_buffer> buffers) {
    seams::store_op op;
    op.kind = kind;
    op.file = file;
    op.offset = offset;
    op.buffers = std::move(buffers);
    return run(op);
  }
  seams::store_completion write(seams::store_file file, uint64_t offset, std::string text) {
    return transfer(seams::store_op_kind::write,
                    file,
                    offset,
                    {{reinterpret_cast<std::byte *>(text.data()), text.size()}});
  }
  // What a read of `size` bytes returns, and its status.
  std::string read(seams::store_file file,
                   uint64_t offset,
                   size_t size,
                   status expected = status::ok) {
    std::string text(size, '?');
    auto const done = transfer(seams::store_op_kind::read,
                               file,
                               offset,
                               {{reinterpret_cast<std::byte *>(text.data()), size}});
    EXPECT_EQ(done.code, expected);
    EXPECT_LE(done.size, size);
    text.resize(std::min<size_t>(size, done.size));
    return text;
  }
  seams::store_completion close(seams::store_file file) {
    return on_file(seams::store_op_kind::close, file);
  }
  seams::store_stat stat(seams::store_file file) {
    auto const done = on_file(seams::store_op_kind::stat, file);
    EXPECT_EQ(done.code, status::ok);
    return done.stat;
  }

  std::unique_ptr<seams::store_queue> queue;

 private:
  store_subject &subject_;
  uint64_t last_id_ = 1000;
};

inline constexpr seams::store_open_flags store_read_only{.read = true};
inline constexpr seams::store_open_flags store_update{.read = true, .write = true};
inline constexpr seams::store_open_flags store_make{.read = true, .write = true, .create = true};

// Bytes that differ by position and seed.
inline std::string store_pattern(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < size; i++) {
    if (i % 8 == 0)
      state = (state ^ (state >> 29)) * 0xBF58476D1CE4E5B9u + 1;
    text[i] = char(state >> (i % 8 * 8));
  }
  return text;
}

}  // namespace tanada::contract
