// products/comex/mpi/mpi_wait_scope.hpp: waits for other processes in MPI calls that programs make
// besides comex.
#pragma once

#include <mpi.h>

#include <functional>

#include "products/comex/mpi/process.hpp"
#include "products/comex/process_swapper.hpp"

namespace tanada::comex {

// Null: memory is never swapped out, and waits need no handling.
inline process_swapper *current_swapper() noexcept {
  process *const self = current_process != nullptr ? current_process : retired_process;
  return self == nullptr || !self->engine ? nullptr : self->engine->swapper();
}

// The process that current_swapper() belongs to, if there is one.
inline process &process_of_swapper() noexcept {
  TND_ASSERT(current_process != nullptr || retired_process != nullptr);
  return *(current_process != nullptr ? current_process : retired_process);
}

// Keeps this process's memory resident while it lives, if `stays` is set.
class pin_scope {
 public:
  explicit pin_scope(bool stays) noexcept : swapper_{stays ? current_swapper() : nullptr} {
    if (swapper_ != nullptr)
      swapper_->pin();
  }
  ~pin_scope() {
    if (swapper_ != nullptr)
      swapper_->unpin();
  }
  pin_scope(const pin_scope &) = delete;
  pin_scope &operator=(const pin_scope &) = delete;

 private:
  process_swapper *const swapper_;
};

// Scope of a call that may wait for other processes without calling progress itself. The
// constructor throws if no progress thread can be started.
class mpi_wait_scope {
 public:
  explicit mpi_wait_scope(bool stays);
  ~mpi_wait_scope();
  mpi_wait_scope(const mpi_wait_scope &) = delete;
  mpi_wait_scope &operator=(const mpi_wait_scope &) = delete;

 private:
  pin_scope const held_;
  process_swapper *swapper_ = nullptr;  // null: no wait was begun
};

// Ends the job on an exception: none may reach C or Fortran.
template <class Body>
auto guard_exceptions(const char *call, Body &&body) noexcept {
  try {
    return body();
  } catch (const std::exception &thrown) {
    fatal(call, "{}", thrown.what());
  }
}

// Checks of a call's arguments: whether all memory must stay resident for it. That is so if MPI
// accesses swappable memory, or calls the program, while others run. Only with swapping.
bool look_memory(const void *argument) noexcept;
bool look_derived(MPI_Datatype argument) noexcept;  // it may describe any memory
bool look_user_op(MPI_Op argument) noexcept;        // the program's function may access any memory
// The program has registered functions that MPI calls when communicators are copied or freed. They
// may access any memory.
bool has_attribute_functions() noexcept;
bool is_root(int root, MPI_Comm comm) noexcept;

// Swapping is on, and this is the thread whose waits the node table knows.
bool is_swapping_thread() noexcept;

// All processes of the communicator use comex, and so replace its collectives in the same way.
bool is_comex_communicator(MPI_Comm comm);

// Polls MPI with is_over() until it returns true, while others run. Only if is_swapping_thread().
void wait_until(const std::function<bool()> &is_over, bool stays) noexcept;

// Replaces a blocking MPI call by its nonblocking form and a wait, so that others run meanwhile.
// Returns MPI's code.
int start_and_wait(const std::function<int(MPI_Request *)> &start,
                   MPI_Status *about,
                   bool stays) noexcept;

// Waits until all processes of the communicator have arrived, if all of them use comex. The call
// that follows then spins no longer than its work takes.
void wait_for_members(MPI_Comm comm);

// For calls that programs repeat until others have done something: yields the slot and memory of
// this process if they are requested.
void yield_swapper(process_swapper &swapper) noexcept;
inline void yield_if_requested() noexcept {
  if (process_swapper *const swapper = current_swapper(); swapper != nullptr) [[unlikely]]
    yield_swapper(*swapper);
}

// Whether the program's MPI calls reach this library first. False, with a message: its libraries
// are linked in another order.
bool intercepts_calls() noexcept;

// With swapping: from now on MPI_Finalize, in which all processes wait for each other, is
// intercepted.
void watch_end_of_mpi();

}  // namespace tanada::comex
