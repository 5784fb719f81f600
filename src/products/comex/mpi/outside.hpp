// products/comex/mpi/outside.hpp: where this process waits for others in MPI, as programs call it
// beside ours.
#pragma once

#include <mpi.h>

#include <functional>

#include "products/comex/mpi/process.hpp"
#include "products/comex/swapping.hpp"

namespace tanada::comex {

// Null: memory stays where it is, and nothing is to be done about waits.
inline swapping *current_swapping() noexcept {
  process *const self = current_process != nullptr ? current_process : retired_process;
  return self == nullptr || !self->engine ? nullptr : self->engine->away();
}

// Its process: where there is one.
inline process &process_of_swapping() noexcept {
  return *(current_process != nullptr ? current_process : retired_process);
}

// While it lives this process's memory stays, if it has to.
class holding {
 public:
  explicit holding(bool stays) noexcept : away_{stays ? current_swapping() : nullptr} {
    if (away_ != nullptr)
      away_->hold();
  }
  ~holding() {
    if (away_ != nullptr)
      away_->let_go();
  }
  holding(const holding &) = delete;
  holding &operator=(const holding &) = delete;

 private:
  swapping *const away_;
};

// Around a call that may wait for other processes, and looks after nothing itself. Throws where
// there is no thread to look for it.
class outside_wait {
 public:
  explicit outside_wait(bool stays);
  ~outside_wait();
  outside_wait(const outside_wait &) = delete;
  outside_wait &operator=(const outside_wait &) = delete;

 private:
  holding const held_;
  swapping *away_ = nullptr;  // null: nothing has left
};

// No exception leaves a call of C's or Fortran's.
template <class Body>
auto fenced(const char *call, Body &&body) noexcept {
  try {
    return body();
  } catch (const std::exception &thrown) {
    fatal(call, "%s", thrown.what());
  }
}

// What a call is given, and whether all memory has to stay for it: MPI reads or writes it, or calls
// the program, while others run. With swapping alone.
bool look_memory(const void *given) noexcept;
bool look_derived(MPI_Datatype given) noexcept;  // it may lead to any memory
bool look_user_op(MPI_Op given) noexcept;        // the program's function may look at any memory
// The program has functions that MPI calls where it copies or frees communicators: they may look at
// any memory.
bool has_attribute_functions() noexcept;
bool is_root(int root, MPI_Comm comm) noexcept;

// This thread's waits are those that the board knows, and memory leaves.
bool is_paced() noexcept;

// All processes of the communicator have comex, and take what is collective there in the same way.
bool is_among_us(MPI_Comm comm);

// Others run until is_over(), which looks at MPI. With is_paced() alone.
void look_until(const std::function<bool()> &is_over, bool stays) noexcept;

// What a call of MPI's does that blocks, by one that starts it and returns: others run meanwhile.
// Returns what MPI says.
int start_and_wait(const std::function<int(MPI_Request *)> &start, MPI_Status *about,
                   bool stays) noexcept;

// Waits until all of the communicator have come, if it has such as know of that: what follows spins
// no longer than its work takes.
void assemble(MPI_Comm comm);

// At calls that programs repeat until others have done something: who needs what this process has
// gets it for a while.
void make_way_for(swapping &away) noexcept;
inline void make_way() noexcept {
  if (swapping *const away = current_swapping(); away != nullptr) [[unlikely]]
    make_way_for(*away);
}

// Calls of MPI that the program makes come by this library first. False, with a message: the order
// of its libraries is another.
bool sees_calls() noexcept;

// Of a process whose memory leaves: from now on the end of MPI, in which all wait for all, is seen.
void watch_end_of_mpi();

}  // namespace tanada::comex
