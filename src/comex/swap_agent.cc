#include "comex/swap_agent.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "comex/swap/viewer.hpp"

namespace tanada::comex {

result<std::unique_ptr<swap_agent>> swap_agent::start(pgas::job &job, const swap_settings &chosen, swap::board &shared,
                                                      std::span<const swap::page_bits> stored, std::function<void()> beside) {
  std::unique_ptr<swap_agent> made{new swap_agent{chosen, shared}};
  auto const store = made->stores_.find(chosen.store);
  if (!store.ok()) return store.error();
  std::vector<swap::moved_memory> ranks;
  for (size_t rank = 0; rank < stored.size(); rank++) {
    auto const file = job.heap_file(job.node_pes()[rank]);
    auto const &bits = stored[rank];
    swap::memory_file const memory{file.descriptor, file.offset, bits.page_count()};
    auto window = swap::memory_window::open(memory);
    if (!window.ok()) log(log_level::info, "swapping by small pages: %s", last_message().c_str());
    ranks.push_back({memory, bits, window.ok() ? std::move(window).value() : nullptr});
  }
  swap::agent_options options{.url = chosen.store, .moving = swap::moving_within(chosen.budget)};
  if (!chosen.trace.empty()) {
    auto trace = swap::trace_writer::open(chosen.path_of(chosen.trace), chosen.node, shared);
    if (!trace.ok()) return trace.error();
    made->trace_ = std::move(trace).value();
  }
  if (auto page = port::page_file::create(port::page_folder_path(), swap::viewer_page_kind); page.ok()) made->page_ = std::move(page).value();
  else log(log_level::info, "what the ranks are doing is not published: %s", last_message().c_str());
  options.beside = [self = made.get(), beside = std::move(beside)](swap::board &of) {
    if (beside) beside();
    if (self->trace_) self->trace_->write(of);
    if (self->page_) self->publish();
  };
  auto agent = swap::agent::create(shared, *result{store}.value(), std::move(ranks), std::move(options));
  if (!agent.ok()) return agent.error();
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
  status const told = report();
  return code != status::ok ? code : told;
}

// A full file system leaves the page as it is.
void swap_agent::publish() {
  constexpr uint64_t period_ns = 250'000'000;
  uint64_t const now_ns = shared_.time().now_ns();
  if (published_ns_ != 0 && now_ns - published_ns_ < period_ns) return;
  published_ns_ = now_ns;
  (void)page_->publish(std::as_bytes(std::span<const char>{swap::describe(shared_)}));
}

status swap_agent::write_report() const {
  auto const &all = shared_.counters();
  std::string const path = chosen_.path_of(chosen_.report);
  std::FILE *const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return fail(status{-errno}, "TND_COMEX_REPORT: %s: %s", path.c_str(), std::strerror(errno));
  std::fprintf(file, "{\"nodes\": [{\"node\": %u, \"ranks\": %u, \"slots\": %u, \"budget\": %" PRIu64, chosen_.node, shared_.rank_count(),
               shared_.options().slots, shared_.options().budget);
  std::pair<const char *, uint64_t> const numbers[] = {
      {"bytes_out", all.bytes_out}, {"bytes_in", all.bytes_in}, {"bytes_served", all.bytes_served}, {"bytes_copied", all.bytes_copied},
      {"bytes_written_back", all.bytes_written_back}, {"swaps_out", all.swaps_out}, {"swaps_in", all.swaps_in},
      {"requests", all.requests}, {"beyond_budget", all.beyond_budget}};
  for (auto const &[name, number] : numbers) std::fprintf(file, ", \"%s\": %" PRIu64, name, number);
  constexpr double second_ns = 1e9;
  std::fprintf(file, ", \"move_seconds\": %.6f}]}\n", double(all.move_ns) / second_ns);
  bool const is_whole = std::ferror(file) == 0;
  if (std::fclose(file) == 0 && is_whole) return status::ok;
  return fail(status::io, "TND_COMEX_REPORT: %s: not all of it reached the file", path.c_str());
}

}  // namespace tanada::comex
