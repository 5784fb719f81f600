// observe/trace/trace.hpp: what the service threads do and when, as a file for chrome://tracing or
// Perfetto and as ranges for an attached profiler.
//
// Off, a hook costs one load. On, a thread writes events into a ring of its own; a thread of the
// trace empties the rings into the file. A full ring drops events and counts them. One trace a
// process. Thread safety: any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::port::trace {

// Write to `path` from now on; "%p" in it becomes the process's id. The file is valid up to its
// last line whenever the process ends. busy: a trace is being written already; otherwise what
// open(2) says, with a message.
status start(std::string_view path);

// Empty the rings and close the file. bad_state: nothing is being written; io: not all of it
// reached the file.
status stop();

// start() with TND_GFILE_TRACE where that is set, once a process, and stop() at its end.
status start_from_environment();

// Where a profiler draws ranges; set once, when one is attached.
struct ranges {
  uint64_t (*start)(const char *name);
  void (*end)(uint64_t range);
};
void draw_ranges(const ranges &to);

inline constexpr uint32_t to_file = 1, to_profiler = 2;
inline std::atomic<uint32_t> targets{0};
inline bool is_on() {
  return targets.load(std::memory_order_relaxed) != 0;
}

// A number for a text, such as a file's URL, while the trace is on; 0 otherwise. The same for the
// same text.
uint32_t intern(std::string_view text);
inline uint32_t label_of(std::string_view text) {
  return is_on() ? intern(text) : 0;
}

// A round of the calling service thread; drawn if there was work.
class round {
 public:
  round() {
    if (is_on())
      begin();
  }
  ~round() {
    if (worked_)
      finish();
  }
  round(const round &) = delete;
  round &operator=(const round &) = delete;
  void work() {
    if (begin_ns_ != 0 && !worked_)
      start();
  }

 private:
  void begin();
  void start();
  void finish();
  uint64_t begin_ns_ = 0, range_ = 0;
  bool worked_ = false;
};

// An operation at a store, from its post to its completion. `name`: a literal.
struct operation_mark {
  uint32_t label = 0;                                      // label_of() the file
  uint32_t depth = 0;                                      // operations at stores with this one
  uint64_t begin_ns = 0, range = 0, offset = 0, size = 0;  // bytes

  void posted(const char *name, uint64_t at_offset, uint64_t of_size) {
    if (is_on())
      begin(name, at_offset, of_size);
  }
  void refused() {
    if (begin_ns != 0)
      forget();
  }
  void done(const char *name, status code, uint64_t moved) {
    if (begin_ns != 0)
      finish(name, code, moved);
  }

 private:
  void begin(const char *name, uint64_t at_offset, uint64_t of_size);
  void forget();
  void finish(const char *name, status code, uint64_t moved);
};

// Requests of kernels, from their sight to their answer; one at a time a slot, which its owner
// orders.
class requests {
 public:
  explicit requests(uint32_t slot_count) : seen_(slot_count) {}
  void seen(uint32_t slot, uint32_t op, uint32_t file, const std::array<uint64_t, 2> &words) {
    if (is_on())
      begin(slot, op, file, words);
  }
  void answered(uint32_t slot, status code) {
    if (seen_[slot].begin_ns != 0)
      finish(slot, code);
  }

 private:
  struct one {
    uint64_t begin_ns = 0;
    uint32_t op = 0, file = 0;
    uint64_t words[2] = {};
  };
  void begin(uint32_t slot, uint32_t op, uint32_t file, const std::array<uint64_t, 2> &words);
  void finish(uint32_t slot, status code);
  std::vector<one> seen_;
};

// What the numbers of requests are called; literals.
void name_requests(std::span<const char *const> names);

// A counter's value now; a line when it is another than the `last` one. `name`: a literal.
void draw_counter(const char *name, uint64_t value);
inline void counter(const char *name, uint64_t value, uint64_t &last) {
  if (!is_on() || value == last)
    return;
  last = value;
  draw_counter(name, value);
}

}  // namespace tanada::port::trace
