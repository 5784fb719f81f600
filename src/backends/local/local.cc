// backends/local/local.cc: a job whose ranks are threads of this process.
#include "backends/local/local.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/bootstrap/card.hpp"
#include "seams/bootstrap/value_table.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

// State shared by the ranks. `mutex` protects all of it except the atomics.
struct local_job {
  explicit local_job(std::span<const int32_t> node_of)
      : name{"local." + std::to_string(getpid()) + "." + seams::random_digits()},
        nodes(node_of.begin(), node_of.end()),
        values(node_of.size()) {}

  // Waits until all ranks have called it. `on_all_arrived` runs once, before any rank returns.
  template <class Function>
  status arrive_and_wait(uint64_t timeout_ns,
                         const std::atomic<bool> &killed,
                         const Function &on_all_arrived) {
    uint64_t const deadline_ns =
        seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns);
    unique_lock lock{mutex};
    if (status const code = state(killed); code != status::ok)
      return code;
    TND_ASSERT(arrived < values.size());
    uint64_t const round = rounds;
    if (++arrived == values.size()) {
      on_all_arrived();
      arrived = 0;
      rounds++;
      changed.notify_all();
      return status::ok;
    }
    while (rounds == round) {
      if (status const code = state(killed); code != status::ok)
        return code;
      uint64_t const now_ns = seams::monotonic_clock().now_ns();
      if (now_ns >= deadline_ns) {
        failed = true;
        return fail(status::timed_out,
                    "only {} of {} ranks arrived before the timeout",
                    arrived,
                    values.size());
      }
      changed.wait_for(
          lock, std::chrono::nanoseconds{std::min<uint64_t>(deadline_ns - now_ns, 100'000'000)});
    }
    return status::ok;
  }

  status state(const std::atomic<bool> &killed) const {
    if (killed)
      return fail(status::canceled, "this rank was killed");
    if (lost >= 0)
      return fail(status::peer_lost, "rank {} has failed", lost.load());
    return failed ? fail(status::bad_state, "an earlier collective of this job has failed")
                  : status::ok;
  }

  std::string const name;
  std::vector<int32_t> const nodes;  // by rank
  tanada::mutex mutex;
  condition_variable changed;
  std::vector<seams::value_table> values;  // by rank
  size_t arrived = 0;
  uint64_t rounds = 0;
  bool failed = false;
  std::atomic<int32_t> lost{-1}, abort_code{-1};
};

class local_rank final : public local_bootstrap {
 public:
  local_rank(std::shared_ptr<local_job> job, int32_t rank) : job_{std::move(job)}, rank_{rank} {
    TND_ASSERT(rank >= 0 && size_t(rank) < job_->nodes.size());
    for (size_t i = 0; i < job_->nodes.size(); i++) {
      if (job_->nodes[i] == job_->nodes[size_t(rank)])
        node_ranks_.push_back(int32_t(i));
    }
  }

  const char *name() const noexcept override {
    return "local";
  }
  int32_t rank() const noexcept override {
    return rank_;
  }
  int32_t count() const noexcept override {
    return int32_t(job_->nodes.size());
  }
  const std::string &job() const noexcept override {
    return job_->name;
  }
  const std::vector<int32_t> &node_ranks() const noexcept override {
    return node_ranks_;
  }

  status publish(std::string_view key, std::span<const std::byte> value) override {
    lock_guard const lock{job_->mutex};
    return job_->values[size_t(rank_)].publish(key, value);
  }
  status exchange(uint64_t timeout_ns) override {
    return job_->arrive_and_wait(timeout_ns, killed_, [this] {
      for (auto &table : job_->values)
        table.take_published();
    });
  }
  result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) override {
    if (rank < 0 || rank >= count())
      return fail(status::invalid, "rank {} of a job of {}", rank, count());
    lock_guard const lock{job_->mutex};
    return job_->values[size_t(rank)].find(key);
  }
  status barrier(uint64_t timeout_ns) override {
    return job_->arrive_and_wait(timeout_ns, killed_, [] {});
  }

  void abort(int32_t code, const char *message) noexcept override {
    log(log_level::error, "rank {} aborts the job with code {}: {}", rank_, code, message);
    int32_t expected = -1;
    job_->abort_code.compare_exchange_strong(expected, code);
    kill();
  }
  int32_t find_failed_rank() const noexcept override {
    return job_->lost;
  }

  void kill() noexcept override {
    lock_guard const lock{job_->mutex};
    killed_ = true;
    int32_t expected = -1;
    job_->lost.compare_exchange_strong(expected, rank_);
    job_->changed.notify_all();
  }
  int32_t abort_code() const noexcept override {
    return job_->abort_code;
  }

 private:
  std::shared_ptr<local_job> const job_;
  int32_t const rank_;
  std::vector<int32_t> node_ranks_;
  std::atomic<bool> killed_{false};
};

}  // namespace

std::vector<std::unique_ptr<local_bootstrap>> bootstrap_local(std::span<const int32_t> node_of) {
  TND_ASSERT(!node_of.empty());
  auto const job = std::make_shared<local_job>(node_of);
  std::vector<std::unique_ptr<local_bootstrap>> ranks;
  for (size_t i = 0; i < node_of.size(); i++) {
    auto const &rank = ranks.emplace_back(std::make_unique<local_rank>(job, int32_t(i)));
    status const code = seams::process_card_publish(*rank);
    TND_ASSERT(code == status::ok);
  }
  return ranks;
}

std::vector<std::unique_ptr<local_bootstrap>> bootstrap_local(int32_t count, int32_t node_count) {
  TND_ASSERT(count >= 1 && node_count >= 1 && node_count <= count);
  std::vector<int32_t> node_of;
  for (int32_t i = 0; i < count; i++) {
    // If the ranks do not divide evenly, the first nodes have one rank more.
    int32_t const more = count % node_count, size = count / node_count,
                  of_larger = more * (size + 1);
    node_of.push_back(i < of_larger ? i / (size + 1) : more + (i - of_larger) / size);
  }
  return bootstrap_local(node_of);
}

}  // namespace tanada::backends
