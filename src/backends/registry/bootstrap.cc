// backends/registry/bootstrap.cc: chooses how a process joins its job.
#include "seams/bootstrap/bootstrap.hpp"

#include <unistd.h>

#include <cinttypes>
#include <cstdlib>

#include "backends/node/launch.hpp"
#include "core/base/log.hpp"
#include "seams/bootstrap/bootstrap_plugin.hpp"
#include "seams/bootstrap/card.hpp"
#include "seams/bootstrap/value_table.hpp"

namespace tanada::seams {
namespace {

class single_process_bootstrap final : public bootstrap {
 public:
  single_process_bootstrap() : job_{"alone." + std::to_string(getpid()) + "." + random_digits()} {}

  const char *name() const noexcept override {
    return "alone";
  }
  int32_t rank() const noexcept override {
    return 0;
  }
  int32_t count() const noexcept override {
    return 1;
  }
  const std::string &job() const noexcept override {
    return job_;
  }
  const std::vector<int32_t> &node_ranks() const noexcept override {
    return node_ranks_;
  }

  status publish(std::string_view key, std::span<const std::byte> value) override {
    return values_.publish(key, value);
  }
  status exchange(uint64_t) override {
    values_.take_published();
    return status::ok;
  }
  result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) override {
    if (rank != 0)
      return fail(status::invalid, "rank {} of a job of 1", rank);
    return values_.find(key);
  }
  status barrier(uint64_t) override {
    return status::ok;
  }

  void abort(int32_t code, const char *message) noexcept override {
    log(log_level::error, "the job is aborted with code {}: {}", code, message);
    std::_Exit(code);
  }
  int32_t find_failed_rank() const noexcept override {
    return -1;
  }

 private:
  std::string const job_;
  std::vector<int32_t> const node_ranks_{0};
  value_table values_;
};

}  // namespace

std::unique_ptr<bootstrap> bootstrap_alone() {
  auto single = std::make_unique<single_process_bootstrap>();
  // Ignore a failure: a job of one process needs no random numbers to identify it to others.
  static_cast<void>(process_card_publish(*single));
  return single;
}

result<std::unique_ptr<bootstrap>> bootstrap_open() {
  auto kind =
      backends::launch_kind_of([](const char *name) -> const char * { return std::getenv(name); });
  if (!kind.ok())
    return kind.error();
  if (kind.value() == backends::launch_kind::alone)
    return bootstrap_alone();
  return bootstrap_pmix();
}

}  // namespace tanada::seams
