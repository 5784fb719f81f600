// observe/trace/trace_file.cc: writes the events of the rings as the JSON array of Chrome's trace
// event format, whose closing bracket may be missing.
#include <fcntl.h>
#include <tanada/status.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "observe/trace/event.hpp"
#include "observe/trace/trace.hpp"

namespace tanada::observe::trace {
namespace {

constexpr auto drain_interval = std::chrono::milliseconds(10);
constexpr size_t block_size = 4096;  // bytes
constexpr size_t text_size_max = 256;

// Writes lines so that the file always ends with a whole line, even if the process is killed. A
// write within one page of the file is applied as a whole or not at all. Lines therefore never
// cross a page boundary, and blanks fill the rest of a page.
class line_file {
 public:
  explicit line_file(int descriptor) : descriptor_{descriptor} {
    TND_ASSERT(descriptor >= 0);
  }
  ~line_file() {
    ::close(descriptor_);
  }
  line_file(const line_file &) = delete;

  void append(std::string_view line) {
    TND_ASSERT(line.size() <= block_size);
    size_t const free_size = block_size - (written_ + block_.size()) % block_size;
    if (line.size() > free_size) {
      block_.append(free_size, ' ');
      flush();
    }
    block_.append(line);
    if ((written_ + block_.size()) % block_size == 0)
      flush();
  }

  void flush() {
    for (size_t done = 0; done < block_.size();) {
      ssize_t const written_size = ::write(descriptor_, block_.data() + done, block_.size() - done);
      if (written_size < 0 && errno == EINTR)
        continue;
      if (written_size <= 0) {
        failed_ = true;
        break;
      }
      done += size_t(written_size);
    }
    written_ += block_.size();
    block_.clear();
  }

  bool failed() const {
    return failed_;
  }

 private:
  int descriptor_;
  uint64_t written_ = 0;
  std::string block_;
  bool failed_ = false;
};

// A JSON string, also for bytes that are not UTF-8.
std::string quoted(std::string text) {
  text.resize(std::min(text.size(), text_size_max));
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

class writer {
 public:
  explicit writer(int descriptor) : file_{descriptor} {
    for (auto const &thread_ring : all_rings())
      thread_ring->drain([](const event &) {});  // discards events of an earlier trace
    file_.append("[\n");
    line(R"({"name":"process_name","ph":"M","pid":%d,"tid":0,"args":{"name":"tanada"}})", pid_);
    file_.flush();
    thread_ = std::thread{[this] {
      run();
    }};
  }

  // True if everything was written to the file.
  bool finish() {
    {
      lock_guard const lock{mutex_};
      TND_ASSERT(!stopping_ && thread_.joinable());
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    drain();
    file_.append("\n]\n");
    file_.flush();
    return !file_.failed();
  }

 private:
  void run() {
    unique_lock lock{mutex_};
    auto const is_stopping = [this] {
      mutex_.assert_held();
      return stopping_;
    };
    while (!changed_.wait_for(lock, drain_interval, is_stopping))
      drain();
  }

  void drain() {
    uint64_t dropped = 0;
    for (auto const &thread_ring : all_rings()) {
      bool const has_thread_ended = thread_ring->has_thread_ended.load(std::memory_order_acquire);
      uint32_t const thread = thread_ring->thread_id();
      thread_ring->drain([&](const event &record) {
        if (named_.insert(thread).second)
          line(
              R"({"name":"thread_name","ph":"M","pid":%d,"tid":%u,"args":{"name":"gfile service"}})",
              pid_,
              thread);
        write(record, thread);
        last_ns_ = std::max(last_ns_, record.end_ns);
      });
      if (has_thread_ended)
        forget_ring(thread_ring);
      else
        dropped += thread_ring->dropped();
    }
    dropped += dropped_by_ended_threads();
    if (dropped != dropped_) {
      dropped_ = dropped;
      line(R"({"name":"dropped events","ph":"C","pid":%d,"tid":0,"ts":%s,"args":{"value":%llu}})",
           pid_,
           microseconds(last_ns_).c_str(),
           (unsigned long long)dropped);
    }
    file_.flush();
  }

  static std::string microseconds(uint64_t ns) {
    char text[32];
    std::snprintf(text,
                  sizeof text,
                  "%llu.%03llu",
                  (unsigned long long)ns / 1000,
                  (unsigned long long)ns % 1000);
    return text;
  }

  void write(const event &record, uint32_t thread) {
    auto const number = [](uint64_t value) {
      return (unsigned long long)value;
    };
    std::string const begin = microseconds(record.begin_ns);
    switch (record.kind) {
      case event_kind::round:
        return line(
            R"({"name":"round","cat":"service","ph":"X","pid":%d,"tid":%u,"ts":%s,"dur":%s})",
            pid_,
            thread,
            begin.c_str(),
            microseconds(record.end_ns - record.begin_ns).c_str());
      case event_kind::counter:
        return line(R"({"name":"%s","ph":"C","pid":%d,"tid":0,"ts":%s,"args":{"value":%llu}})",
                    record.name,
                    pid_,
                    begin.c_str(),
                    number(record.words[0]));
      case event_kind::operation:
        line(R"({"name":"%s","cat":"store","ph":"b","id":%llu,"pid":%d,"tid":%u,"ts":%s,)"
             R"("args":{"file":%s,"offset":%llu,"size":%llu,"depth":%u}})",
             record.name,
             number(next_id_),
             pid_,
             thread,
             begin.c_str(),
             quoted(text_of(record.label)).c_str(),
             number(record.words[0]),
             number(record.words[1]),
             record.depth);
        return finish_pair("store", record, thread, record.moved);
      case event_kind::request:
        line(R"({"name":"%s","cat":"request","ph":"b","id":%llu,"pid":%d,"tid":%u,"ts":%s,)"
             R"("args":{"file":%u,"slot":%u,"words":[%llu,%llu]}})",
             record.name,
             number(next_id_),
             pid_,
             thread,
             begin.c_str(),
             record.label,
             record.depth,
             number(record.words[0]),
             number(record.words[1]));
        return finish_pair("request", record, thread, 0);
    }
  }

  void finish_pair(const char *category, const event &record, uint32_t thread, uint64_t moved) {
    line(
        R"({"name":"%s","cat":"%s","ph":"e","id":%llu,"pid":%d,"tid":%u,"ts":%s,"args":{"status":"%s","moved":%llu}})",
        record.name,
        category,
        (unsigned long long)next_id_++,
        pid_,
        thread,
        microseconds(record.end_ns).c_str(),
        tnd_status_name(tnd_status(record.code)),
        (unsigned long long)moved);
  }

  [[gnu::format(printf, 2, 3)]] void line(const char *format, ...) {
    char text[2048];  // quoted() returns at most 6 x text_size_max + 2 bytes
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    file_.append(is_first_ ? std::string{text} : ",\n" + std::string{text});
    is_first_ = false;
  }

  int const pid_ = getpid();
  line_file file_;  // used only by the writer thread while it runs
  std::set<uint32_t> named_;
  bool is_first_ = true;
  uint64_t next_id_ = 1, dropped_ = 0, last_ns_ = 0;
  tanada::mutex mutex_;
  condition_variable changed_;
  bool stopping_ TND_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Never destroyed, because the exit handler may run after destructors.
struct current_trace {
  tanada::mutex mutex;
  std::unique_ptr<writer> writing TND_GUARDED_BY(mutex);
  pid_t owner TND_GUARDED_BY(mutex) = 0;
};

current_trace &current() {
  static current_trace &instance = *new current_trace;
  return instance;
}

std::string with_process_id(std::string_view path) {
  std::string expanded{path};
  size_t position = expanded.find("%p");
  while (position != std::string::npos) {
    expanded.replace(position, 2, std::to_string(getpid()));
    position = expanded.find("%p", position);
  }
  return expanded;
}

}  // namespace

status start(std::string_view path) {
  lock_guard const lock{current().mutex};
  if (current().writing != nullptr)
    return fail(status::busy, "a trace is already being written");
  std::string const named = with_process_id(path);
  int const descriptor = ::open(named.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    status const code = status(-errno);
    return fail(code, "cannot write the trace {}: {}", named, tnd_status_text(tnd_status(code)));
  }
  current().writing = std::make_unique<writer>(descriptor);
  current().owner = getpid();
  targets.fetch_or(to_file);
  return status::ok;
}

status stop() {
  lock_guard const lock{current().mutex};
  if (current().writing == nullptr)
    return fail(status::bad_state, "no trace is being written");
  targets.fetch_and(~to_file);
  // after fork() the parent's thread owns the trace and completes the file
  if (current().owner != getpid()) {
    (void)current().writing.release();
    return status::ok;
  }
  bool const is_complete = current().writing->finish();
  current().writing.reset();
  return is_complete
             ? status::ok
             : fail(status::io, "the trace is incomplete: a write failed (is the disk full?)");
}

status start_from_environment() {
  static status const once = [] {
    const char *const path = std::getenv("TND_GFILE_TRACE");
    if (path == nullptr || *path == 0)
      return status::ok;
    TND_TRY(start(path));
    std::atexit([] {
      bool is_running;
      {
        lock_guard const lock{current().mutex};
        is_running = current().writing != nullptr;
      }
      if (is_running)
        (void)stop();
    });
    return status::ok;
  }();
  return once;
}

}  // namespace tanada::observe::trace
