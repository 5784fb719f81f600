// products/comex/mpi/mpi_bootstrap.hpp: bootstrap of a job that MPI has started, through a
// communicator of all processes.
#pragma once

#include <mpi.h>

#include "seams/bootstrap/bootstrap.hpp"
#include "seams/bootstrap/value_table.hpp"

namespace tanada::comex {

// Only this object uses `communicator`, which outlives it. lost() never returns a process, since
// the MPI launcher ends all processes when one dies. Collectives start nonblocking operations, and
// let others run while they wait. One that has timed out stays in flight inside MPI, and keeps its
// memory. A process that reaches it late does not notice the timeout; it finds nobody in the next
// collective.
class mpi_bootstrap final : public seams::bootstrap {
 public:
  // Collective. Fails, with a message, if MPI does.
  static result<std::unique_ptr<mpi_bootstrap>> open(MPI_Comm communicator);

  const char *name() const noexcept override {
    return "mpi";
  }
  int32_t rank() const noexcept override {
    return rank_;
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
  int32_t find_failed_rank() const noexcept override {
    return -1;
  }

 private:
  explicit mpi_bootstrap(MPI_Comm communicator) : communicator_{communicator} {}
  status read_job();
  struct exchange_memory;
  status check_usable(const char *operation);
  status gather(exchange_memory &memory, uint64_t deadline_ns);
  status wait(const char *operation, int started, MPI_Request &request, uint64_t deadline_ns);

  MPI_Comm communicator_;
  int32_t rank_ = 0;
  std::string job_;
  std::vector<int32_t> node_ranks_;
  std::vector<seams::value_table> values_;  // by rank
  bool has_failed_ = false;
};

}  // namespace tanada::comex
