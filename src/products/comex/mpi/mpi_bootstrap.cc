// products/comex/mpi/mpi_bootstrap.cc: exchanges and barriers through nonblocking MPI collectives.
#include "products/comex/mpi/mpi_bootstrap.hpp"

#include <algorithm>
#include <cinttypes>
#include <numeric>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/comex/mpi/backoff_wait.hpp"
#include "seams/bootstrap/card.hpp"

namespace tanada::comex {
namespace {

status mpi_status(const char *operation, int code) {
  if (code == MPI_SUCCESS)
    return status::ok;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, text, &size);
  return fail(status::io, "{}: {}", operation, text);
}

}  // namespace

result<std::unique_ptr<mpi_bootstrap>> mpi_bootstrap::open(MPI_Comm communicator) {
  std::unique_ptr<mpi_bootstrap> created{new mpi_bootstrap{communicator}};
  TND_TRY(created->read_job());
  TND_TRY(seams::process_card_publish(*created));
  return created;
}

status mpi_bootstrap::read_job() {
  int rank = 0, count = 0;
  TND_TRY(mpi_status("MPI_Comm_rank", MPI_Comm_rank(communicator_, &rank)));
  TND_TRY(mpi_status("MPI_Comm_size", MPI_Comm_size(communicator_, &count)));
  rank_ = rank;
  values_.resize(size_t(count));
  std::array<char, 64> word{};
  if (rank == 0) {
    std::string const digits = seams::random_digits();
    std::copy_n(digits.begin(), std::min(digits.size(), word.size() - 1), word.begin());
  }
  TND_TRY(mpi_status("MPI_Bcast",
                     MPI_Bcast(word.data(), int(word.size()), MPI_CHAR, 0, communicator_)));
  job_ = std::string{"mpi."} + word.data();
  MPI_Comm node = MPI_COMM_NULL;
  TND_TRY(mpi_status(
      "MPI_Comm_split_type",
      MPI_Comm_split_type(communicator_, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node)));
  int node_size = 0;
  MPI_Comm_size(node, &node_size);
  node_ranks_.resize(size_t(node_size));
  int const gathered =
      MPI_Allgather(&rank_, 1, MPI_INT32_T, node_ranks_.data(), 1, MPI_INT32_T, node);
  MPI_Comm_free(&node);
  std::sort(node_ranks_.begin(), node_ranks_.end());
  return mpi_status("MPI_Allgather", gathered);
}

status mpi_bootstrap::check_usable(const char *operation) {
  return has_failed_
             ? fail(
                   status::bad_state, "{}: an earlier collective of this job has failed", operation)
             : status::ok;
}

status mpi_bootstrap::wait(const char *operation,
                           int started,
                           MPI_Request &request,
                           uint64_t deadline_ns) {
  status code = mpi_status(operation, started);
  if (code == status::ok) {
    int mpi_code = MPI_SUCCESS;
    code = wait_with_backoff(request, MPI_STATUS_IGNORE, mpi_code, nullptr, deadline_ns);
    if (code == status::ok)
      code = mpi_status(operation, mpi_code);
    else
      code = fail(code, "{}: not all of the {} processes arrived in time", operation, count());
  }
  has_failed_ = code != status::ok;
  return code;
}

status mpi_bootstrap::publish(std::string_view key, std::span<const std::byte> value) {
  return values_[size_t(rank_)].publish(key, value);
}

// Buffers that MPI accesses until the collectives of an exchange are complete.
struct mpi_bootstrap::exchange_memory {
  std::vector<std::byte> contribution, gathered;
  uint64_t size = 0;                // bytes of `contribution`
  std::vector<uint64_t> all_sizes;  // by rank
  std::vector<int> sizes, offsets;  // in MPI's type, by rank
};

status mpi_bootstrap::gather(exchange_memory &memory, uint64_t deadline_ns) {
  auto &[contribution, gathered, size, all_sizes, sizes, offsets] = memory;
  TND_ASSERT(size == contribution.size() && all_sizes.size() == values_.size());
  MPI_Request request = MPI_REQUEST_NULL;
  int started = MPI_Iallgather(
      &size, 1, MPI_UINT64_T, all_sizes.data(), 1, MPI_UINT64_T, communicator_, &request);
  TND_TRY(wait("exchange", started, request, deadline_ns));
  uint64_t const total = std::accumulate(all_sizes.begin(), all_sizes.end(), uint64_t{0});
  if (total > INT32_MAX)
    return fail(status::too_big, "exchange: {} bytes of all processes exceed MPI's limit", total);
  sizes.assign(all_sizes.begin(), all_sizes.end());
  offsets.resize(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  gathered.resize(std::max<size_t>(total, 1));
  started = MPI_Iallgatherv(contribution.data(),
                            int(size),
                            MPI_BYTE,
                            gathered.data(),
                            sizes.data(),
                            offsets.data(),
                            MPI_BYTE,
                            communicator_,
                            &request);
  return wait("exchange", started, request, deadline_ns);
}

status mpi_bootstrap::exchange(uint64_t timeout_ns) {
  TND_TRY(check_usable("exchange"));
  TND_ASSERT(rank_ >= 0 && rank_ < count());
  uint64_t const deadline_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns);
  auto memory = std::make_unique<exchange_memory>();
  memory->contribution = values_[size_t(rank_)].take_published();
  memory->size = memory->contribution.size();
  memory->all_sizes.resize(values_.size());
  status code = gather(*memory, deadline_ns);
  for (size_t i = 0; code == status::ok && i < values_.size(); i++) {
    if (int32_t(i) == rank_)
      continue;
    code = values_[i].merge(
        std::span{memory->gathered}.subspan(size_t(memory->offsets[i]), size_t(memory->sizes[i])));
  }
  if (code == status::ok)
    return code;
  has_failed_ = true;
  // A collective cannot be canceled, so MPI may access this memory for the rest of its life. No
  // other collective follows, so at most one buffer is leaked.
  (void)memory.release();
  return code;
}

result<std::vector<std::byte>> mpi_bootstrap::lookup(int32_t rank, std::string_view key) {
  if (rank < 0 || rank >= count())
    return fail(status::invalid, "there is no rank {} in a job of {}", rank, count());
  return values_[size_t(rank)].find(key);
}

status mpi_bootstrap::barrier(uint64_t timeout_ns) {
  TND_TRY(check_usable("barrier"));
  uint64_t const deadline_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns);
  MPI_Request request = MPI_REQUEST_NULL;
  int const started = MPI_Ibarrier(communicator_, &request);
  return wait("barrier", started, request, deadline_ns);
}

void mpi_bootstrap::abort(int32_t code, const char *message) noexcept {
  log(log_level::error, "process {} ends the job with code {}: {}", rank_, code, message);
  MPI_Abort(communicator_, code);
}

}  // namespace tanada::comex
