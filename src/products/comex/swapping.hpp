// products/comex/swapping.hpp: memory that leaves DRAM while its process waits, as the engine and
// its callers see it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "products/comex/heap/pieces.hpp"
#include "products/comex/settings.hpp"
#include "onesided/swap/own_faults.hpp"
#include "onesided/swap/memory_window.hpp"
#include "onesided/swap/residence.hpp"
#include "onesided/swap/written_pages.hpp"
#include "products/comex/swap_agent.hpp"
#include "products/comex/swap_end.hpp"

namespace tanada::comex {

// The processes of one node, each with its heap; the lowest of them has the agent. Control memory,
// stacks, variables and small allocations never leave. Each node of a job is by itself: its board
// knows its processes by their places among them.
//
// Thread safety: one thread at a time, the one that has started it; what heap::keeper has, any
// thread.
class swapping final : public heap::keeper {
 public:
  // Bytes of each process's control memory that this needs, aligned to 64 bytes there.
  static size_t control_size(size_t heap_size, pgas::pe_index count) noexcept;

  // Collective. Whatever went wrong with the store, with a message. `control`: our address of the
  // memory of that size, zeros; `owned`: the heap of the job. All outlive it.
  static result<std::unique_ptr<swapping>> start(pgas::job &job, const swap_settings &chosen,
                                                 heap::pieces &owned, std::byte *control);
  // Afterwards, before anything else: this process is running when it returns; others of its node
  // may not be.
  status begin(bool may_be_bare);
  ~swapping();

  // Collective, all have come here: nothing is away any more, what is still allocated of the heap
  // is all there, and stays.
  status stop();

  // Instead, in this order: the library's calls are over; MPI is about to end, and waits in that;
  // it has ended. Memory leaves and comes back as before. Then processes end one by one, each with
  // its memory; what was allocated stays until that. The lowest process waits, when it exits, for
  // the memory of the others, which is no longer away then: see swap_end.
  void retire();
  void mpi_ends();
  status mpi_has_ended();

  // Around each wait for another process; see swap::residence. They nest.
  void leave();
  void attend() {
    residence_->attend();
  }
  status enter() {
    return residence_->enter();
  }

  const char *failure() const noexcept {
    return board_->failure();
  }  // null: none
  status failed() noexcept {
    return board_->failed();
  }

  // The same around something that looks after nothing itself: a thread attends for it.
  void leave_alone();
  status enter_again();

  // Others than this process have addresses in its memory, which then stays, until as many calls of
  // let_go().
  void hold() noexcept {
    held_++;
    (void)be_whole();  // what goes wrong the next wait says
  }
  void let_go() noexcept {
    held_--;
  }
  swap::wait_kind kind() const noexcept {
    return held_ > 0 ? swap::wait_kind::held : swap::wait_kind::others;
  }

  // At calls that programs repeat without waiting: others get this process's slot, and its room, if
  // they need them. Cheap.
  status offer() {
    return board_->is_asked(residence_->rank()) ? make_way() : status::ok;
  }

  // Before something is done with all of this process's memory, or with any of it while others wait
  // for a lock or a pin that this process has; see residence.
  status be_whole() {
    return residence_->be_whole();
  }

  bool is_own_thread() const noexcept {
    return std::this_thread::get_id() == thread_;
  }
  bool is_in() const noexcept {
    return residence_->is_in();
  }
  bool is_away() const noexcept {
    return swap::is_away(board_->state(residence_->rank()));
  }

  swap::residence &residence() noexcept {
    return *residence_;
  }
  // Of a process of this node, on its board.
  uint32_t rank_of(pgas::pe_index pe) const noexcept {
    return ranks_[size_t(pe)];
  }
  swap::board &shared() noexcept {
    return *board_;
  }
  std::span<swap::page_bits> stored() noexcept {
    return stored_;
  }  // by rank
  // This process's heap where touches are not watched: for who asks the board, as a neighbour does.
  // With a message.
  result<std::byte *> open_window();

  // What is under way to other nodes, which has addresses of this process's memory: nothing, or
  // brought to its end, before memory leaves.
  void beside_set(std::function<bool()> is_over, std::function<status()> finish) {
    is_beside_over_ = std::move(is_over);
    finish_beside_ = std::move(finish);
  }
  bool is_swappable(const void *addr, size_t size) const noexcept {
    return size > 0 &&
           (pieces_.has(addr) || pieces_.has(static_cast<const std::byte *>(addr) + size - 1));
  }

  // Of the store, where it is a folder: for bytes that MPI has while this process's memory may
  // leave. Empty: there is none.
  const std::string &folder() const noexcept {
    return folder_;
  }

  // heap::keeper
  bool make_room(size_t size) override;
  void room_back(size_t size) noexcept override;
  void forget(size_t offset, size_t size) noexcept override;
  void before_release() noexcept override;

 private:
  swapping(pgas::job &job, heap::pieces &owned) : job_{job}, pieces_{owned} {}

  status open_board(const swap_settings &chosen, std::byte *at);
  void open_end(std::byte *word);
  [[noreturn]] void end_job();
  bool is_complete() const {
    return residence_->is_complete() && (!is_beside_over_ || is_beside_over_());
  }
  status complete();
  bool is_here() const noexcept {
    return is_own_thread() && is_in();
  }
  status make_way();
  bool settle(int64_t more);
  void attend_alone();
  void end_attendant();
  void linger();

  pgas::job &job_;
  heap::pieces &pieces_;
  std::thread::id const thread_ = std::this_thread::get_id();
  std::vector<uint32_t> ranks_;          // by process of the job
  std::vector<swap::page_bits> stored_;  // by rank
  std::unique_ptr<swap::memory_window> window_;
  std::function<bool()> is_beside_over_;
  std::function<status()> finish_beside_;
  std::unique_ptr<swap::board> board_;
  std::unique_ptr<swap_end> end_;
  std::unique_ptr<swap_agent> agent_;  // null: another process has it
  std::unique_ptr<swap::written_pages> written_;
  std::unique_ptr<swap::residence> residence_;
  std::unique_ptr<swap::own_faults> faults_;  // null: the system does not let them be seen
  std::string folder_;
  bool is_retired_ = false;
  bool has_left_mpi_ = false;  // in it since mpi_ends()
  uint64_t used_before_ = 0;   // bytes of shared memory that are not the heap's
  std::atomic<uint32_t> held_{0};
  std::atomic<int64_t> unsaid_{0};  // bytes that other threads have allocated

  std::mutex attending_;
  std::condition_variable attended_;
  bool is_attended_ = false, is_over_ = false;  // guarded by attending_
  uint32_t alone_ = 0;                          // calls of leave_alone() without enter_again()
  std::thread attendant_;
};

}  // namespace tanada::comex
