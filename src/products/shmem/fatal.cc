#include "products/shmem/fatal.hpp"

#include <tanada/status.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "core/base/log.hpp"
#include "products/shmem/collectives/kept.hpp"

namespace tanada::shmem {
namespace {

// What a program ends with that has called wrongly.
constexpr int32_t exit_code = 1;
constexpr size_t text_size = 1024;  // bytes of the line, its end included

constinit bool is_over = false;

// Where the symmetric memory of this PE lies, for a message.
void describe_segments(const pgas::symmetric_map &map, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < map.segment_count() && used < size; i++) {
    auto const &each = map.at(i);
    if (each.is_own)
      continue;
    int const more =
        std::snprintf(text + used, size - used, "%s%s %p-%p", i == 0 ? "" : ", ", each.name,
                      static_cast<void *>(each.base), static_cast<void *>(each.base + each.size));
    if (more > 0)
      used += size_t(more);
  }
}

// The line goes to stderr whatever TND_LOG says: it is the only thing that tells why the job ended.
// No job: it has none.
[[noreturn]] void end_job(const char *call, const char *text, const pgas::job *job) noexcept {
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

}  // namespace

void fatal(const char *call, const char *format, ...) noexcept {
  char text[text_size];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  runtime *const current = running();
  end_job(call, text, current == nullptr ? nullptr : current->job.get());
}

void fatal(const std::exception &thrown, const char *call) noexcept {
  bool const is_memory = dynamic_cast<const std::bad_alloc *>(&thrown) != nullptr ||
                         dynamic_cast<const std::length_error *>(&thrown) != nullptr;
  if (!is_memory)
    fatal(call, "%s", thrown.what());
  constexpr auto code = tnd_status(status::no_memory);
  fatal(call, "%s: %s", tnd_status_name(code), tnd_status_text(code));
}

void fatal_start(const char *call, const pgas::job &job) noexcept {
  end_job(call, last_message().c_str(), &job);
}

void fatal(status code, const failed_operation &what) noexcept {
  runtime *const current = running();
  if (current == nullptr)
    fatal(what.call, "%s", tnd_status_name(tnd_status(code)));
  auto const &map = current->job->map();
  char segments[text_size / 2];
  switch (code) {
    case status::invalid:
      fatal(what.call,
            "there is no PE %d: they are 0 to %d, or fewer in the context's team (address %p)",
            what.pe, int(map.count()) - 1, what.addr);
    case status::range:
      describe_segments(map, segments, sizeof segments);
      if (map.locate(what.addr, 1, map.me()).where == nullptr) {
        fatal(what.call, "address %p (%zu bytes, PE %d) is not symmetric: %s", what.addr, what.size,
              what.pe, segments);
      }
      fatal(what.call, "%zu bytes at address %p (PE %d) leave symmetric memory: %s", what.size,
            what.addr, what.pe, segments);
    case status::fault:
      fatal(what.call, "address %p (PE %d) is not a multiple of %zu, which atomic operations need",
            what.addr, what.pe, what.size);
    case status::peer_lost:
      if (current->coordination == nullptr)
        break;
      if (auto const gone = current->coordination->teams.departed()) {
        auto const &waits = current->coordination->teams.stalls().describe();
        fatal(what.call, "PE %d has left the job%s, so that this call cannot complete%s%s%s",
              int(gone->pe),
              gone->kind == departure_kind::exit
                  ? " without shmem_finalize (it called exit() or returned from main)"
                  : " by shmem_finalize",
              waits.empty() ? "" : ": all PEs that remain wait (", waits.c_str(),
              waits.empty() ? "" : ")");
      }
      break;
    default: break;
  }
  if (what.addr == nullptr && what.size == 0) {
    fatal(what.call, "%s (PE %d): %s", tnd_status_name(tnd_status(code)), what.pe,
          tnd_status_text(tnd_status(code)));
  }
  fatal(what.call, "%s (PE %d, address %p, %zu bytes): %s", tnd_status_name(tnd_status(code)),
        what.pe, what.addr, what.size, tnd_status_text(tnd_status(code)));
}

void not_running(const char *call) noexcept {
  fatal(call, is_over ? "called after the last shmem_finalize" : "called before shmem_init");
}

void note_end() noexcept {
  is_over = true;
}

bool has_ended() noexcept {
  return is_over;
}

}  // namespace tanada::shmem
