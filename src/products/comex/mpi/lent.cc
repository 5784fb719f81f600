#include "products/comex/mpi/lent.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "products/comex/mpi/outside.hpp"

namespace tanada::comex {
namespace {

struct hash_of_loan {
  size_t operator()(const loan &given) const noexcept {
    constexpr uint64_t odd = 0x9e3779b97f4a7c15;
    return size_t(((given.handle * odd) ^ uint64_t(given.place)) * odd + uint64_t(given.whom));
  }
};

struct ledger {
  std::mutex mutex;
  std::atomic<size_t> count{0};                          // of `all` and `staged`
  std::unordered_map<loan, uint32_t, hash_of_loan> all;  // guarded by mutex; how many times
  std::unordered_map<uint64_t, staged_pointer> staged;   // likewise, by request; null: it is over
  std::vector<MPI_Request> freed;                        // likewise; each is in `staged`
  std::atomic<size_t> freed_count{0};                    // of `freed`

  void recount() noexcept {
    count = all.size() + staged.size();
    freed_count = freed.size();
  }
  void erase(std::unordered_map<loan, uint32_t, hash_of_loan>::iterator at) noexcept {
    all.erase(at);
    recount();
  }
};

ledger &book() {
  static auto &made = *new ledger;  // programs may end requests while they exit
  return made;
}

void let_go() noexcept {
  if (swapping *const away = current_swapping(); away != nullptr)
    away->let_go();
}

void enter(const loan &given, bool is_once) {
  swapping *const away = current_swapping();
  if (away == nullptr)
    return;
  auto &known = book();
  std::lock_guard const lock{known.mutex};
  auto const [at, is_new] = known.all.try_emplace(given, 0);
  if (!is_new && is_once)
    return;
  at->second++;
  known.recount();
  if (is_new)
    away->hold();
}

}  // namespace

void lend(const loan &given) {
  enter(given, false);
}
void lend_once(const loan &given) {
  enter(given, true);
}

void give_back(const loan &given) noexcept {
  auto &known = book();
  if (known.count == 0)
    return;
  std::lock_guard const lock{known.mutex};
  auto const at = known.all.find(given);
  if (at == known.all.end() || --at->second > 0)
    return;
  known.erase(at);
  let_go();
}

void give_back_all(borrower whom, uint64_t handle) noexcept {
  auto &known = book();
  if (known.count == 0)
    return;
  std::lock_guard const lock{known.mutex};
  for (auto at = known.all.begin(); at != known.all.end();) {
    auto const next = std::next(at);
    if (at->first.whom == whom && at->first.handle == handle) {
      known.erase(at);
      let_go();
    }
    at = next;
  }
}

void give_up(const loan &given) noexcept {
  auto &known = book();
  std::lock_guard const lock{known.mutex};
  if (auto const at = known.all.find(given); at != known.all.end())
    known.erase(at);
}

bool has_loans() noexcept {
  return book().count != 0;
}

void memory_lent(const loan &given, const void *memory) {
  if (current_swapping() != nullptr && look_memory(memory))
    lend_once(given);
}

void window_gone(uint64_t handle) noexcept {
  give_back_all(borrower::origin, handle);
  give_back_all(borrower::window, handle);
}

void request_started(MPI_Request request, bool stays, staged_pointer staged) {
  if (request == MPI_REQUEST_NULL)
    return;
  if (staged) {
    auto &known = book();
    std::lock_guard const lock{known.mutex};
    known.staged[bits_of(request)] = std::move(staged);
    known.recount();
  }
  if (stays)
    lend({borrower::request, bits_of(request)});
}

void request_over(MPI_Request request) noexcept {
  auto &known = book();
  if (known.count == 0 || request == MPI_REQUEST_NULL)
    return;
  staged_pointer over;
  {
    std::lock_guard const lock{known.mutex};
    if (auto const at = known.staged.find(bits_of(request)); at != known.staged.end())
      over = std::move(at->second);
  }
  if (over)
    over->finish();
}

void request_ended(MPI_Request request) noexcept {
  auto &known = book();
  if (known.count == 0 || request == MPI_REQUEST_NULL)
    return;
  request_over(request);
  {
    std::lock_guard const lock{known.mutex};
    known.staged.erase(bits_of(request));
    known.recount();
  }
  give_back({borrower::request, bits_of(request)});
}

namespace {

bool is_over(MPI_Request request) noexcept {
  int is = 0;
  return PMPI_Request_get_status(request, &is, MPI_STATUS_IGNORE) == MPI_SUCCESS && is != 0;
}

// False: it is not staged.
bool keep_staged(MPI_Request request) noexcept {
  auto &known = book();
  std::lock_guard const lock{known.mutex};
  if (!known.staged.contains(bits_of(request)))
    return false;
  known.freed.push_back(request);
  known.recount();
  return true;
}

}  // namespace

// One that is under way goes on, and its handle may be another's soon.
bool request_freed(MPI_Request request) noexcept {
  if (!has_loans() || request == MPI_REQUEST_NULL)
    return false;
  if (is_over(request)) {
    request_ended(request);
    return false;
  }
  if (keep_staged(request))
    return true;
  give_up({borrower::request, bits_of(request)});
  return false;
}

void look_after_freed() noexcept {
  auto &known = book();
  if (known.freed_count == 0)
    return;
  std::vector<MPI_Request> over;
  {
    std::lock_guard const lock{known.mutex};
    std::erase_if(known.freed, [&](MPI_Request each) {
      bool const is = is_over(each);
      if (is)
        over.push_back(each);
      return is;
    });
    known.recount();
  }
  for (MPI_Request &each : over) {
    request_ended(each);
    PMPI_Request_free(&each);
  }
}

}  // namespace tanada::comex
