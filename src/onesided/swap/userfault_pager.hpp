// onesided/swap/userfault_pager.hpp: page faults of a swapped-out process, reported by userfaultfd.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "onesided/swap/residency.hpp"
#include "onesided/swap/written_pages.hpp"
#include "seams/os/poller.hpp"

namespace tanada::onesided::swap {

// Grants pages on demand through userfaultfd. A thread that touches a page without a page table
// entry waits in the kernel. This includes system calls that access the memory for the program. A
// thread of this class receives the fault and requests the page.
//
// It needs privilege, or vm.unprivileged_userfaultfd, or permission to open /dev/userfaultfd.
// Without that, system calls on the memory would fail, so processes are made resident at the end of
// each wait.
//
// Thread safety: residency calls it as any `demand_pager`. The thread blocks all signals, and
// accesses no memory that may be swapped out.
class userfault_pager final : public demand_pager {
 public:
  // `written` outlives the pager, and its fault_descriptor() is valid. `handle_fault`:
  // `residency::handle_fault`. If it fails, `on_failure` ends the process.
  userfault_pager(written_pages &written,
                  std::span<std::byte> memory,
                  page_bits stored,
                  std::function<status(uint32_t)> handle_fault,
                  std::function<void()> on_failure,
                  page_bits left_out = {});
  ~userfault_pager() override;

  bool watch() override;
  status grant(uint32_t page) override;
  void revoke(uint32_t page) override;
  void arm() override;
  void grant_all() override;
  bool can_leave_out() override;
  void resume(page_run pages) override;

 private:
  void wake(page_run pages);
  void unwatch();
  bool start();
  void watch_left_out();
  void run();

  written_pages &written_;
  int const faults_;
  std::span<std::byte> const memory_;
  page_bits stored_, left_out_;
  std::vector<page_run> watched_left_out_;
  std::function<status(uint32_t)> const handle_fault_;
  std::function<void()> const on_failure_;
  bool is_watching_ = false;
  std::atomic<bool> is_stopping_{false};
  seams::poller events_;
  seams::waker stop_waker_;  // for the destructor
  std::thread thread_;
};

}  // namespace tanada::onesided::swap
