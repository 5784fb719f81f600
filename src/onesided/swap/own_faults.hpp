// onesided/swap/own_faults.hpp: touches of a process's own memory while it is away, said by the
// system.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "onesided/swap/residence.hpp"
#include "onesided/swap/written_pages.hpp"
#include "seams/os/poller.hpp"

namespace tanada::comex::swap {

// userfaultfd: who touches a page that is in no page table waits in the system, threads of the
// program and calls of the system on their behalf alike, and a thread of this class asks for it. It
// needs privilege, or vm.unprivileged_userfaultfd, or leave to open /dev/userfaultfd; without that
// the system's own touches would fail, and processes come back whole at the end of each wait.
//
// Thread safety: as absent_pages are called by residence. The thread lets all signals to others,
// and touches no memory that may leave.
class own_faults final : public absent_pages {
 public:
  // `written` outlives it, and its touches() are there. touched: residence::touched; what it cannot
  // do ends the process by `failed`.
  own_faults(written_pages &written, std::span<std::byte> memory, page_bits stored,
             std::function<status(uint32_t)> touched, std::function<void()> failed);
  ~own_faults() override;

  bool watch() override;
  status give(uint32_t page) override;
  void take(uint32_t page) override;
  void arm() override;
  void give_all() override;

 private:
  void wake(page_run pages);
  void unwatch();
  void run();

  written_pages &written_;
  int const faults_;
  std::span<std::byte> const memory_;
  page_bits stored_;
  std::function<status(uint32_t)> const touched_;
  std::function<void()> const failed_;
  bool is_watching_ = false;
  std::atomic<bool> is_over_{false};
  port::poller events_;
  port::waker bell_;  // at the end
  std::thread thread_;
};

}  // namespace tanada::comex::swap
