// swap_agent.cc: the agent's start and end, and its report, trace and status page.
#include "products/comex/swap_agent.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "onesided/swap/viewer.hpp"
#include "seams/os/record_file.hpp"

namespace tanada::comex {

namespace {

// The memory of each process of the node, by rank.
std::vector<onesided::swap::rank_memory> open_memory_of_ranks(onesided::job &job,
                                                              const node_page_maps &maps) {
  TND_ASSERT(maps.stored.size() == job.node_pes().size());
  std::vector<onesided::swap::rank_memory> ranks;
  for (size_t rank = 0; rank < maps.stored.size(); rank++) {
    auto const file = job.heap_file(job.node_pes()[rank]);
    auto const &bits = maps.stored[rank];
    onesided::swap::memory_file const memory{file.descriptor, file.offset, bits.page_count()};
    auto window = onesided::swap::memory_window::open(memory);
    if (!window.ok())
      log(log_level::info, "swapping uses small pages: {}", last_message());
    ranks.push_back({memory,
                     bits,
                     window.ok() ? std::move(window).value() : nullptr,
                     maps.cold[rank],
                     maps.left_out[rank]});
  }
  return ranks;
}

std::vector<int> heap_descriptors(const onesided::job &job) {
  std::vector<int> descriptors;
  for (auto const pe : job.node_pes())
    descriptors.push_back(job.heap_file(pe).descriptor);
  return descriptors;
}

template <class... Values>
void append_text(std::string &text, const char *format, Values... values) {
  char line[128];
  int const size = std::snprintf(line, sizeof line, format, values...);
  TND_ASSERT(size >= 0 && size_t(size) < sizeof line);
  text += line;
}

}  // namespace

result<std::unique_ptr<swap_agent>> swap_agent::start(onesided::job &job,
                                                      const swap_settings &config,
                                                      onesided::swap::node_table &table,
                                                      const node_page_maps &maps,
                                                      std::function<void()> on_poll) {
  std::unique_ptr<swap_agent> created{new swap_agent{config, table}};
  auto store = created->stores_.find(config.store);
  if (!store.ok())
    return store.error();
  auto ranks = open_memory_of_ranks(job, maps);
  created->open_meter(heap_descriptors(job));
  TND_TRY(created->open_trace());
  created->open_status_page();
  onesided::swap::agent_options options{.url = config.store,
                                        .mover = onesided::swap::mover_options_for(config.budget)};
  options.on_tick = [self = created.get(),
                     beside = std::move(on_poll)](onesided::swap::node_table &observed) {
    if (beside)
      beside();
    self->observe(observed);
  };
  auto agent =
      onesided::swap::agent::create(table, *store.value(), std::move(ranks), std::move(options));
  if (!agent.ok())
    return agent.error();
  created->thread_ =
      std::make_unique<onesided::swap::agent_thread>(table, std::move(agent).value());
  return created;
}

void swap_agent::open_meter(std::vector<int> descriptors) {
  onesided::swap::memory_meter::options constants{.reserves =
                                                      config_.reserve == swap_settings::measured};
  constants.constant_size = config_.shared_size + table_.options().copies_size +
                            table_.rank_count() * onesided::swap::memory_meter::kernel_size;
  meter_ =
      std::make_unique<onesided::swap::memory_meter>(table_, std::move(descriptors), constants);
}

status swap_agent::open_trace() {
  if (config_.trace.empty())
    return status::ok;
  auto trace =
      onesided::swap::trace_writer::open(config_.node_path(config_.trace), config_.node, table_);
  if (!trace.ok())
    return trace.error();
  trace_ = std::move(trace).value();
  return status::ok;
}

void swap_agent::open_status_page() {
  auto page = seams::page_file::create(seams::page_folder_path(), onesided::swap::viewer_page_kind);
  if (page.ok())
    status_page_ = std::move(page).value();
  else
    log(log_level::info,
        "swapping: the status page of this node is not published: {}",
        last_message());
}

// Called by the agent's thread every few milliseconds.
void swap_agent::observe(onesided::swap::node_table &observed) {
  TND_ASSERT(meter_ != nullptr && !is_stopped_);
  meter_->update();
  report_periodically();
  if (trace_)
    trace_->write(observed);
  if (status_page_)
    publish();
}

swap_agent::~swap_agent() = default;

status swap_agent::stop() {
  TND_ASSERT(!is_stopped_);
  thread_.reset();
  status_page_.reset();
  status code = status::ok;
  if (trace_) {
    trace_->write(table_);
    code = trace_->close(table_.time().now_ns());
  }
  is_stopped_ = true;
  log_summary();
  status const report_status = report();
  return code != status::ok ? code : report_status;
}

// A failure is logged at the end.
void swap_agent::report_periodically() {
  constexpr uint64_t period_ns = 1'000'000'000;
  uint64_t const now_ns = table_.time().now_ns();
  if (now_ns - reported_ns_ < period_ns)
    return;
  reported_ns_ = now_ns;
  (void)report();
}

// If the file system is full, the status page keeps its old content.
void swap_agent::publish() {
  TND_ASSERT(status_page_ != nullptr);
  constexpr uint64_t period_ns = 250'000'000;
  uint64_t const now_ns = table_.time().now_ns();
  if (published_ns_ != 0 && now_ns - published_ns_ < period_ns)
    return;
  published_ns_ = now_ns;
  (void)status_page_->publish(
      std::as_bytes(std::span<const char>{onesided::swap::describe(table_)}));
}

// The budget, or more for no longer than processes take to swap out.
bool swap_agent::is_budget_kept() const noexcept {
  auto const &counters = table_.counters();
  uint64_t const budget = table_.options().budget;
  bool const is_measured = config_.reserve == swap_settings::measured;
  return counters.beyond_budget == 0 &&
         (!is_measured || counters.peak_size <= budget + budget / 20);
}

std::string swap_agent::counters_text() const {
  auto const &counters = table_.counters();
  std::pair<const char *, uint64_t> const numbers[] = {
      {"budget", table_.options().budget},
      {"reserved", table_.reserved()},
      {"peak", counters.peak_size},
      {"bytes_out", counters.bytes_out},
      {"bytes_in", counters.bytes_in},
      {"bytes_served", counters.bytes_served},
      {"bytes_copied", counters.bytes_copied},
      {"bytes_written_back", counters.bytes_written_back},
      {"bytes_zero", counters.bytes_zero},
      {"bytes_left_out", counters.bytes_left_out},
      {"swaps_out", counters.swaps_out},
      {"swaps_in", counters.swaps_in},
      {"requests", counters.requests},
      {"beyond_budget", counters.beyond_budget}};
  std::string text;
  for (auto const &[name, number] : numbers)
    append_text(text, ", \"%s\": %20" PRIu64, name, number);
  return text;
}

// All numbers have a constant width, so that a report has the same size as the one that it
// replaces.
std::string swap_agent::report_text() const {
  std::string text;
  append_text(text, "{\"nodes\": [{\"node\": %u, \"ranks\": %u", config_.node, table_.rank_count());
  append_text(text, ", \"slots\": %u", table_.options().slots);
  text += counters_text();
  std::pair<const char *, bool> const flags[] = {{"budget_held", is_budget_kept()},
                                                 {"by_pages", uses_demand_paging_},
                                                 {"is_over", is_stopped_}};
  for (auto const &[name, answer] : flags)
    append_text(text, ", \"%s\": %5s", name, answer ? "true" : "false");
  constexpr double second_ns = 1e9;
  append_text(
      text, ", \"move_seconds\": %20.6f}]}\n", double(table_.counters().move_ns) / second_ns);
  return text;
}

// If a reader holds the lock, the report is written the next time. The last report waits up to a
// second.
status swap_agent::write_report() {
  std::lock_guard const lock{report_mutex_};
  std::string const path = config_.node_path(config_.report);
  std::string const text = report_text();
  struct stat about{};
  if (stat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode)) {
    constexpr uint64_t lock_timeout_ns = 1'000'000'000;
    status const code = seams::replace_record(path, text, is_stopped_ ? lock_timeout_ns : 0);
    if (code == status::ok || (code == status::again && !is_stopped_))
      return code;
    return fail(code, "TND_COMEX_REPORT: {}", last_message());
  }
  if (!is_stopped_)
    return status::ok;  // a pipe or a terminal gets only the final report
  std::FILE *const file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return fail(status{-errno}, "TND_COMEX_REPORT: {}: {}", path, std::strerror(errno));
  bool const is_written = std::fputs(text.c_str(), file) >= 0;
  bool const is_closed = std::fclose(file) == 0;
  if (is_written && is_closed)
    return status::ok;
  return fail(status::io, "TND_COMEX_REPORT: {}: the report was not written completely", path);
}

void swap_agent::log_summary() const {
  auto const &counters = table_.counters();
  if (counters.swaps_out == 0 && is_budget_kept())
    return;
  constexpr double mebibyte = 1 << 20, second_ns = 1e9;
  log(log_level::warning,
      "swapping: node {}: swapped out {:.1f} MiB in {} moves and swapped in {:.1f} MiB in {}, in "
      "{:.2f} s; used at most {:.1f} MiB of the {:.1f} of TND_COMEX_MEMORY: the budget was {}",
      config_.node,
      double(counters.bytes_out) / mebibyte,
      counters.swaps_out.load(),
      double(counters.bytes_in) / mebibyte,
      counters.swaps_in.load(),
      double(counters.move_ns) / second_ns,
      double(counters.peak_size) / mebibyte,
      double(table_.options().budget) / mebibyte,
      is_budget_kept() ? "kept" : "exceeded");
}

}  // namespace tanada::comex
