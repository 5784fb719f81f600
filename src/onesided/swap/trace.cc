#include "onesided/swap/trace.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "core/base/log.hpp"

namespace tanada::comex::swap {
namespace {

double microseconds(uint64_t ns) {
  return double(ns) / 1000;
}

}  // namespace

// An array that need not end: viewers take what is there of a job that dies.
result<std::unique_ptr<trace_writer>> trace_writer::open(const std::string &path, uint32_t node,
                                                         const board &of) {
  std::unique_ptr<trace_writer> made{new trace_writer};
  made->file_ = std::fopen(path.c_str(), "we");
  if (made->file_ == nullptr)
    return fail(status(-errno), "TND_COMEX_TRACE: %s: %s", path.c_str(), std::strerror(errno));
  made->path_ = path;
  made->node_ = node;
  made->lines_.resize(of.rank_count());
  std::fprintf(
      made->file_,
      "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"node %u\"}}",
      node, node);
  for (uint32_t i = 0; i < of.rank_count(); i++) {
    std::fprintf(made->file_,
                 ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{"
                 "\"name\":\"process %d\"}}",
                 node, i, of.number_of(i));
  }
  return made;
}

trace_writer::~trace_writer() {
  (void)close(0);
}

void trace_writer::write_bar(uint32_t rank, uint64_t end_ns) {
  auto const &of = lines_[rank];
  if (of.state == rank_state::gone)
    return;
  std::fprintf(file_,
               ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
               name_of(of.state), node_, rank, microseconds(of.since_ns - begin_ns_),
               microseconds(end_ns - of.since_ns));
}

void trace_writer::write(board &of) {
  if (file_ == nullptr)
    return;
  state_event events[256];
  for (;;) {
    size_t const count = of.take_events(events);
    for (auto const &each : std::span{events}.first(count)) {
      if (begin_ns_ == 0)
        begin_ns_ = each.at_ns;
      write_bar(each.rank, each.at_ns);
      lines_[each.rank] = {each.to, each.at_ns};
    }
    if (count < std::size(events))
      break;
  }
  auto const &all = of.counters();
  uint64_t const out = all.bytes_out + all.bytes_written_back, in = all.bytes_in + all.bytes_served;
  if (out + in == moved_ || begin_ns_ == 0)
    return;
  moved_ = out + in;
  std::fprintf(
      file_,
      ",\n{\"ph\":\"C\",\"name\":\"bytes moved\",\"pid\":%u,\"ts\":%.3f,\"args\":{\"out\":%" PRIu64
      ",\"in\":%" PRIu64 "}}",
      node_, microseconds(of.time().now_ns() - begin_ns_), out, in);
}

status trace_writer::close(uint64_t now_ns) {
  if (file_ == nullptr)
    return status::ok;
  for (uint32_t i = 0; i < lines_.size(); i++) {
    if (now_ns > lines_[i].since_ns)
      write_bar(i, now_ns);
  }
  std::fputs("\n]\n", file_);
  bool const has_failed = std::ferror(file_) != 0;
  if (std::fclose(std::exchange(file_, nullptr)) == 0 && !has_failed)
    return status::ok;
  return fail(status::io, "TND_COMEX_TRACE: %s: not all of it was written", path_.c_str());
}

}  // namespace tanada::comex::swap
