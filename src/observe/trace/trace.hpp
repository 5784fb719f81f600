// observe/trace/trace.hpp: records the activity of the service threads, as a file for
// chrome://tracing or Perfetto and as ranges for an attached profiler.
//
// While tracing is off, a hook costs one load. While it is on, each thread writes events into its
// own ring, and the writer thread of the trace drains the rings into the file. A full ring drops
// events and counts them. Each process has one trace. Thread safety: any thread may call these
// functions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::observe::trace {

// Start writing to `path`, in which "%p" becomes the process id. The file is valid up to its last
// line whenever the process ends. busy: a trace is already being written; otherwise the error of
// open(2), with a message.
status start(std::string_view path);

// Drain the rings and close the file. bad_state: no trace is being written; io: the file is
// incomplete.
status stop();

// Once per process, start() with TND_GFILE_TRACE if it is set, and stop() at exit.
status start_from_environment();

// Functions of a profiler that draw ranges; set once, when one is attached.
struct ranges {
  uint64_t (*start)(const char *name);
  void (*end)(uint64_t range);
};
void draw_ranges(const ranges &functions);

inline constexpr uint32_t to_file = 1, to_profiler = 2;
inline std::atomic<uint32_t> targets{0};
inline bool is_on() {
  return targets.load(std::memory_order_relaxed) != 0;
}

// A label for a text, such as the URL of a file, while tracing is on; 0 otherwise. Equal texts have
// equal labels.
uint32_t intern(std::string_view text);
inline uint32_t label_of(std::string_view text) {
  return is_on() ? intern(text) : 0;
}

// A round of the calling service thread; drawn only if it did work.
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

// A store operation, from its post to its completion. `name` must be a literal.
struct operation_mark {
  uint32_t label = 0;  // label_of() of the file
  uint32_t depth = 0;  // outstanding store operations, including this one
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

// Requests of kernels, from when they are found to their reply. Each slot has one at a time; the
// owner of the slot orders the calls.
class requests {
 public:
  explicit requests(uint32_t slot_count) : open_requests_(slot_count) {}
  void received(uint32_t slot, uint32_t op, uint32_t file, const std::array<uint64_t, 2> &words) {
    if (is_on())
      begin(slot, op, file, words);
  }
  void answered(uint32_t slot, status code) {
    if (open_requests_[slot].begin_ns != 0)
      finish(slot, code);
  }

 private:
  struct open_request {
    uint64_t begin_ns = 0;
    uint32_t op = 0, file = 0;
    uint64_t words[2] = {};
  };
  void begin(uint32_t slot, uint32_t op, uint32_t file, const std::array<uint64_t, 2> &words);
  void finish(uint32_t slot, status code);
  std::vector<open_request> open_requests_;
};

// Sets the names of the request kinds; they must be literals.
void name_requests(std::span<const char *const> names);

// Records the value of a counter if it differs from `last`. `name` must be a literal.
void draw_counter(const char *name, uint64_t value);
inline void counter(const char *name, uint64_t value, uint64_t &last) {
  if (!is_on() || value == last)
    return;
  last = value;
  draw_counter(name, value);
}

}  // namespace tanada::observe::trace
