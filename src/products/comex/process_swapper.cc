// process_swapper.cc: connects a process's heap and waits to the node's swapping.
#include "products/comex/process_swapper.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "onesided/swap/memory_meter.hpp"
#include "products/comex/deferred_error.hpp"
#include "products/comex/swap_agent.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::comex {
namespace {

using onesided::pe_index;

constexpr size_t line_size = 64;  // bytes: alignment of data that processes share
constexpr uint64_t slice_ns = 1'000'000;
static_assert(sizeof(std::atomic<shutdown_phase>) <= line_size);

std::atomic<process_swapper *> exiting_swapper{nullptr};  // the process whose exit ends the agent

constexpr size_t line_aligned(size_t size) noexcept {
  return (size + line_size - 1) / line_size * line_size;
}

// Size of the page copies that others read, for so much memory: enough for what the disk reads
// while some processes compute.
uint64_t copies_size_for(uint64_t memory_size) noexcept {
  constexpr uint64_t smallest_size = onesided::swap::node_table::copy_size,
                     largest = uint64_t{64} << 20;
  return std::clamp<uint64_t>(
      memory_size / 16 / smallest_size * smallest_size, smallest_size, largest);
}
// The layout is equal in all processes, though the nodes' budgets may differ. A budget of more than
// all heaps is never used up.
uint64_t copies_size_max(size_t heap_size, pe_index count) noexcept {
  return copies_size_for(uint64_t{heap_size} * uint64_t(count));
}

uint32_t page_count_of(size_t heap_size) noexcept {
  return uint32_t(heap_size / onesided::swap::page_size);
}
constexpr size_t page_maps = 3;  // stored, cold and left out pages
size_t bits_size(size_t heap_size) noexcept {
  return line_aligned(onesided::swap::page_bits::memory_size(page_count_of(heap_size)));
}

constexpr uint64_t kernel_size = onesided::swap::memory_meter::kernel_size;

uint64_t reserved_at_start(const swap_settings &config,
                           const onesided::swap::node_table_options &options) noexcept {
  if (config.reserve != swap_settings::measured)
    return config.reserve;
  uint64_t const buffers =
      options.copies_size +
      onesided::swap::page_mover::buffer_size(onesided::swap::mover_options_for(config.budget));
  return config.private_size + config.shared_size + options.rank_count * kernel_size + buffers +
         options.cache_size;
}

onesided::swap::node_table_options table_options(const swap_settings &config,
                                                 uint32_t rank_count,
                                                 uint64_t copies_size) {
  onesided::swap::node_table_options options{.rank_count = rank_count, .budget = config.budget};
  options.slots = config.slots;
  options.copies_size = copies_size;
  options.cache_size = std::max<uint64_t>(config.budget / 16,
                                          std::min<uint64_t>(config.budget / 2, uint64_t{8} << 20));
  options.reserved = reserved_at_start(config, options);
  return options;
}

status check_budget(const swap_settings &config,
                    const onesided::swap::node_table_options &options) {
  constexpr uint64_t smallest = 1 << 20;
  if (config.reserve != swap_settings::measured || options.reserved + smallest <= options.budget)
    return status::ok;
  return set_error(status::invalid,
                   "TND_COMEX_MEMORY={} is too small for the {} ranks of a node: {} bytes cannot "
                   "be swapped out (MPI, the program's variables and small allocations), and the "
                   "cache and transfer buffers take {}; set it to at least {} plus the arrays of "
                   "one rank, or start fewer ranks on each node",
                   options.budget,
                   options.rank_count,
                   config.private_size + config.shared_size + options.rank_count * kernel_size,
                   options.reserved - config.private_size - config.shared_size -
                       options.rank_count * kernel_size,
                   options.reserved);
}

void warn_of_missing_faults() {
  log(log_level::warning,
      "swapping: this user may not use userfaultfd(2) for page faults of the kernel, so each "
      "rank is swapped in completely at the end of each wait: set "
      "vm.unprivileged_userfaultfd=1 (sysctl), let the user open /dev/userfaultfd, or grant "
      "CAP_SYS_PTRACE; TND_COMEX_WHOLE=1 silences this line");
}

}  // namespace

// The control memory has the bits of this process's pages, its shutdown phase and, in the lowest
// process only, the node table.
size_t process_swapper::control_size(size_t heap_size, pe_index count) noexcept {
  return page_maps * bits_size(heap_size) + line_size +
         line_aligned(onesided::swap::node_table::memory_size(
             uint32_t(count), true, copies_size_max(heap_size, count)));
}

result<std::unique_ptr<process_swapper>> process_swapper::start(onesided::job &job,
                                                                const swap_settings &config,
                                                                heap::allocator &owned,
                                                                std::byte *control) {
  std::unique_ptr<process_swapper> created{new process_swapper{job, owned}};
  created->folder_ = config.folder();
  size_t const heap_size = job.heap().size();
  created->ranks_.resize(size_t(job.count()), ~uint32_t{0});
  for (pe_index const pe : job.node_pes()) {
    created->ranks_[size_t(pe)] = uint32_t(created->stored_.size());
    // memory that is swapped out by pages is swapped in by pages
    (void)madvise(job.map().segment_at(0).mapped[size_t(pe)], heap_size, MADV_NOHUGEPAGE);
    auto *position = control;
    for (auto *const map : {&created->stored_, &created->cold_, &created->left_out_}) {
      auto *const words = job.map().locate(position, bits_size(heap_size), pe).mapped;
      map->emplace_back(reinterpret_cast<onesided::swap::page_bits::word *>(words),
                        page_count_of(heap_size));
      position += bits_size(heap_size);
    }
  }
  created->base_used_size_ = onesided::swap::used_size_of(job.heap_file(job.me()).descriptor);
  TND_TRY(created->open_node_table(config, control + page_maps * bits_size(heap_size) + line_size));
  return created;
}

// The lowest process creates the table before any other uses it, and starts the agent.
status process_swapper::open_node_table(const swap_settings &config, std::byte *position) {
  auto const rank_count = uint32_t(job_.node_pes().size());
  TND_ASSERT(rank_count > 0 && stored_.size() == rank_count);
  uint64_t const copies_size =
      std::min(copies_size_for(config.budget), copies_size_max(job_.heap().size(), job_.count()));
  size_t const size =
      line_aligned(onesided::swap::node_table::memory_size(rank_count, true, copies_size));
  pe_index const lowest = job_.node_pes().front();
  std::span<std::byte> const memory{job_.map().locate(position, size, lowest).mapped, size};
  status code = status::ok;
  if (job_.me() == lowest) {
    auto options = table_options(config, rank_count, copies_size);
    options.has_remote_origins = !job_.is_one_node();
    code = create_node_table(config, options, memory, position);
  }
  TND_TRY(job_.launcher().barrier(TND_NO_DEADLINE));
  TND_TRY(code);
  if (job_.me() != lowest) {
    node_table_ = std::make_unique<onesided::swap::node_table>(memory);
    open_shutdown(position - line_size);
  }
  return status::ok;
}

status process_swapper::create_node_table(const swap_settings &config,
                                          const onesided::swap::node_table_options &options,
                                          std::span<std::byte> memory,
                                          std::byte *position) {
  TND_TRY(onesided::swap::node_table::create(memory, options));
  node_table_ = std::make_unique<onesided::swap::node_table>(memory);
  onesided::swap::populate(node_table_->copies());
  base_used_size_ = onesided::swap::used_size_of(job_.heap_file(job_.me()).descriptor);
  for (uint32_t rank = 0; rank < options.rank_count; rank++) {
    node_table_->set_job_rank(rank, job_.node_pes()[rank]);
  }
  open_shutdown(position - line_size);
  if (check_budget(config, options) != status::ok)
    return fail_node_table();
  auto agent = swap_agent::start(
      job_, config, *node_table_, {stored_, cold_, left_out_}, [this] { shutdown_->poll(); });
  if (!agent.ok())
    return fail_node_table();
  agent_ = std::move(agent).value();
  return status::ok;
}

// Reports the last message to all processes of the node.
status process_swapper::fail_node_table() {
  node_table_->fail(last_message().c_str());
  return node_table_->report_failure();
}

void process_swapper::open_shutdown(std::byte *word) {
  std::vector<std::atomic<shutdown_phase> *> words;
  for (pe_index const pe : job_.node_pes()) {
    words.push_back(reinterpret_cast<std::atomic<shutdown_phase> *>(
        job_.map().locate(word, line_size, pe).mapped));
  }
  auto const drop = [this](uint32_t rank) {
    auto const file = job_.heap_file(job_.node_pes()[rank]);
    uint32_t const page_count = page_count_of(job_.heap().size());
    (void)onesided::swap::memory_file{file.descriptor, file.offset, page_count}.drop(
        {0, page_count});
  };
  TND_ASSERT(node_table_ != nullptr && words.size() == stored_.size());
  shutdown_ =
      std::make_unique<swap_shutdown>(*node_table_, rank_of(job_.me()), std::move(words), drop);
}

onesided::swap::memory_hooks process_swapper::memory_hooks(onesided::swap::page_bits &stored) {
  uint32_t const page_count = page_count_of(job_.heap().size());
  TND_ASSERT(stored.page_count() == page_count);
  return {.collect = [this, &stored, page_count] { written_->collect(stored, page_count); },
          .arm = [this, &stored, page_count] { written_->arm(stored, page_count); },
          .resident_size =
              [this] {
                uint64_t const used =
                    onesided::swap::used_size_of(job_.heap_file(job_.me()).descriptor);
                return used - std::min(used, base_used_size_);
              }};
}

void process_swapper::leave_out_pages(onesided::swap::memory_hooks &hooks) {
  uint32_t const rank = rank_of(job_.me());
  written_->set_left_out(left_out_[rank]);
  hooks.cold = cold_[rank];
  hooks.find_cold = [this, rank] {
    written_->find_cold(cold_[rank], stored_[rank], stored_[rank].page_count());
  };
}

status process_swapper::begin_running(bool may_be_nonresident) {
  TND_ASSERT(residency_ == nullptr && is_own_thread());
  written_ = onesided::swap::written_pages::create(job_.heap());
  if (!written_->is_exact() && agent_) {
    log(log_level::warning,
        "swapping: all resident pages are treated as written: {}",
        written_->reason());
  }
  auto &stored = stored_[rank_of(job_.me())];
  auto own_pages = memory_hooks(stored);
  bool const sees_touches = written_->fault_descriptor() >= 0;
  if (agent_)
    agent_->set_demand_paging(may_be_nonresident && sees_touches);
  if (may_be_nonresident && !sees_touches && agent_)
    warn_of_missing_faults();
  if (may_be_nonresident && sees_touches) {
    auto const end = [this] {
      end_job();
    };
    faults_ = std::make_unique<onesided::swap::userfault_pager>(
        *written_,
        job_.heap(),
        stored,
        [this](uint32_t page) { return residency_->handle_fault(page); },
        end,
        left_out_[rank_of(job_.me())]);
    own_pages.pager = faults_.get();
    leave_out_pages(own_pages);
  }
  residency_ = std::make_unique<onesided::swap::residency>(
      *node_table_, rank_of(job_.me()), stored_, std::move(own_pages), left_out_);
  TND_TRY(residency_->start(getpid()));
  allocator_.set_account(this);
  return status::ok;
}

result<std::byte *> process_swapper::open_window() {
  auto const file = job_.heap_file(job_.me());
  auto window = onesided::swap::memory_window::open(
      {file.descriptor, file.offset, page_count_of(job_.heap().size())});
  if (!window.ok())
    return window.error();
  window_ = std::move(window).value();
  return window_->address({});
}

process_swapper::~process_swapper() {
  allocator_.set_account(nullptr);
  stop_progress_thread();
  faults_.reset();
  process_swapper *expected = this;
  exiting_swapper.compare_exchange_strong(expected, nullptr);
}

void process_swapper::stop_progress_thread() {
  {
    lock_guard const lock{attendant_mutex_};
    is_stopping_ = true;
  }
  attendant_wake_.notify_all();
  if (progress_thread_.joinable())
    progress_thread_.join();
}

status process_swapper::stop() {
  allocator_.set_account(nullptr);
  stop_progress_thread();
  process_swapper *expected = this;
  exiting_swapper.compare_exchange_strong(expected, nullptr);
  residency_->finish();
  if (!agent_)
    return status::ok;
  auto const has_departed = [&](uint32_t rank) {
    return node_table_->state(rank) == onesided::swap::rank_state::inactive;
  };
  for (uint32_t rank = 0; rank < node_table_->rank_count(); rank++) {
    while (!has_departed(rank)) {
      if (node_table_->failure() != nullptr)
        return node_table_->report_failure();
      job_.progress();
      node_table_->time().sleep_ns(slice_ns);
    }
  }
  return agent_->stop();
}

void process_swapper::retire() {
  if (std::exchange(is_retired_, true))
    return;
  TND_ASSERT(residency_ != nullptr && shutdown_ != nullptr);
  residency_->disable_nonresident();
  shutdown_->set_phase(shutdown_phase::finalized);
  shutdown_->watch();
  if (!agent_)
    return;
  if (agent_->report() != status::ok)
    log(log_level::warning, "{}", last_message());
  static pid_t registered_pid = 0;  // a forked child exits, too, and must not end the agent
  if (registered_pid == 0) {
    std::atexit([] {
      if (process_swapper *const self =
              registered_pid == getpid() ? exiting_swapper.exchange(nullptr) : nullptr;
          self != nullptr)
        self->wait_for_others_at_exit();
    });
  }
  registered_pid = getpid();
  exiting_swapper = this;
}

void process_swapper::begin_mpi_finalize() {
  if (is_in_mpi_finalize_ || !is_own_thread() || !is_running())
    return;
  is_in_mpi_finalize_ = true;
  begin_unattended_wait();
}

// MPI uses no memory of this process any more.
status process_swapper::end_mpi_finalize() {
  pin_count_ = 0;
  if (std::exchange(is_in_mpi_finalize_, false))
    TND_TRY(end_unattended_wait());
  shutdown_->set_phase(shutdown_phase::exiting);
  return status::ok;
}

// Called when the process with the agent exits. Its own memory can be swapped out while it waits.
void process_swapper::wait_for_others_at_exit() {
  if (!agent_ || node_table_->failure() != nullptr)
    return;
  bool const is_waiting = is_own_thread() && is_running() && shutdown_->begin_linger();
  if (is_waiting)
    residency_->begin_wait(onesided::swap::wait_kind::swappable);
  shutdown_->wait_for_others([&] {
    if (is_waiting)
      progress();
  });
  if (is_waiting && end_wait() != status::ok) {
    log(log_level::error, "{}", last_message());
    _exit(1);
  }
  if (agent_->stop() != status::ok)
    log(log_level::warning, "{}", last_message());
}

// Operations in flight use addresses of this process's memory, and hold pages of others. They are
// completed first, because nothing may hold pages during a wait.
void process_swapper::begin_wait() {
  if (residency_->is_running() && !is_complete() && complete() != status::ok)
    node_table_->fail(last_message().c_str());
  residency_->begin_wait(current_wait_kind());
}

status process_swapper::complete() {
  if (finish_remote_)
    TND_TRY(finish_remote_());
  return residency_->complete();
}

// If memory is pinned or operations are in flight, only the slot is yielded.
status process_swapper::yield_slot() {
  if (!is_running())
    return status::ok;
  if (pin_count_ == 0 && is_complete())
    return residency_->yield_if_requested();
  begin_wait();
  return end_wait();
}

void process_swapper::begin_unattended_wait() {
  begin_wait();
  if (unattended_depth_++ > 0)
    return;
  if (!progress_thread_.joinable()) {
    seams::signals_blocked const
        blocked;  // signal handlers are the program's, and touch its memory
    progress_thread_ = std::thread{[this] {
      run_progress_thread();
    }};
  }
  {
    lock_guard const lock{attendant_mutex_};
    is_wait_unattended_ = true;
  }
  attendant_wake_.notify_all();
}

status process_swapper::end_unattended_wait() {
  TND_ASSERT(unattended_depth_ > 0);
  if (--unattended_depth_ == 0) {
    lock_guard const lock{attendant_mutex_};
    is_wait_unattended_ = false;
  }
  return end_wait();
}

void process_swapper::run_progress_thread() {
  unique_lock lock{attendant_mutex_};
  for (;;) {
    attendant_wake_.wait(lock, [&] {
      attendant_mutex_.assert_held();
      return is_wait_unattended_ || is_stopping_;
    });
    if (is_stopping_)
      return;
    progress();
    attendant_wake_.wait_for(lock, std::chrono::nanoseconds{slice_ns});
  }
}

// Other threads cannot wait for free memory. What they allocate is charged later.
bool process_swapper::reserve_memory(size_t size) {
  if (may_wait())
    return charge(int64_t(size));
  uncharged_ += int64_t(size);
  return true;
}

void process_swapper::return_memory(size_t size) noexcept {
  if (!may_wait()) {
    uncharged_ -= int64_t(size);
    return;
  }
  // Bytes of other threads are charged when more is allocated, not here.
  int64_t const uncharged = uncharged_.load(),
                charged_now = std::clamp<int64_t>(uncharged, 0, int64_t(size));
  uncharged_ -= charged_now;
  residency_->release(size - uint64_t(charged_now));
}

// The program cannot handle this failure.
void process_swapper::end_job() {
  job_.launcher().abort(1, last_message().c_str());
  _exit(1);
}

bool process_swapper::charge(int64_t more) {
  int64_t const uncharged = uncharged_.exchange(0);
  more += uncharged;
  if (more < 0)
    residency_->release(uint64_t(-more));
  if (more <= 0)
    return true;
  status code = complete();
  if (code == status::ok)
    code = residency_->reserve(uint64_t(more), current_wait_kind());
  if (code == status::peer_lost)
    end_job();
  if (code != status::ok)
    uncharged_ += uncharged;
  return code == status::ok;
}

// Pages of a resident process stay as they are while they are released, so the agent's page state
// remains valid.
void process_swapper::before_release() noexcept {
  (void)make_resident();
}

void process_swapper::before_discard(size_t offset, size_t size) noexcept {
  (void)residency_->read_left_out(
      onesided::swap::pages_of(offset, size));  // the next wait reports an error
}

void process_swapper::pages_discarded(size_t offset, size_t size) noexcept {
  stored_[rank_of(job_.me())].clear(onesided::swap::pages_of(offset, size));
}

}  // namespace tanada::comex
