// backends/pmix/pmix_bootstrap.hpp: membership in a job that a PMIx launcher started.
#pragma once

#include "backends/pmix/pmix_session.hpp"
#include "seams/bootstrap/node_watch.hpp"
#include "seams/bootstrap/value_table.hpp"

namespace tanada::backends {

struct pmix_answer;

// A rank's values go to PMIx as one value for each exchange. So a missing key is detected in this
// process, without a query for which PMIx would wait.
class pmix_bootstrap final : public seams::bootstrap {
 public:
  pmix_bootstrap() = default;
  ~pmix_bootstrap() override;

  struct wanted_value {
    pmix_proc_t process;
    std::string key;
  };

  // On failure `message` has the reason.
  status open(std::string &message);

  const char *name() const noexcept override {
    return "pmix";
  }
  int32_t rank() const noexcept override {
    return int32_t(self_.rank);
  }
  int32_t count() const noexcept override {
    return int32_t(values_.size());
  }
  const std::string &job() const noexcept override {
    return job_;
  }
  const std::vector<int32_t> &node_ranks() const noexcept override {
    return node_ranks_;
  }

  status publish(std::string_view key, std::span<const std::byte> value) override;
  status exchange(uint64_t timeout_ns) override;
  result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) override;
  status barrier(uint64_t timeout_ns) override;
  void abort(int32_t code, const char *message) noexcept override;
  int32_t find_failed_rank() const noexcept override;
  void watch_launcher(std::function<void()> callback) override;

 private:
  status read_job(std::string &message);
  status fence(const char *operation, bool with_values, uint64_t timeout_ns);
  status check_usable();
  void watch_node();
  status read_from(int32_t first);
  std::vector<wanted_value> unread_values(int32_t first) const;
  status merge_answer(int32_t rank, const pmix_answer &answer);
  std::string round_key(uint32_t round) const;

  pmix_session &session_ = pmix_session::process_session();
  bool has_joined_ = false;
  uint32_t instance_ = 0;  // of this process: PMIx keeps the keys of earlier instances
  pmix_proc_t self_{};
  std::string job_;
  std::vector<int32_t> node_ranks_;
  uint32_t rounds_ = 0;                     // exchanges so far
  std::vector<seams::value_table> values_;  // by rank
  std::vector<uint32_t> rounds_read_;       // by rank
  seams::node_watch watch_;
};

}  // namespace tanada::backends
