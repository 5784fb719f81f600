// products/comex/process_swapper.hpp: swapping of this process's memory, as the engine and its
// callers use it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/comex/heap/allocator.hpp"
#include "products/comex/settings.hpp"
#include "onesided/swap/userfault_pager.hpp"
#include "onesided/swap/memory_window.hpp"
#include "onesided/swap/residency.hpp"
#include "onesided/swap/written_pages.hpp"
#include "products/comex/swap_agent.hpp"
#include "products/comex/swap_shutdown.hpp"

namespace tanada::comex {

// One object in each process of a node, for that process's heap. The lowest process has the swap
// agent. Control memory, stacks, variables and small allocations are never swapped out. Each node
// of a job is independent: its node table knows its processes by their rank on the node.
//
// Thread safety: one thread at a time, the one that has started it. The calls of
// heap::memory_account: any thread.
class process_swapper final : public heap::memory_account {
 public:
  // Bytes of each process's control memory that this needs, aligned to 64 bytes.
  static size_t control_size(size_t heap_size, onesided::pe_index count) noexcept;

  // Collective. Fails, with a message, if the store does. `control` is our address of that control
  // memory, all zeros. `owned` manages the heap of the job. All outlive the object.
  static result<std::unique_ptr<process_swapper>> start(onesided::job &job,
                                                        const swap_settings &config,
                                                        heap::allocator &owned,
                                                        std::byte *control);
  // Called next, before anything else. When it returns, this process runs; other processes of its
  // node may not.
  status begin_running(bool may_be_nonresident);
  ~process_swapper();

  // Collective, after a barrier of all. Swaps in all memory that is still allocated, which stays
  // resident.
  status stop();

  // Replaces stop(), in this order: after the last library call; before MPI_Finalize waits; after
  // MPI_Finalize. Memory is swapped as before. Then processes end one by one, and their allocations
  // live until that. When the lowest process exits, it waits until the others' memory is resident;
  // see swap_shutdown.
  void retire();
  void begin_mpi_finalize();
  status end_mpi_finalize();

  // Around each wait for another process; see onesided::swap::residency. They nest.
  void begin_wait();
  void progress() {
    residency_->prepare_swap_out();
  }
  status end_wait() {
    return residency_->end_wait();
  }

  const char *failure() const noexcept {
    return node_table_->failure();
  }  // null: it has not failed
  status failed() noexcept {
    return node_table_->report_failure();
  }

  // Around a wait that does not call progress() itself: a progress thread does it meanwhile.
  void begin_unattended_wait();
  status end_unattended_wait();

  // Makes this process's memory resident and keeps it so, because others have addresses in it. Ends
  // with as many calls of unpin().
  void pin() noexcept {
    pin_count_++;
    (void)make_resident();  // the next wait reports an error
  }
  void unpin() noexcept {
    pin_count_--;
  }
  onesided::swap::wait_kind current_wait_kind() const noexcept {
    return pin_count_ > 0 ? onesided::swap::wait_kind::pinned
                          : onesided::swap::wait_kind::swappable;
  }

  // For calls that programs repeat without waiting: yields this process's slot and memory if the
  // scheduler has requested it. Cheap.
  status yield_if_requested() {
    return node_table_->is_yield_requested(residency_->rank()) ? yield_slot() : status::ok;
  }

  // Before using all of this process's memory. Also before using any of it while this process has a
  // lock or a pin that others wait for; see onesided::swap::residency.
  status make_resident() {
    return residency_->make_resident();
  }

  bool is_own_thread() const noexcept {
    return std::this_thread::get_id() == thread_;
  }
  bool is_running() const noexcept {
    return residency_->is_running();
  }
  bool is_swapped_out() const noexcept {
    return onesided::swap::is_swapped_out(node_table_->state(residency_->rank()));
  }

  onesided::swap::residency &residency() noexcept {
    TND_ASSERT(residency_ != nullptr);
    return *residency_;
  }
  // The node-table rank of a process of this node.
  uint32_t rank_of(onesided::pe_index pe) const noexcept {
    TND_ASSERT(size_t(pe) < ranks_.size() && ranks_[size_t(pe)] < stored_.size());
    return ranks_[size_t(pe)];
  }
  onesided::swap::node_table &node_table() noexcept {
    TND_ASSERT(node_table_ != nullptr);
    return *node_table_;
  }
  std::span<onesided::swap::page_bits> stored() noexcept {
    return stored_;
  }  // by rank
  std::span<onesided::swap::page_bits> left_out() noexcept {
    return left_out_;
  }  // the same
  // This process's heap through a mapping without fault tracking, for accesses made through the
  // node table, as a local process makes them. Failures come with a message.
  result<std::byte *> open_window();

  // Operations on other nodes that use addresses of this process's memory. They are checked or
  // completed before memory is swapped out.
  void set_remote_operations(std::function<bool()> is_over, std::function<status()> finish) {
    is_remote_idle_ = std::move(is_over);
    finish_remote_ = std::move(finish);
  }
  bool is_swappable(const void *addr, size_t size) const noexcept {
    return size > 0 && (allocator_.has(addr) ||
                        allocator_.has(static_cast<const std::byte *>(addr) + size - 1));
  }

  // The folder of the store, for bytes that MPI uses while this process's memory may be swapped
  // out. Empty: the store is not a folder.
  const std::string &folder() const noexcept {
    return folder_;
  }

  // heap::memory_account
  bool reserve_memory(size_t size) override;
  void return_memory(size_t size) noexcept override;
  void before_discard(size_t offset, size_t size) noexcept override;
  void pages_discarded(size_t offset, size_t size) noexcept override;
  void before_release() noexcept override;

 private:
  process_swapper(onesided::job &job, heap::allocator &owned) : job_{job}, allocator_{owned} {}

  status open_node_table(const swap_settings &config, std::byte *position);
  status create_node_table(const swap_settings &config,
                           const onesided::swap::node_table_options &options,
                           std::span<std::byte> memory,
                           std::byte *position);
  status fail_node_table();
  onesided::swap::memory_hooks memory_hooks(onesided::swap::page_bits &stored);
  void leave_out_pages(onesided::swap::memory_hooks &hooks);
  void open_shutdown(std::byte *word);
  [[noreturn]] void end_job();
  bool is_complete() const {
    return residency_->is_complete() && (!is_remote_idle_ || is_remote_idle_());
  }
  status complete();
  bool may_wait() const noexcept {
    return is_own_thread() && is_running();
  }
  status yield_slot();
  bool charge(int64_t more);
  void run_progress_thread();
  void stop_progress_thread();
  void wait_for_others_at_exit();

  onesided::job &job_;
  heap::allocator &allocator_;
  std::thread::id const thread_ = std::this_thread::get_id();
  std::vector<uint32_t> ranks_;  // node-table ranks, by process of the job
  std::vector<onesided::swap::page_bits> stored_, cold_, left_out_;  // by rank
  std::unique_ptr<onesided::swap::memory_window> window_;
  std::function<bool()> is_remote_idle_;
  std::function<status()> finish_remote_;
  std::unique_ptr<onesided::swap::node_table> node_table_;
  std::unique_ptr<swap_shutdown> shutdown_;
  std::unique_ptr<swap_agent> agent_;  // null: another process has the agent
  std::unique_ptr<onesided::swap::written_pages> written_;
  std::unique_ptr<onesided::swap::residency> residency_;
  std::unique_ptr<onesided::swap::userfault_pager>
      faults_;  // null: the system does not report page faults
  std::string folder_;
  bool is_retired_ = false;
  bool is_in_mpi_finalize_ = false;  // since begin_mpi_finalize()
  uint64_t base_used_size_ = 0;      // bytes of shared memory outside of the heap
  std::atomic<uint32_t> pin_count_{0};
  std::atomic<int64_t> uncharged_{0};  // bytes allocated by other threads and not charged yet

  mutex attendant_mutex_;
  condition_variable attendant_wake_;
  bool is_wait_unattended_ TND_GUARDED_BY(attendant_mutex_) = false;
  bool is_stopping_ TND_GUARDED_BY(attendant_mutex_) = false;
  uint32_t unattended_depth_ = 0;  // nesting depth of unattended waits
  std::thread progress_thread_;
};

}  // namespace tanada::comex
