// products/comex/mpi/lent.hpp: memory of this process that MPI has for longer than a call: while it
// has any, all of it stays.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "products/comex/mpi/staged.hpp"

namespace tanada::comex {

// Whom it is lent to.
enum class borrower : uint8_t {
  request,   // until it is over, or freed
  origin,    // of one-sided calls by a window, place: the target's rank; until the call that
             // completes them
  window,    // place: the address exposed; until it is detached, or the window freed
  file,      // between the two halves of a collective
  messages,  // MPI_Buffer_attach
};

struct loan {
  borrower whom;
  uint64_t handle;
  int64_t place = 0;

  bool operator==(const loan &) const = default;
};

// The same for a handle of any MPI's.
template <class Handle>
uint64_t bits_of(Handle handle) noexcept {
  static_assert(sizeof handle <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &handle, sizeof handle);
  return bits;
}
inline int64_t place_of(const void *addr) noexcept {
  return int64_t(reinterpret_cast<uintptr_t>(addr));
}

// All but has_loans() with swapping alone, or after it, when they do nothing. Throws std::bad_alloc
// where memory is lent.
//
// Thread safety: any thread.
void lend(const loan &given);
void lend_once(const loan &given);           // whatever number of calls: it comes back by one
void give_back(const loan &given) noexcept;  // nothing, if there is none
void give_back_all(borrower whom, uint64_t handle) noexcept;
void give_up(
    const loan &given) noexcept;  // nobody will ever say that it is over: memory stays for good
bool has_loans() noexcept;        // cheap

void memory_lent(const loan &given, const void *memory);  // if it can leave
void window_gone(uint64_t handle) noexcept;

// The request that a call has started, which is given such. The program's memory of a staged
// message need not stay.
void request_started(MPI_Request request, bool stays, staged_pointer staged = nullptr);
// Copies a staged message that was received to the program's memory, which must be resident.
void request_ended(MPI_Request request) noexcept;
// The same for a request that is complete but still exists.
void request_over(MPI_Request request) noexcept;

// Requests as they are before a call: those that are null afterwards are over. CONVERT makes an
// MPI_Request of what the array has.
template <class Word, class Convert>
class watched_requests {
 public:
  watched_requests(int64_t count, const Word *requests, Convert convert)
      : now_{requests}, convert_{convert} {
    if (!has_loans() || count <= 0)
      return;
    before_.reserve(size_t(count));
    for (int64_t i = 0; i < count; i++)
      before_.push_back(convert(requests[i]));
  }
  ~watched_requests() {
    for (size_t i = 0; i < before_.size(); i++) {
      if (convert_(now_[i]) == MPI_REQUEST_NULL)
        request_ended(before_[i]);
    }
  }
  watched_requests(const watched_requests &) = delete;
  watched_requests &operator=(const watched_requests &) = delete;

 private:
  const Word *now_;
  Convert convert_;
  std::vector<MPI_Request> before_;
};

// Before MPI_Request_free. True: the request is staged and under way. The caller must not call MPI;
// look_after_freed() frees the request when it is complete.
bool request_freed(MPI_Request request) noexcept;
// At calls after which a program may know that a request that it has freed is complete.
void look_after_freed() noexcept;

}  // namespace tanada::comex
