#include "products/comex/swap_agent.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/log.hpp"
#include "onesided/swap/viewer.hpp"
#include "seams/os/record_file.hpp"

namespace tanada::comex {

result<std::unique_ptr<swap_agent>> swap_agent::start(pgas::job &job, const swap_settings &chosen,
                                                      swap::board &shared,
                                                      std::span<const swap::page_bits> stored,
                                                      std::function<void()> beside) {
  std::unique_ptr<swap_agent> made{new swap_agent{chosen, shared}};
  auto const store = made->stores_.find(chosen.store);
  if (!store.ok())
    return store.error();
  std::vector<swap::moved_memory> ranks;
  std::vector<int> descriptors;
  for (size_t rank = 0; rank < stored.size(); rank++) {
    auto const file = job.heap_file(job.node_pes()[rank]);
    auto const &bits = stored[rank];
    swap::memory_file const memory{file.descriptor, file.offset, bits.page_count()};
    auto window = swap::memory_window::open(memory);
    if (!window.ok())
      log(log_level::info, "swapping by small pages: %s", last_message().c_str());
    descriptors.push_back(file.descriptor);
    ranks.push_back({memory, bits, window.ok() ? std::move(window).value() : nullptr});
  }
  swap::memory_meter::options constants{.reserves = chosen.reserve == swap_settings::measured};
  constants.constant_size = chosen.shared_size + shared.options().copies_size +
                            shared.rank_count() * swap::memory_meter::kernel_size;
  made->meter_ = std::make_unique<swap::memory_meter>(shared, std::move(descriptors), constants);
  swap::agent_options options{.url = chosen.store, .moving = swap::moving_within(chosen.budget)};
  if (!chosen.trace.empty()) {
    auto trace = swap::trace_writer::open(chosen.path_of(chosen.trace), chosen.node, shared);
    if (!trace.ok())
      return trace.error();
    made->trace_ = std::move(trace).value();
  }
  if (auto page = port::page_file::create(port::page_folder_path(), swap::viewer_page_kind);
      page.ok())
    made->page_ = std::move(page).value();
  else
    log(log_level::info, "what the ranks are doing is not published: %s", last_message().c_str());
  options.beside = [self = made.get(), beside = std::move(beside)](swap::board &of) {
    if (beside)
      beside();
    self->meter_->look();
    self->report_now_and_then();
    if (self->trace_)
      self->trace_->write(of);
    if (self->page_)
      self->publish();
  };
  auto agent =
      swap::agent::create(shared, *result{store}.value(), std::move(ranks), std::move(options));
  if (!agent.ok())
    return agent.error();
  made->thread_ = std::make_unique<swap::agent_thread>(shared, std::move(agent).value());
  return made;
}

swap_agent::~swap_agent() = default;

status swap_agent::stop() {
  thread_.reset();
  page_.reset();
  status code = status::ok;
  if (trace_) {
    trace_->write(shared_);
    code = trace_->close(shared_.time().now_ns());
  }
  is_over_ = true;
  summarise();
  status const told = report();
  return code != status::ok ? code : told;
}

// A failure is logged at the end.
void swap_agent::report_now_and_then() {
  constexpr uint64_t period_ns = 1'000'000'000;
  uint64_t const now_ns = shared_.time().now_ns();
  if (now_ns - reported_ns_ < period_ns)
    return;
  reported_ns_ = now_ns;
  (void)report();
}

// A full file system leaves the page as it is.
void swap_agent::publish() {
  constexpr uint64_t period_ns = 250'000'000;
  uint64_t const now_ns = shared_.time().now_ns();
  if (published_ns_ != 0 && now_ns - published_ns_ < period_ns)
    return;
  published_ns_ = now_ns;
  (void)page_->publish(std::as_bytes(std::span<const char>{swap::describe(shared_)}));
}

// The budget, or more for no longer than ranks need to leave.
bool swap_agent::has_held() const noexcept {
  auto const &all = shared_.counters();
  uint64_t const budget = shared_.options().budget;
  bool const is_measured = chosen_.reserve == swap_settings::measured;
  return all.beyond_budget == 0 && (!is_measured || all.peak_size <= budget + budget / 20);
}

// All numbers have a constant width: a report has the size of the one before it and takes its
// place.
std::string swap_agent::report_text() const {
  auto const &all = shared_.counters();
  std::string text;
  auto const add = [&text](const char *format, auto... values) {
    char line[128];
    std::snprintf(line, sizeof line, format, values...);
    text += line;
  };
  add("{\"nodes\": [{\"node\": %u, \"ranks\": %u", chosen_.node, shared_.rank_count());
  add(", \"slots\": %u", shared_.options().slots);
  std::pair<const char *, uint64_t> const numbers[] = {
      {"budget", shared_.options().budget},
      {"reserved", shared_.reserved()},
      {"peak", all.peak_size},
      {"bytes_out", all.bytes_out},
      {"bytes_in", all.bytes_in},
      {"bytes_served", all.bytes_served},
      {"bytes_copied", all.bytes_copied},
      {"bytes_written_back", all.bytes_written_back},
      {"swaps_out", all.swaps_out},
      {"swaps_in", all.swaps_in},
      {"requests", all.requests},
      {"beyond_budget", all.beyond_budget}};
  for (auto const &[name, number] : numbers)
    add(", \"%s\": %20" PRIu64, name, number);
  std::pair<const char *, bool> const answers[] = {
      {"budget_held", has_held()}, {"by_pages", is_by_pages_}, {"is_over", is_over_}};
  for (auto const &[name, answer] : answers)
    add(", \"%s\": %5s", name, answer ? "true" : "false");
  constexpr double second_ns = 1e9;
  add(", \"move_seconds\": %20.6f}]}\n", double(all.move_ns) / second_ns);
  return text;
}

// A reader's lock makes a report wait for the next turn, and the last one for a second.
status swap_agent::write_report() {
  std::lock_guard const lock{reporting_};
  std::string const path = chosen_.path_of(chosen_.report);
  std::string const text = report_text();
  struct stat about{};
  if (stat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode)) {
    constexpr uint64_t patience_ns = 1'000'000'000;
    status const code = port::replace_record(path, text, is_over_ ? patience_ns : 0);
    if (code == status::ok || (code == status::again && !is_over_))
      return code;
    return fail(code, "TND_COMEX_REPORT: %s", std::string{last_message()}.c_str());
  }
  if (!is_over_)
    return status::ok;  // a pipe or a terminal gets one report
  std::FILE *const file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return fail(status{-errno}, "TND_COMEX_REPORT: %s: %s", path.c_str(), std::strerror(errno));
  bool const is_written = std::fputs(text.c_str(), file) >= 0;
  bool const is_closed = std::fclose(file) == 0;
  if (is_written && is_closed)
    return status::ok;
  return fail(status::io, "TND_COMEX_REPORT: %s: not all of it reached the file", path.c_str());
}

void swap_agent::summarise() const {
  auto const &all = shared_.counters();
  if (all.swaps_out == 0 && has_held())
    return;
  constexpr double mebibyte = 1 << 20, second_ns = 1e9;
  log(log_level::warning,
      "swapping: node %u: %.1f MiB left memory in %" PRIu64
      " moves and %.1f MiB came back in %" PRIu64
      ", in %.2f s; at most %.1f MiB of the %.1f of "
      "TND_COMEX_MEMORY were used: the budget was %s",
      chosen_.node, double(all.bytes_out) / mebibyte, all.swaps_out.load(),
      double(all.bytes_in) / mebibyte, all.swaps_in.load(), double(all.move_ns) / second_ns,
      double(all.peak_size) / mebibyte, double(shared_.options().budget) / mebibyte,
      has_held() ? "kept" : "exceeded");
}

}  // namespace tanada::comex
