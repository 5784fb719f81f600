// Writes the trace of a node's processes as JSON.
#include "onesided/swap/trace.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::onesided::swap {
namespace {

double microseconds(uint64_t ns) {
  return double(ns) / 1000;
}

}  // namespace

// The file is a JSON array that need not be closed, so viewers show the events of a job that died.
result<std::unique_ptr<trace_writer>> trace_writer::open(const std::string &path,
                                                         uint32_t node,
                                                         const node_table &table) {
  std::unique_ptr<trace_writer> writer{new trace_writer};
  writer->file_ = std::fopen(path.c_str(), "we");
  if (writer->file_ == nullptr)
    return fail(status(-errno), "TND_COMEX_TRACE: {}: {}", path, std::strerror(errno));
  writer->path_ = path;
  writer->node_ = node;
  writer->rows_.resize(table.rank_count());
  std::fprintf(
      writer->file_,
      "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"node %u\"}}",
      node,
      node);
  for (uint32_t i = 0; i < table.rank_count(); i++) {
    std::fprintf(writer->file_,
                 ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{"
                 "\"name\":\"process %d\"}}",
                 node,
                 i,
                 table.job_rank_of(i));
  }
  return writer;
}

trace_writer::~trace_writer() {
  (void)close(0);
}

void trace_writer::write_bar(uint32_t rank, uint64_t end_ns) {
  TND_ASSERT(file_ != nullptr && rank < rows_.size());
  auto const &row = rows_[rank];
  if (row.state == rank_state::inactive)
    return;
  std::fprintf(file_,
               ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
               name_of(row.state),
               node_,
               rank,
               microseconds(row.since_ns - begin_ns_),
               microseconds(end_ns - row.since_ns));
}

void trace_writer::write(node_table &table) {
  if (file_ == nullptr)
    return;
  state_event events[256];
  for (;;) {
    size_t const count = table.take_events(events);
    for (auto const &event : std::span{events}.first(count)) {
      if (begin_ns_ == 0)
        begin_ns_ = event.time_ns;
      write_bar(event.rank, event.time_ns);
      rows_[event.rank] = {event.new_state, event.time_ns};
    }
    if (count < std::size(events))
      break;
  }
  auto const &counters = table.counters();
  uint64_t const bytes_out = counters.bytes_out + counters.bytes_written_back,
                 bytes_in = counters.bytes_in + counters.bytes_served;
  if (bytes_out + bytes_in == moved_ || begin_ns_ == 0)
    return;
  moved_ = bytes_out + bytes_in;
  std::fprintf(
      file_,
      ",\n{\"ph\":\"C\",\"name\":\"bytes moved\",\"pid\":%u,\"ts\":%.3f,\"args\":{\"out\":%" PRIu64
      ",\"in\":%" PRIu64 "}}",
      node_,
      microseconds(table.time().now_ns() - begin_ns_),
      bytes_out,
      bytes_in);
}

status trace_writer::close(uint64_t now_ns) {
  if (file_ == nullptr)
    return status::ok;
  for (uint32_t i = 0; i < rows_.size(); i++) {
    if (now_ns > rows_[i].since_ns)
      write_bar(i, now_ns);
  }
  std::fputs("\n]\n", file_);
  bool const has_failed = std::ferror(file_) != 0;
  if (std::fclose(std::exchange(file_, nullptr)) == 0 && !has_failed)
    return status::ok;
  return fail(status::io, "TND_COMEX_TRACE: {}: the file was not written completely", path_);
}

}  // namespace tanada::onesided::swap
