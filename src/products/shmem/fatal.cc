// Ending the job with a message, for calls that cannot return an error.
#include "products/shmem/fatal.hpp"

#include <tanada/status.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "core/base/bounded_text.hpp"
#include "core/base/log.hpp"
#include "products/shmem/collectives/collective_state.hpp"

namespace tanada::shmem {
namespace {

// Exit code of a program that makes an invalid call.
constexpr int32_t exit_code = 1;
constexpr size_t text_size = 1024;  // bytes of the line, including the terminating zero

constinit bool is_over = false;

// Lists the segments of symmetric memory of this PE, for a message.
void describe_segments(const onesided::symmetric_map &map, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < map.segment_count() && used < size; i++) {
    auto const &segment = map.segment_at(i);
    if (segment.is_internal)
      continue;
    int const more = std::snprintf(text + used,
                                   size - used,
                                   "%s%s %p-%p",
                                   i == 0 ? "" : ", ",
                                   segment.name,
                                   static_cast<void *>(segment.base),
                                   static_cast<void *>(segment.base + segment.size));
    if (more > 0)
      used += size_t(more);
  }
}

// The line goes to stderr regardless of TND_LOG, since nothing else gives the reason why the job
// ended. `job` is null if no job is running.
[[noreturn]] void end_job(const char *call, const char *text, const onesided::job *job) noexcept {
  std::fflush(stdout);
  if (job == nullptr) {
    std::fprintf(stderr, "%s: %s\n", call, text);
    std::_Exit(exit_code);
  }
  std::fprintf(stderr, "%s: PE %d: %s\n", call, int(job->me()), text);
  std::fflush(stderr);
  if (job->count() > 1)
    job->launcher().abort(exit_code, call);
  std::_Exit(exit_code);
}

[[noreturn]] void fatal_range(const runtime &current, const failed_operation &operation) noexcept {
  auto const &map = current.job->map();
  char segments[text_size / 2];
  describe_segments(map, segments, sizeof segments);
  if (map.locate(operation.addr, 1, map.me()).segment_ptr == nullptr) {
    fatal(operation.call,
          "address {} ({} bytes, PE {}) is not symmetric: {}",
          operation.addr,
          operation.size,
          operation.pe,
          segments);
  }
  fatal(operation.call,
        "{} bytes at address {} (PE {}) extend beyond symmetric memory: {}",
        operation.size,
        operation.addr,
        operation.pe,
        segments);
}

// The operation failed because a PE has departed.
[[noreturn]] void fatal_departed(const runtime &current,
                                 const departure &departed,
                                 const char *call) noexcept {
  auto const &waits = current.coordination->teams.stalls().describe();
  fatal(call,
        "PE {} has left the job{}, so that this call cannot complete{}{}{}",
        departed.pe,
        departed.kind == departure_kind::exit
            ? " without shmem_finalize (it called exit() or returned from main)"
            : " by shmem_finalize",
        waits.empty() ? "" : ": all PEs that remain wait (",
        waits,
        waits.empty() ? "" : ")");
}

}  // namespace

void fatal_text(const char *call, fmt::string_view format, fmt::format_args arguments) noexcept {
  bounded_text const text{format, arguments};
  runtime *const current = running();
  end_job(call, text.c_str(), current == nullptr ? nullptr : current->job.get());
}

void fatal(const std::exception &thrown, const char *call) noexcept {
  bool const is_memory = dynamic_cast<const std::bad_alloc *>(&thrown) != nullptr ||
                         dynamic_cast<const std::length_error *>(&thrown) != nullptr;
  if (!is_memory)
    fatal(call, "{}", thrown.what());
  constexpr auto code = tnd_status(status::no_memory);
  fatal(call, "{}: {}", tnd_status_name(code), tnd_status_text(code));
}

void fatal_start(const char *call, const onesided::job &job) noexcept {
  end_job(call, last_message().c_str(), &job);
}

void fatal(status code, const failed_operation &operation) noexcept {
  runtime *const current = running();
  if (current == nullptr)
    fatal(operation.call, "{}", tnd_status_name(tnd_status(code)));
  switch (code) {
    case status::invalid:
      fatal(operation.call,
            "there is no PE {}: PEs are 0 to {}, or fewer in the context's team (address {})",
            operation.pe,
            current->job->count() - 1,
            operation.addr);
    case status::range:
      fatal_range(*current, operation);
    case status::fault:
      fatal(operation.call,
            "address {} (PE {}) is not a multiple of {}, which atomic operations need",
            operation.addr,
            operation.pe,
            operation.size);
    case status::peer_lost:
      if (current->coordination == nullptr)
        break;
      if (auto const departed = current->coordination->teams.departed())
        fatal_departed(*current, *departed, operation.call);
      break;
    default:
      break;
  }
  if (operation.addr == nullptr && operation.size == 0) {
    fatal(operation.call,
          "{} (PE {}): {}",
          tnd_status_name(tnd_status(code)),
          operation.pe,
          tnd_status_text(tnd_status(code)));
  }
  fatal(operation.call,
        "{} (PE {}, address {}, {} bytes): {}",
        tnd_status_name(tnd_status(code)),
        operation.pe,
        operation.addr,
        operation.size,
        tnd_status_text(tnd_status(code)));
}

void not_running(const char *call) noexcept {
  fatal(call, "called {}", is_over ? "after the last shmem_finalize" : "before shmem_init");
}

void note_end() noexcept {
  is_over = true;
}

bool has_ended() noexcept {
  return is_over;
}

}  // namespace tanada::shmem
