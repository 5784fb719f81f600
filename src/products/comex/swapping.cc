#include "products/comex/swapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/base/log.hpp"
#include "onesided/swap/memory_meter.hpp"
#include "products/comex/refusal.hpp"
#include "products/comex/swap_agent.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::comex {
namespace {

using pgas::pe_index;

constexpr size_t line = 64;  // bytes, that what processes share is aligned to
constexpr uint64_t slice_ns = 1'000'000;

std::atomic<swapping *> ending{nullptr};  // whose agent the end of this process ends

constexpr size_t lines(size_t size) noexcept {
  return (size + line - 1) / line * line;
}

// For pages that others read, of what may be in memory: enough for what the disk brings while some
// compute.
uint64_t copies_size_for(uint64_t memory_size) noexcept {
  constexpr uint64_t least = swap::board::copy_size, most = uint64_t{64} << 20;
  return std::clamp<uint64_t>(memory_size / 16 / least * least, least, most);
}
// Where they are is as large in all processes; budgets of nodes need not be. A budget of more than
// all heaps is never used up.
uint64_t copies_room_for(size_t heap_size, pe_index count) noexcept {
  return copies_size_for(uint64_t{heap_size} * uint64_t(count));
}

uint32_t page_count_of(size_t heap_size) noexcept {
  return uint32_t(heap_size / swap::page_size);
}
size_t bits_size(size_t heap_size) noexcept {
  return lines(swap::page_bits::memory_size(page_count_of(heap_size)));
}

constexpr uint64_t kernel_size = swap::memory_meter::kernel_size;

uint64_t reserved_at_start(const swap_settings &chosen,
                           const swap::board_options &options) noexcept {
  if (chosen.reserve != swap_settings::measured)
    return chosen.reserve;
  uint64_t const buffers =
      options.copies_size + swap::mover::buffer_size(swap::moving_within(chosen.budget));
  return chosen.private_size + chosen.shared_size + options.rank_count * kernel_size + buffers +
         options.cache_size;
}

status check_budget(const swap_settings &chosen, const swap::board_options &options) {
  constexpr uint64_t smallest = 1 << 20;
  if (chosen.reserve != swap_settings::measured || options.reserved + smallest <= options.budget)
    return status::ok;
  using number = unsigned long long;
  return refuse(status::invalid,
                "TND_COMEX_MEMORY=%llu is too little for the %u ranks of a node: %llu bytes cannot "
                "leave (MPI, the program's variables and small "
                "allocations), and %llu are for the cache and the buffers of moves; set it to "
                "these %llu and the arrays of at least one rank, or "
                "start fewer ranks a node",
                number(options.budget), options.rank_count,
                number(chosen.private_size + chosen.shared_size + options.rank_count * kernel_size),
                number(options.reserved - chosen.private_size - chosen.shared_size -
                       options.rank_count * kernel_size),
                number(options.reserved));
}

}  // namespace

// Bits of this process's pages; how far it is with its end; then, of the lowest process alone, the
// board.
size_t swapping::control_size(size_t heap_size, pe_index count) noexcept {
  return bits_size(heap_size) + line +
         lines(swap::board::memory_size(uint32_t(count), true, copies_room_for(heap_size, count)));
}

result<std::unique_ptr<swapping>> swapping::start(pgas::job &job, const swap_settings &chosen,
                                                  heap::pieces &owned, std::byte *control) {
  std::unique_ptr<swapping> made{new swapping{job, owned}};
  made->folder_ = chosen.folder();
  size_t const heap_size = job.heap().size();
  made->ranks_.resize(size_t(job.count()), ~uint32_t{0});
  for (pe_index const pe : job.node_pes()) {
    made->ranks_[size_t(pe)] = uint32_t(made->stored_.size());
    // What leaves by pages comes by pages.
    (void)madvise(job.map().at(0).mapped[size_t(pe)], heap_size, MADV_NOHUGEPAGE);
    auto *const words = job.map().locate(control, bits_size(heap_size), pe).mapped;
    made->stored_.emplace_back(reinterpret_cast<swap::page_bits::word *>(words),
                               page_count_of(heap_size));
  }
  made->used_before_ = swap::used_size_of(job.heap_file(job.me()).descriptor);
  TND_TRY(made->open_board(chosen, control + bits_size(heap_size) + line));
  return made;
}

// The lowest process makes it; nobody looks at it before. It has the agent, too.
status swapping::open_board(const swap_settings &chosen, std::byte *at) {
  auto const rank_count = uint32_t(job_.node_pes().size());
  uint64_t const copies_size =
      std::min(copies_size_for(chosen.budget), copies_room_for(job_.heap().size(), job_.count()));
  size_t const size = lines(swap::board::memory_size(rank_count, true, copies_size));
  pe_index const lowest = job_.node_pes().front();
  std::span<std::byte> const memory{job_.map().locate(at, size, lowest).mapped, size};
  status code = status::ok;
  if (job_.me() == lowest) {
    swap::board_options options{.rank_count = rank_count, .budget = chosen.budget};
    options.slots = chosen.slots;
    options.has_servers = !job_.is_one_node();
    options.copies_size = copies_size;
    options.cache_size = std::max<uint64_t>(
        chosen.budget / 16, std::min<uint64_t>(chosen.budget / 2, uint64_t{8} << 20));
    options.reserved = reserved_at_start(chosen, options);
    code = swap::board::create(memory, options);
    if (code == status::ok) {
      board_ = std::make_unique<swap::board>(memory);
      swap::populate(board_->copies());
      used_before_ = swap::used_size_of(job_.heap_file(job_.me()).descriptor);
      for (uint32_t rank = 0; rank < rank_count; rank++)
        board_->number_set(rank, job_.node_pes()[rank]);
      open_end(at - line);
      code = check_budget(chosen, options);
      if (code != status::ok) {
        board_->fail(last_message().c_str());
        code = board_->failed();
      }
    }
    if (code == status::ok) {
      auto agent = swap_agent::start(job_, chosen, *board_, stored_, [this] { end_->look(); });
      code = agent.error();
      if (agent.ok())
        agent_ = std::move(agent).value();
      else {
        board_->fail(last_message().c_str());
        code = board_->failed();
      }
    }
  }
  TND_TRY(job_.launcher().barrier(TND_NO_DEADLINE));
  if (code != status::ok)
    return code;
  if (job_.me() != lowest) {
    board_ = std::make_unique<swap::board>(memory);
    open_end(at - line);
  }
  return status::ok;
}

void swapping::open_end(std::byte *word) {
  std::vector<std::atomic<end_phase> *> words;
  for (pe_index const pe : job_.node_pes()) {
    words.push_back(
        reinterpret_cast<std::atomic<end_phase> *>(job_.map().locate(word, line, pe).mapped));
  }
  auto const drop = [this](uint32_t rank) {
    auto const file = job_.heap_file(job_.node_pes()[rank]);
    uint32_t const page_count = page_count_of(job_.heap().size());
    (void)swap::memory_file{file.descriptor, file.offset, page_count}.drop({0, page_count});
  };
  end_ = std::make_unique<swap_end>(*board_, rank_of(job_.me()), std::move(words), drop);
}

status swapping::begin(bool may_be_bare) {
  written_ = swap::written_pages::create(job_.heap());
  if (!written_->is_exact() && agent_) {
    log(log_level::warning, "swapping: all pages in memory count as written: %s",
        written_->reason().c_str());
  }
  uint32_t const page_count = page_count_of(job_.heap().size());
  auto &stored = stored_[rank_of(job_.me())];
  swap::own_memory mine{
      .collect = [this, &stored, page_count] { written_->collect(stored, page_count); },
      .arm = [this, &stored, page_count] { written_->arm(stored, page_count); },
      .here =
          [this] {
            uint64_t const used = swap::used_size_of(job_.heap_file(job_.me()).descriptor);
            return used - std::min(used, used_before_);
          }};
  bool const sees_touches = written_->touches() >= 0;
  if (agent_)
    agent_->by_pages_set(may_be_bare && sees_touches);
  if (may_be_bare && !sees_touches && agent_) {
    log(log_level::warning,
        "swapping: this user may not use userfaultfd(2) for touches by the system, so each rank "
        "comes back whole at the end of each wait: set "
        "vm.unprivileged_userfaultfd=1 (sysctl), let the user open /dev/userfaultfd, or give "
        "CAP_SYS_PTRACE; TND_COMEX_WHOLE=1 silences this line");
  }
  if (may_be_bare && sees_touches) {
    auto const end = [this] {
      end_job();
    };
    faults_ = std::make_unique<swap::own_faults>(
        *written_, job_.heap(), stored, [this](uint32_t page) { return residence_->touched(page); },
        end);
    mine.absent = faults_.get();
  }
  residence_ =
      std::make_unique<swap::residence>(*board_, rank_of(job_.me()), stored_, std::move(mine));
  TND_TRY(residence_->start(getpid()));
  pieces_.keeper_set(this);
  return status::ok;
}

result<std::byte *> swapping::open_window() {
  auto const file = job_.heap_file(job_.me());
  auto window =
      swap::memory_window::open({file.descriptor, file.offset, page_count_of(job_.heap().size())});
  if (!window.ok())
    return window.error();
  window_ = std::move(window).value();
  return window_->at({});
}

swapping::~swapping() {
  pieces_.keeper_set(nullptr);
  end_attendant();
  faults_.reset();
  swapping *mine = this;
  ending.compare_exchange_strong(mine, nullptr);
}

void swapping::end_attendant() {
  {
    std::lock_guard const lock{attending_};
    is_over_ = true;
  }
  attended_.notify_all();
  if (attendant_.joinable())
    attendant_.join();
}

status swapping::stop() {
  pieces_.keeper_set(nullptr);
  end_attendant();
  swapping *mine = this;
  ending.compare_exchange_strong(mine, nullptr);
  residence_->finish();
  if (!agent_)
    return status::ok;
  auto const is_gone = [&](uint32_t rank) {
    return board_->state(rank) == swap::rank_state::gone;
  };
  for (uint32_t rank = 0; rank < board_->rank_count(); rank++) {
    while (!is_gone(rank)) {
      if (board_->failure() != nullptr)
        return board_->failed();
      job_.attend();
      board_->time().sleep_ns(slice_ns);
    }
  }
  return agent_->stop();
}

void swapping::retire() {
  if (std::exchange(is_retired_, true))
    return;
  residence_->never_bare();
  end_->enter(end_phase::over);
  end_->watch();
  if (!agent_)
    return;
  if (agent_->report() != status::ok)
    log(log_level::warning, "%s", last_message().c_str());
  static pid_t of = 0;  // children of a fork exit, too
  if (of == 0) {
    std::atexit([] {
      if (swapping *const self = of == getpid() ? ending.exchange(nullptr) : nullptr;
          self != nullptr)
        self->linger();
    });
  }
  of = getpid();
  ending = this;
}

void swapping::mpi_ends() {
  if (has_left_mpi_ || !is_own_thread() || !is_in())
    return;
  has_left_mpi_ = true;
  leave_alone();
}

// MPI has no memory of this process any more.
status swapping::mpi_has_ended() {
  held_ = 0;
  if (std::exchange(has_left_mpi_, false))
    TND_TRY(enter_again());
  end_->enter(end_phase::ended);
  return status::ok;
}

// The process exits, and has the agent. Its own memory makes way for others' as in any wait.
void swapping::linger() {
  if (!agent_ || board_->failure() != nullptr)
    return;
  bool const has_left = is_own_thread() && is_in() && end_->linger();
  if (has_left)
    residence_->leave(swap::wait_kind::others);
  end_->wait_for_others([&] {
    if (has_left)
      attend();
  });
  if (has_left && enter() != status::ok) {
    log(log_level::error, "%s", last_message().c_str());
    _exit(1);
  }
  if (agent_->stop() != status::ok)
    log(log_level::warning, "%s", last_message().c_str());
}

// What is under way has the addresses of this process's memory, and pages of others', which nobody
// sleeps on.
void swapping::leave() {
  if (residence_->is_in() && !is_complete() && complete() != status::ok)
    board_->fail(last_message().c_str());
  residence_->leave(kind());
}

status swapping::complete() {
  if (finish_beside_)
    TND_TRY(finish_beside_());
  return residence_->complete();
}

// What stays in memory, or is under way, gives a slot alone.
status swapping::make_way() {
  if (!is_in())
    return status::ok;
  if (held_ == 0 && is_complete())
    return residence_->offer();
  leave();
  return enter();
}

void swapping::leave_alone() {
  leave();
  if (alone_++ > 0)
    return;
  if (!attendant_.joinable()) {
    port::signals_blocked const blocked;  // handlers are the program's, and touch its memory
    attendant_ = std::thread{[this] {
      attend_alone();
    }};
  }
  {
    std::lock_guard const lock{attending_};
    is_attended_ = true;
  }
  attended_.notify_all();
}

status swapping::enter_again() {
  if (--alone_ == 0) {
    std::lock_guard const lock{attending_};
    is_attended_ = false;
  }
  return enter();
}

void swapping::attend_alone() {
  std::unique_lock lock{attending_};
  for (;;) {
    attended_.wait(lock, [&] { return is_attended_ || is_over_; });
    if (is_over_)
      return;
    attend();
    attended_.wait_for(lock, std::chrono::nanoseconds{slice_ns});
  }
}

// Threads that are not the process's own cannot wait for room: what they have taken is told to the
// board later.
bool swapping::make_room(size_t size) {
  if (is_here())
    return settle(int64_t(size));
  unsaid_ += int64_t(size);
  return true;
}

void swapping::room_back(size_t size) noexcept {
  if (!is_here()) {
    unsaid_ -= int64_t(size);
    return;
  }
  // What others have taken is waited for when more is allocated, not here.
  int64_t const unsaid = unsaid_.load(), said = std::clamp<int64_t>(unsaid, 0, int64_t(size));
  unsaid_ -= said;
  residence_->release(size - uint64_t(said));
}

// There is no program to tell.
void swapping::end_job() {
  job_.launcher().abort(1, last_message().c_str());
  _exit(1);
}

bool swapping::settle(int64_t more) {
  int64_t const unsaid = unsaid_.exchange(0);
  more += unsaid;
  if (more < 0)
    residence_->release(uint64_t(-more));
  if (more <= 0)
    return true;
  status code = complete();
  if (code == status::ok)
    code = residence_->reserve(uint64_t(more), kind());
  if (code == status::peer_lost)
    end_job();
  if (code != status::ok)
    unsaid_ += unsaid;
  return code == status::ok;
}

// What the mover knows of pages is of those that this process cannot give up meanwhile.
void swapping::before_release() noexcept {
  (void)be_whole();
}

void swapping::forget(size_t offset, size_t size) noexcept {
  stored_[rank_of(job_.me())].clear(swap::pages_of(offset, size));
}

}  // namespace tanada::comex
