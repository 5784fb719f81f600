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
  for (pgas::pe_index pe = 0; pe < job.count(); pe++) {
    auto const file = job.heap_file(pe);
    auto const &bits = stored[size_t(pe)];
    ranks.push_back({swap::memory_file{file.descriptor, file.offset, bits.page_count()}, bits});
  }
  swap::agent_options options{.url = chosen.store, .moving = swap::moving_within(chosen.budget)};
  if (!chosen.trace.empty()) {
    auto trace = swap::trace_writer::open(chosen.trace, 0, uint32_t(job.count()));
    if (!trace.ok()) return trace.error();
    made->trace_ = std::move(trace).value();
  }
  // Without a name nobody can ask, and all else works; the message is on stderr.
  if (auto teller = port::teller::open(swap::viewer_name()); teller.ok()) made->teller_ = std::move(teller).value();
  options.beside = [self = made.get(), beside = std::move(beside)](swap::board &of) {
    if (beside) beside();
    if (self->trace_) self->trace_->write(of);
    if (self->teller_) self->teller_->answer([&] { return swap::describe(of); });
  };
  auto agent = swap::agent::create(shared, *result{store}.value(), std::move(ranks), std::move(options));
  if (!agent.ok()) return agent.error();
  made->thread_ = std::make_unique<swap::agent_thread>(shared, std::move(agent).value());
  return made;
}

swap_agent::~swap_agent() = default;

status swap_agent::stop() {
  thread_.reset();
  teller_.reset();
  status code = status::ok;
  if (trace_) {
    trace_->write(shared_);
    code = trace_->close(shared_.time().now_ns());
  }
  status const told = report();
  return code != status::ok ? code : told;
}

status swap_agent::write_report() const {
  auto const &all = shared_.counters();
  std::FILE *const file = std::fopen(chosen_.report.c_str(), "we");
  if (file == nullptr) return fail(status{-errno}, "TND_COMEX_REPORT=%s: %s", chosen_.report.c_str(), std::strerror(errno));
  std::fprintf(file, "{\"nodes\": [{\"node\": 0, \"ranks\": %u, \"slots\": %u, \"budget\": %" PRIu64, shared_.rank_count(), shared_.options().slots,
               shared_.options().budget);
  std::pair<const char *, uint64_t> const numbers[] = {
      {"bytes_out", all.bytes_out}, {"bytes_in", all.bytes_in}, {"bytes_served", all.bytes_served},
      {"bytes_written_back", all.bytes_written_back}, {"swaps_out", all.swaps_out}, {"swaps_in", all.swaps_in},
      {"requests", all.requests}, {"beyond_budget", all.beyond_budget}};
  for (auto const &[name, number] : numbers) std::fprintf(file, ", \"%s\": %" PRIu64, name, number);
  constexpr double second_ns = 1e9;
  std::fprintf(file, ", \"move_seconds\": %.6f}]}\n", double(all.move_ns) / second_ns);
  bool const is_whole = std::ferror(file) == 0;
  if (std::fclose(file) == 0 && is_whole) return status::ok;
  return fail(status::io, "TND_COMEX_REPORT=%s: not all of it reached the file", chosen_.report.c_str());
}

}  // namespace tanada::comex
