// products/comex/mpi/mpi_buffer_loans.cc: tracks memory that MPI uses after a call has returned.
#include "products/comex/mpi/mpi_buffer_loans.hpp"

#include <atomic>
#include <unordered_map>
#include <utility>

#include "core/base/mutex.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"

namespace tanada::comex {
namespace {

struct hash_of_loan {
  size_t operator()(const loan &entry) const noexcept {
    constexpr uint64_t odd = 0x9e3779b97f4a7c15;
    return size_t(((entry.handle * odd) ^ uint64_t(entry.location)) * odd + uint64_t(entry.holder));
  }
};

struct loan_table {
  using loan_counts = std::unordered_map<loan, uint32_t, hash_of_loan>;

  mutex table_mutex;
  std::atomic<size_t> count{0};                    // of `counts` and `staged`
  loan_counts counts TND_GUARDED_BY(table_mutex);  // the number of loans
  // By request; null: it is complete.
  std::unordered_map<uint64_t, staged_pointer> staged TND_GUARDED_BY(table_mutex);
  std::vector<MPI_Request> freed TND_GUARDED_BY(table_mutex);  // each is in `staged`
  std::atomic<size_t> freed_count{0};                          // of `freed`

  void recount() noexcept TND_REQUIRES(table_mutex) {
    TND_ASSERT(table_mutex.is_held());
    count = counts.size() + staged.size();
    freed_count = freed.size();
  }
  void erase(loan_counts::iterator it) noexcept TND_REQUIRES(table_mutex) {
    TND_ASSERT(it != counts.end());
    counts.erase(it);
    recount();
  }
};

loan_table &loans() {
  static auto &instance = *new loan_table;  // programs may end requests during exit
  return instance;
}

void unpin() noexcept {
  if (process_swapper *const swapper = current_swapper(); swapper != nullptr)
    swapper->unpin();
}

void record_loan(const loan &entry, bool is_once) {
  process_swapper *const swapper = current_swapper();
  if (swapper == nullptr)
    return;
  auto &table = loans();
  lock_guard const lock{table.table_mutex};
  auto const [loan_entry, is_new] = table.counts.try_emplace(entry, 0);
  if (!is_new && is_once)
    return;
  loan_entry->second++;
  table.recount();
  if (is_new)
    swapper->pin();
}

}  // namespace

void add_loan(const loan &entry) {
  record_loan(entry, false);
}
void add_loan_once(const loan &entry) {
  record_loan(entry, true);
}

void end_loan(const loan &entry) noexcept {
  auto &table = loans();
  if (table.count == 0)
    return;
  lock_guard const lock{table.table_mutex};
  auto const it = table.counts.find(entry);
  if (it == table.counts.end())
    return;
  TND_ASSERT(it->second > 0);
  if (--it->second > 0)
    return;
  table.erase(it);
  unpin();
}

void end_loans(borrower holder, uint64_t handle) noexcept {
  auto &table = loans();
  if (table.count == 0)
    return;
  lock_guard const lock{table.table_mutex};
  for (auto it = table.counts.begin(); it != table.counts.end();) {
    auto const next = std::next(it);
    if (it->first.holder == holder && it->first.handle == handle) {
      table.erase(it);
      unpin();
    }
    it = next;
  }
}

void abandon_loan(const loan &entry) noexcept {
  auto &table = loans();
  lock_guard const lock{table.table_mutex};
  if (auto const it = table.counts.find(entry); it != table.counts.end())
    table.erase(it);
}

bool has_loans() noexcept {
  return loans().count != 0;
}

void lend_memory(const loan &entry, const void *memory) {
  if (current_swapper() != nullptr && look_memory(memory))
    add_loan_once(entry);
}

void end_window_loans(uint64_t handle) noexcept {
  end_loans(borrower::origin, handle);
  end_loans(borrower::window, handle);
}

void request_started(MPI_Request request, bool stays, staged_pointer staged) {
  if (request == MPI_REQUEST_NULL)
    return;
  if (staged) {
    auto &table = loans();
    lock_guard const lock{table.table_mutex};
    table.staged[bits_of(request)] = std::move(staged);
    table.recount();
  }
  if (stays)
    add_loan({borrower::request, bits_of(request)});
}

void complete_staged(MPI_Request request) noexcept {
  auto &table = loans();
  if (table.count == 0 || request == MPI_REQUEST_NULL)
    return;
  staged_pointer over;
  {
    lock_guard const lock{table.table_mutex};
    if (auto const it = table.staged.find(bits_of(request)); it != table.staged.end())
      over = std::move(it->second);
  }
  if (over)
    over->finish();
}

void request_ended(MPI_Request request) noexcept {
  auto &table = loans();
  if (table.count == 0 || request == MPI_REQUEST_NULL)
    return;
  complete_staged(request);
  {
    lock_guard const lock{table.table_mutex};
    table.staged.erase(bits_of(request));
    table.recount();
  }
  end_loan({borrower::request, bits_of(request)});
}

namespace {

bool is_over(MPI_Request request) noexcept {
  int is_complete = 0;
  return PMPI_Request_get_status(request, &is_complete, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
         is_complete != 0;
}

// False: the request is not staged.
bool keep_freed(MPI_Request request) noexcept {
  auto &table = loans();
  lock_guard const lock{table.table_mutex};
  if (!table.staged.contains(bits_of(request)))
    return false;
  table.freed.push_back(request);
  table.recount();
  return true;
}

}  // namespace

// A freed request that is in flight continues, and MPI may soon reuse its handle.
bool defer_free(MPI_Request request) noexcept {
  if (!has_loans() || request == MPI_REQUEST_NULL)
    return false;
  if (is_over(request)) {
    request_ended(request);
    return false;
  }
  if (keep_freed(request))
    return true;
  abandon_loan({borrower::request, bits_of(request)});
  return false;
}

void reap_freed_requests() noexcept {
  auto &table = loans();
  if (table.freed_count == 0)
    return;
  std::vector<MPI_Request> over;
  {
    lock_guard const lock{table.table_mutex};
    std::erase_if(table.freed, [&](MPI_Request request) {
      bool const is_done = is_over(request);
      if (is_done)
        over.push_back(request);
      return is_done;
    });
    table.recount();
  }
  for (MPI_Request &request : over) {
    request_ended(request);
    PMPI_Request_free(&request);
  }
}

}  // namespace tanada::comex
