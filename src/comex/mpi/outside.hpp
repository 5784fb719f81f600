// comex/mpi/outside.hpp: where this process waits for others in MPI, and what MPI has of its memory meanwhile.
#pragma once

#include <mpi.h>

#include <functional>
#include <initializer_list>

#include "comex/mpi/process.hpp"
#include "comex/swapping.hpp"

namespace tanada::comex {

// Null: memory stays where it is, and nothing is to be done about waits.
inline swapping *current_swapping() noexcept {
  process *const self = current_process != nullptr ? current_process : retired_process;
  return self == nullptr || !self->engine ? nullptr : self->engine->away();
}

// Its engine: where there is one.
inline engine &engine_of_swapping() noexcept { return *(current_process != nullptr ? current_process : retired_process)->engine; }

// Around a call that may wait for other processes, and looks after nothing itself. `buffers`: what the call is given of the program's
// memory; while one of them may leave, all of it stays.
class outside_wait {
 public:
  explicit outside_wait(std::initializer_list<const void *> buffers = {}) noexcept {
    if (swapping *const away = current_swapping(); away != nullptr) [[unlikely]] begin(*away, buffers);
  }
  ~outside_wait() {
    if (away_ != nullptr) [[unlikely]] end();
  }
  // Waits until all of the communicator have come to the call: a collective spins no longer than its work takes then.
  const outside_wait &assemble(MPI_Comm communicator) const noexcept {
    if (away_ != nullptr) [[unlikely]] gather(communicator);
    return *this;
  }
  outside_wait(const outside_wait &) = delete;
  outside_wait &operator=(const outside_wait &) = delete;

 private:
  void begin(swapping &away, std::initializer_list<const void *> buffers) noexcept;
  void end() noexcept;
  void gather(MPI_Comm communicator) const noexcept;

  swapping *away_ = nullptr;
  bool is_holding_ = false, has_left_ = false;
};

void make_way_for(swapping &away) noexcept;

// What a call of MPI's does that blocks, by one that starts it and returns: others run meanwhile. Or by is_over(), which looks. Returns what
// MPI says.
int start_and_wait(const std::function<int(MPI_Request *)> &start, MPI_Status *about, std::initializer_list<const void *> buffers) noexcept;
void look_until(const std::function<bool()> &is_over, std::initializer_list<const void *> buffers) noexcept;
// This thread's waits are those that the board knows, and memory leaves.
bool is_paced() noexcept;

// Requests that MPI has not finished, with memory that may leave: while there is one, this process's memory stays.
//
// Thread safety: any thread.
void request_started(MPI_Request request, std::initializer_list<const void *> buffers) noexcept;
void request_ended(MPI_Request request) noexcept;
bool has_requests() noexcept;  // cheap

// At calls that programs repeat until others have done something: who needs what this process has gets it for a while.
inline void make_way() noexcept {
  if (swapping *const away = current_swapping(); away != nullptr) [[unlikely]] make_way_for(*away);
}

// Calls of MPI that the program makes come by this library first. False, with a message: the order of its libraries is another.
bool sees_calls() noexcept;

// Of a process whose memory leaves: from now on the end of MPI, in which all wait for all, is seen.
void watch_end_of_mpi();

// Memory that may leave has been given to MPI for longer than a request.
void memory_given(const void *memory) noexcept;

}  // namespace tanada::comex
