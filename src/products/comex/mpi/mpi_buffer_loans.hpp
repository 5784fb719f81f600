// products/comex/mpi/mpi_buffer_loans.hpp: memory of this process that MPI accesses after the call
// has returned. While there is any such loan, all memory of the process stays resident.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "products/comex/mpi/staged_message.hpp"

namespace tanada::comex {

// The MPI object that uses the memory.
enum class borrower : uint8_t {
  request,  // until it is complete or freed
  // One-sided calls through a window; `location` is the target's rank. Until the call that
  // completes them.
  origin,
  window,    // `location` is the exposed address; until it is detached, or the window freed
  file,      // between the two halves of a split collective
  messages,  // MPI_Buffer_attach
};

struct loan {
  borrower holder;
  uint64_t handle;
  int64_t location = 0;

  bool operator==(const loan &) const = default;
};

// The bits of a handle of any MPI implementation.
template <class Handle>
uint64_t bits_of(Handle handle) noexcept {
  static_assert(sizeof handle <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &handle, sizeof handle);
  return bits;
}
inline int64_t address_bits(const void *addr) noexcept {
  return int64_t(reinterpret_cast<uintptr_t>(addr));
}

// Without swapping, or after it, all but has_loans() are no-ops. The functions that add a loan may
// throw std::bad_alloc.
//
// Thread safety: any thread.
void add_loan(const loan &entry);
void add_loan_once(const loan &entry);      // any number of calls is ended by one
void end_loan(const loan &entry) noexcept;  // a no-op if there is no such loan
void end_loans(borrower holder, uint64_t handle) noexcept;
void abandon_loan(
    const loan &entry) noexcept;  // its end will never be seen: memory stays resident for good
bool has_loans() noexcept;        // cheap

void lend_memory(const loan &entry, const void *memory);  // if the memory is swappable
void end_window_loans(uint64_t handle) noexcept;

// Call it when a call has started `request`. `stays`: the arguments of the call require resident
// memory. The program's memory behind a staged message need not stay resident.
void request_started(MPI_Request request, bool stays, staged_pointer staged = nullptr);
// Copies a received staged message to the program's memory, which must be resident.
void request_ended(MPI_Request request) noexcept;
// The same for a request that is complete but still exists.
void complete_staged(MPI_Request request) noexcept;

// Copies the request handles before a call; those that are null after it have completed. `Convert`
// makes an MPI_Request of an array element.
template <class Word, class Convert>
class watched_requests {
 public:
  watched_requests(int64_t count, const Word *requests, Convert convert)
      : current_{requests}, convert_{convert} {
    if (!has_loans() || count <= 0)
      return;
    before_.reserve(size_t(count));
    for (int64_t i = 0; i < count; i++)
      before_.push_back(convert(requests[i]));
  }
  ~watched_requests() {
    for (size_t i = 0; i < before_.size(); i++) {
      if (convert_(current_[i]) == MPI_REQUEST_NULL)
        request_ended(before_[i]);
    }
  }
  watched_requests(const watched_requests &) = delete;
  watched_requests &operator=(const watched_requests &) = delete;

 private:
  const Word *current_;
  Convert convert_;
  std::vector<MPI_Request> before_;
};

// Before MPI_Request_free. True: the request is staged and in flight. The caller must not call MPI;
// reap_freed_requests() frees the request when it is complete.
bool defer_free(MPI_Request request) noexcept;
// For calls after which a program may know that a request that it has freed is complete.
void reap_freed_requests() noexcept;

}  // namespace tanada::comex
