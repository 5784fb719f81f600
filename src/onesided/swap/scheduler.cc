// Decisions on a node's ranks: which run, which are admitted, and which are swapped out to free
// DRAM.
#include "onesided/swap/scheduler.hpp"

#include <algorithm>
#include <bitset>

#include "core/base/assert.hpp"

namespace tanada::onesided::swap {
namespace {

using enum rank_state;

// The charge of a resident rank. It includes memory that its own process has not touched, because
// others may touch it.
uint64_t size_of(const rank_view &rank, uint64_t budget) noexcept {
  return std::max(rank.resident_size + rank.swapped_size, std::min(rank.allocated, budget));
}

// The charge with the reservation that it waits for.
uint64_t full_size_of(const rank_view &rank, uint64_t budget) noexcept {
  return std::max(rank.resident_size + rank.swapped_size,
                  std::min(rank.allocated + rank.reserve, budget));
}

bool is_resident_waiter(const rank_view &rank) noexcept {
  return rank.state == wait || rank.state == swap_out_wait;
}

// Its wait is over.
bool is_candidate(const rank_view &rank) noexcept {
  return rank.state == swap_in_wait || (rank.wants_to_run && is_resident_waiter(rank));
}

bool may_swap_out(const rank_view &rank) noexcept {
  return rank.kind == wait_kind::swappable && !rank.is_pinned &&
         rank.resident_size + rank.allocated > 0 && is_resident_waiter(rank);
}

class planner {
 public:
  explicit planner(const node_view &node) noexcept : node_{node} {
    TND_ASSERT(node.ranks.size() <= node_view::rank_count_max);
    used_ = node.cached_size;
    for (auto const &rank : node.ranks)
      count_rank(rank);
  }

  decision plan() noexcept {
    run();
    admit_ranks();
    free_memory();
    if (head_ != no_rank)
      resolve_stall();
    request_yields();
    return decision_;
  }

 private:
  static constexpr uint32_t no_rank = ~0u;
  static_assert(node_view::rank_count_max <= UINT16_MAX, "`order_` holds indices of ranks");

  uint64_t elapsed_ns(const rank_view &rank) const noexcept {
    return node_.now_ns - std::min(node_.now_ns, rank.since_ns);
  }

  // Its memory has been in DRAM for a whole slice. The length of its last wait does not matter.
  // Ranks that poll, or fetch one task after another, wait for microseconds at a time and would
  // otherwise keep their memory indefinitely.
  bool is_overdue(const rank_view &rank) const noexcept {
    return node_.now_ns - std::min(node_.now_ns, rank.admitted_ns) >= node_.residency_slice_ns;
  }

  // Its wait is over, but it continues only if no other rank lacks DRAM.
  bool should_yield(const rank_view &rank) const noexcept {
    return rank.wants_to_run && may_swap_out(rank) && is_overdue(rank);
  }

  void count_rank(const rank_view &rank) noexcept {
    used_ += charge_of(rank, node_.budget);
    running_ += rank.state == running;
    in_slots_ += rank.state == running && elapsed_ns(rank) < node_.unresponsive_ns;
    ready_ += rank.state == ready;
    moving_in_ += rank.state == swap_in;
    waiting_for_pages_ +=
        rank.state == wait && rank.kind == wait_kind::for_pages && !rank.wants_to_run;
    pinned_ += rank.is_pinned && is_resident_waiter(rank);
    if (rank.state == swap_out) {
      moving_out_++;
      moving_out_size_ += charge_of(rank, node_.budget);
    } else if (rank.state == swap_out_wait && (!rank.wants_to_run || should_yield(rank))) {
      chosen_++;
      chosen_size_ += charge_of(rank, node_.budget);
    }
  }

  // Ranks for which `is_wanted`, in the order of the start of their waits. Those for which
  // `comes_first` precede the others.
  template <class Wanted, class First>
  std::span<const uint16_t> sorted_ranks(Wanted &&is_wanted, First &&comes_first) noexcept {
    size_t count = 0;
    for (size_t i = 0; i < node_.ranks.size(); i++) {
      if (is_wanted(node_.ranks[i]))
        order_[count++] = uint16_t(i);
    }
    std::sort(order_.begin(), order_.begin() + count, [&](uint16_t a, uint16_t b) {
      auto const &rank_a = node_.ranks[a], &rank_b = node_.ranks[b];
      if (bool const first = comes_first(rank_a), second = comes_first(rank_b); first != second)
        return first;
      return rank_a.since_ns != rank_b.since_ns ? rank_a.since_ns < rank_b.since_ns : a < b;
    });
    return {order_.data(), count};
  }
  template <class Wanted>
  std::span<const uint16_t> sorted_ranks(Wanted &&is_wanted) noexcept {
    return sorted_ranks(is_wanted, [](const rank_view &) { return false; });
  }

  uint64_t extra_charge(const rank_view &rank) const noexcept {
    return full_size_of(rank, node_.budget) - charge_of(rank, node_.budget);
  }

  void run() noexcept {
    if (ready_ == 0)
      return;
    for (auto const i : sorted_ranks([](const rank_view &r) { return r.state == ready; })) {
      if (in_slots_ >= node_.slots) {
        lacks_slot_ = true;
        return;
      }
      decision_.run.add(i);
      running_++;
      in_slots_++;
    }
  }

  // Ranks are admitted in order of arrival, except those that need no more DRAM. Reserve DRAM for
  // the next rank to be admitted. Ranks that were admitted long ago come last, and free_memory()
  // decides on them while any rank lacks DRAM.
  void admit_ranks() noexcept {
    auto const needs_nothing = [&](const rank_view &r) {
      return r.state != swap_in_wait && extra_charge(r) == 0;
    };
    for (auto const i :
         sorted_ranks([&](const rank_view &r) { return is_candidate(r) && !should_yield(r); },
                      needs_nothing))
      try_admit(i);
    for (auto const i :
         sorted_ranks([&](const rank_view &r) { return should_yield(r); }, needs_nothing)) {
      if (head_ == no_rank || extra_charge(node_.ranks[i]) > 0)
        try_admit(i);
    }
  }

  void try_admit(uint16_t i) noexcept {
    auto const &rank = node_.ranks[i];
    uint64_t const extra = extra_charge(rank);
    if (extra > 0 && (head_ != no_rank || used_ + extra > node_.budget)) {
      if (head_ == no_rank)
        head_ = i;
      wanted_size_ += extra;
      return;
    }
    used_ += extra;
    if (rank.state != swap_in_wait) {
      if (rank.state == swap_out_wait && should_yield(rank))
        uncount_chosen(rank);
      mark_admitted(i);
    } else if (moving_in_ < node_.moves_max) {
      decision_.move_in.add(i);
      moving_in_++;
    }
  }

  void mark_admitted(uint16_t i) noexcept {
    TND_ASSERT(!is_admitted_[i]);
    decision_.admit.add(i);
    is_admitted_.set(i);
  }

  // The rank was counted as chosen for swapping out.
  void uncount_chosen(const rank_view &rank) noexcept {
    TND_ASSERT(rank.state == swap_out_wait && chosen_ != 0);
    chosen_--;
    chosen_size_ -= charge_of(rank, node_.budget);
  }

  // Swapping out overlaps with the computation of others. It frees what the next admissions need,
  // but chooses no more ranks than can move soon.
  void free_memory() noexcept {
    if (head_ == no_rank)
      return;
    uint64_t const wanted =
        used_ + wanted_size_ > node_.budget ? used_ + wanted_size_ - node_.budget : 0;
    decision_.cache_surplus = std::min(node_.cached_size, wanted);
    freed_size_ = moving_out_size_ + chosen_size_;
    choose_victims(wanted);
    begin_moves(wanted);
    lacks_memory_ = freed_size_ < wanted;
    resume_yielding(wanted);
  }

  // No rank runs or is about to.
  bool is_quiet() const noexcept {
    return running_ + ready_ + moving_in_ + moving_out_ == 0;
  }

  // Its wait is long enough for its memory to be swapped out.
  bool is_victim(const rank_view &rank) const noexcept {
    if (rank.state != wait || rank.wants_to_run || !may_swap_out(rank))
      return false;
    return is_quiet() || is_overdue(rank) ||
           node_.now_ns - rank.since_ns >= node_.swap_out_delay_ns;
  }

  void choose_victims(uint64_t wanted) noexcept {
    for (auto const i : sorted_ranks([this](const rank_view &r) { return is_victim(r); })) {
      choose(i, wanted);
    }
    auto const yielding =
        sorted_ranks([this](const rank_view &r) { return r.state == wait && should_yield(r); });
    for (auto i = yielding.rbegin(); i != yielding.rend(); ++i) {
      choose(*i, wanted);
    }
  }

  void choose(uint16_t i, uint64_t wanted) noexcept {
    if (i == head_ || is_admitted_[i] || freed_size_ >= wanted ||
        chosen_ + moving_out_ > node_.moves_max)
      return;
    decision_.prepare.add(i);
    chosen_++;
    freed_size_ += charge_of(node_.ranks[i], node_.budget);
  }

  void begin_moves(uint64_t wanted) noexcept {
    auto const may_move = [&](const rank_view &r) {
      return r.state == swap_out_wait && (!r.wants_to_run || should_yield(r)) && r.is_prepared &&
             may_swap_out(r);
    };
    for (auto const i :
         sorted_ranks(may_move, [](const rank_view &r) { return !r.wants_to_run; })) {
      if (moving_out_size_ >= wanted || moving_out_ >= node_.moves_max)
        break;
      if (is_admitted_[i])
        continue;
      decision_.move_out.add(i);
      moving_out_++;
      moving_out_size_ += charge_of(node_.ranks[i], node_.budget);
      chosen_size_ -= charge_of(node_.ranks[i], node_.budget);
    }
  }

  // Ranks that would yield continue meanwhile, if their DRAM is not needed any more or cannot be
  // moved yet.
  void resume_yielding(uint64_t wanted) noexcept {
    auto const may_continue = [&](const rank_view &r) {
      return should_yield(r) && extra_charge(r) == 0;
    };
    for (auto const i : sorted_ranks(may_continue)) {
      auto const &rank = node_.ranks[i];
      auto const is_among = [&](const decision::list &ranks) {
        return std::find(ranks.begin(), ranks.end(), i) != ranks.end();
      };
      if (is_admitted_[i] || is_among(decision_.prepare) || is_among(decision_.move_out))
        continue;
      if (rank.state == swap_out_wait) {
        if (moving_out_size_ + chosen_size_ - charge_of(rank, node_.budget) < wanted)
          continue;
        uncount_chosen(rank);
      }
      mark_admitted(i);
    }
  }

  // Pins, and pages in the cache, last as long as others use them. These users may wait for others
  // in turn, so the wait for them is bounded.
  bool is_stalled() const noexcept {
    TND_ASSERT(head_ != no_rank);
    constexpr uint64_t use_stall_max = 100;  // in units of stall_timeout_ns
    if (running_ + ready_ + moving_in_ + moving_out_ + chosen_ + waiting_for_pages_ +
            decision_.admit.count !=
        0)
      return false;
    if (pinned_ == 0 && decision_.cache_surplus == 0)
      return true;
    return elapsed_ns(node_.ranks[head_]) >= use_stall_max * node_.stall_timeout_ns;
  }

  // The head has waited for long while fewer ranks run than there are slots.
  bool is_waiting_long() const noexcept {
    constexpr uint64_t long_wait = 5;  // in units of stall_timeout_ns
    return elapsed_ns(node_.ranks[head_]) >= long_wait * node_.stall_timeout_ns &&
           running_ + ready_ < node_.slots &&
           chosen_ + moving_out_ + moving_in_ + decision_.admit.count == 0;
  }

  // The last rank to arrive gives its DRAM up. False: there is no such rank.
  bool give_up_last() noexcept {
    uint32_t victim = no_rank;
    for (uint32_t i = 0; i < node_.ranks.size(); i++) {
      auto const &rank = node_.ranks[i];
      if (i == head_ || !rank.wants_to_run || !may_swap_out(rank))
        continue;
      if (rank.state == swap_out_wait) {
        if (rank.is_prepared)
          decision_.move_out.add(i);
        return true;
      }
      if (victim == no_rank || rank.since_ns >= node_.ranks[victim].since_ns)
        victim = i;
    }
    if (victim == no_rank)
      return false;
    decision_.prepare.add(victim);
    return true;
  }

  // All ranks that could make progress wait for DRAM, or the head has waited for long. If no rank
  // can give its DRAM up, and no rank runs, only exceeding the budget helps.
  void resolve_stall() noexcept {
    bool const has_stalled = is_stalled();
    if ((!has_stalled && !is_waiting_long()) || give_up_last())
      return;
    auto const &head = node_.ranks[head_];
    if (!has_stalled || node_.now_ns - head.since_ns < node_.stall_timeout_ns)
      return;
    decision_.is_beyond_budget = true;
    (head.state == swap_in_wait ? decision_.move_in : decision_.admit).add(head_);
  }

  void request_yields() noexcept {
    if (!lacks_slot_ && !lacks_memory_)
      return;
    for (uint32_t i = 0; i < node_.ranks.size(); i++) {
      auto const &rank = node_.ranks[i];
      if (rank.state != running)
        continue;
      if ((lacks_slot_ && elapsed_ns(rank) >= node_.slice_ns) ||
          (lacks_memory_ && is_overdue(rank)))
        decision_.yield.add(i);
    }
  }

  const node_view &node_;
  decision decision_;
  std::bitset<node_view::rank_count_max> is_admitted_;
  std::array<uint16_t, node_view::rank_count_max> order_;
  // Bytes: charged, and needed by ranks that cannot be admitted yet.
  uint64_t used_ = 0, wanted_size_ = 0;
  uint64_t moving_out_size_ = 0, chosen_size_ = 0;  // bytes that are being given up
  uint64_t freed_size_ = 0;  // these bytes, and those of the ranks that are chosen now
  uint32_t running_ = 0, in_slots_ = 0, ready_ = 0, moving_in_ = 0, moving_out_ = 0, chosen_ = 0,
           waiting_for_pages_ = 0, pinned_ = 0;
  uint32_t head_ = no_rank;  // the rank to be admitted next, which cannot be
  bool lacks_slot_ = false;  // a ready rank has no slot
  bool lacks_memory_ =
      false;  // the head lacks DRAM, and what is being swapped out does not suffice
};

}  // namespace

uint64_t charge_of(const rank_view &rank, uint64_t budget) noexcept {
  return rank.state == inactive || is_swapped_out(rank.state) ? 0 : size_of(rank, budget);
}

decision decide(const node_view &node) noexcept {
  return planner{node}.plan();
}

}  // namespace tanada::onesided::swap
