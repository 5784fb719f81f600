// The hooks of the trace: per-thread rings, labels, and ranges of a profiler.
#include "observe/trace/trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "core/base/mutex.hpp"
#include "observe/trace/event.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::observe::trace {
namespace {

constexpr size_t text_count_max = 1u << 16;

// Never destroyed: service threads of an instance that was not closed outlive main.
struct shared_state {
  tanada::mutex mutex;
  std::vector<std::shared_ptr<ring>> rings TND_GUARDED_BY(mutex);
  uint64_t dropped_by_ended TND_GUARDED_BY(mutex) = 0;
  std::unordered_map<std::string, uint32_t> labels TND_GUARDED_BY(mutex);
  std::deque<std::string> texts TND_GUARDED_BY(mutex);
};

shared_state &shared() {
  static shared_state &instance = *new shared_state;
  return instance;
}

// The ring of the calling thread, created at its first event.
struct ring_holder {
  std::shared_ptr<ring> owned;
  ring_holder() : owned{std::make_shared<ring>(uint32_t(gettid()))} {
    lock_guard const lock{shared().mutex};
    shared().rings.push_back(owned);
  }
  ~ring_holder() {
    owned->has_thread_ended.store(true, std::memory_order_release);
  }
};

ring &thread_ring() {
  thread_local ring_holder const holder;
  return *holder.owned;
}

std::atomic<uint64_t (*)(const char *)> range_start{nullptr};
std::atomic<void (*)(uint64_t)> range_end{nullptr};
std::atomic<const char *const *> request_names{nullptr};
std::atomic<uint32_t> request_name_count{0};
std::atomic<uint32_t> outstanding_count{0};

bool is_on(uint32_t target) {
  return (targets.load(std::memory_order_relaxed) & target) != 0;
}
uint64_t now_ns() {
  return seams::monotonic_clock().now_ns();
}

void push(const event &record) {
  if (is_on(to_file))
    thread_ring().push(record);
}

uint64_t start_range(const char *name) {
  auto const start = range_start.load(std::memory_order_acquire);
  return is_on(to_profiler) && start != nullptr ? start(name) : 0;
}

void end_range(uint64_t range) {
  auto const end = range_end.load(std::memory_order_acquire);
  if (range != 0 && end != nullptr)
    end(range);
}

}  // namespace

std::vector<std::shared_ptr<ring>> all_rings() {
  lock_guard const lock{shared().mutex};
  return shared().rings;
}

void forget_ring(const std::shared_ptr<ring> &target) {
  TND_ASSERT(target->has_thread_ended);
  lock_guard const lock{shared().mutex};
  shared().dropped_by_ended += target->dropped();
  std::erase(shared().rings, target);
}

uint64_t dropped_by_ended_threads() {
  lock_guard const lock{shared().mutex};
  return shared().dropped_by_ended;
}

std::string text_of(uint32_t label) {
  lock_guard const lock{shared().mutex};
  return label == 0 || label > shared().texts.size() ? std::string{} : shared().texts[label - 1];
}

uint32_t intern(std::string_view text) {
  lock_guard const lock{shared().mutex};
  auto const it = shared().labels.find(std::string{text});
  if (it != shared().labels.end())
    return it->second;
  TND_ASSERT(shared().labels.size() == shared().texts.size());
  if (shared().texts.size() == text_count_max)
    return 0;
  shared().texts.emplace_back(text);
  auto const label = uint32_t(shared().texts.size());
  shared().labels[std::string{text}] = label;
  return label;
}

void draw_ranges(const ranges &functions) {
  range_start.store(functions.start, std::memory_order_release);
  range_end.store(functions.end, std::memory_order_release);
  targets.fetch_or(to_profiler);
}

void name_requests(std::span<const char *const> names) {
  request_name_count.store(0);
  request_names.store(names.data());
  request_name_count.store(uint32_t(names.size()));
}

void round::begin() {
  begin_ns_ = now_ns();
}

void round::start() {
  TND_ASSERT(begin_ns_ != 0 && !worked_);
  worked_ = true;
  range_ = start_range("gfile round");
}

void round::finish() {
  TND_ASSERT(begin_ns_ != 0);
  end_range(range_);
  push({event_kind::round, status::ok, "round", begin_ns_, now_ns(), {}, 0, 0, 0});
}

void operation_mark::begin(const char *name, uint64_t at_offset, uint64_t of_size) {
  offset = at_offset;
  size = of_size;
  depth = outstanding_count.fetch_add(1, std::memory_order_relaxed) + 1;
  range = start_range(name);
  begin_ns = now_ns();
}

void operation_mark::forget() {
  uint32_t const count = outstanding_count.fetch_sub(1, std::memory_order_relaxed);
  TND_ASSERT(count != 0);
  end_range(range);
  begin_ns = 0;
  range = 0;
}

void operation_mark::finish(const char *name, status code, uint64_t moved) {
  push(
      {event_kind::operation, code, name, begin_ns, now_ns(), {offset, size}, moved, label, depth});
  forget();
}

void requests::begin(uint32_t slot,
                     uint32_t op,
                     uint32_t file,
                     const std::array<uint64_t, 2> &words) {
  TND_ASSERT(slot < open_requests_.size());
  open_requests_[slot] = {now_ns(), op, file, {words[0], words[1]}};
}

void requests::finish(uint32_t slot, status code) {
  TND_ASSERT(slot < open_requests_.size() && open_requests_[slot].begin_ns != 0);
  open_request const finished = std::exchange(open_requests_[slot], open_request{});
  bool const named = finished.op < request_name_count.load();
  const char *const name = named ? request_names.load()[finished.op] : "unknown";
  push({event_kind::request,
        code,
        name,
        finished.begin_ns,
        now_ns(),
        {finished.words[0], finished.words[1]},
        0,
        finished.file,
        slot});
}

void draw_counter(const char *name, uint64_t value) {
  uint64_t const time_ns = now_ns();
  push({event_kind::counter, status::ok, name, time_ns, time_ns, {value, 0}, 0, 0, 0});
}

}  // namespace tanada::observe::trace
