#include "onesided/swap/scheduler.hpp"

#include <algorithm>
#include <bitset>

#include "core/base/assert.hpp"

namespace tanada::comex::swap {
namespace {

using enum rank_state;

// Bytes that the budget is charged where it is in DRAM: others may touch what its own process has
// not.
uint64_t size_of(const rank_view &of, uint64_t budget) noexcept {
  return std::max(of.here + of.away, std::min(of.allocated, budget));
}

// With what it waits for.
uint64_t full_size_of(const rank_view &of, uint64_t budget) noexcept {
  return std::max(of.here + of.away, std::min(of.allocated + of.reserve, budget));
}

bool is_resident_waiter(const rank_view &of) noexcept {
  return of.state == wait || of.state == swap_out_wait;
}

// Its wait is over.
bool is_candidate(const rank_view &of) noexcept {
  return of.state == swap_in_wait || (of.wants && is_resident_waiter(of));
}

bool may_leave(const rank_view &of) noexcept {
  return of.kind == wait_kind::others && !of.is_pinned && of.here + of.allocated > 0 &&
         is_resident_waiter(of);
}

class planner {
 public:
  explicit planner(const node_view &of) noexcept : of_{of} {
    TND_ASSERT(of.ranks.size() <= node_view::rank_count_max);
    used_ = of.cached;
    for (auto const &each : of.ranks)
      count(each);
  }

  decision make() noexcept {
    run();
    let_in();
    make_room();
    if (head_ != nobody)
      unstick();
    ask();
    return made_;
  }

 private:
  static constexpr uint32_t nobody = ~0u;

  uint64_t ran_ns(const rank_view &of) const noexcept {
    return of_.now_ns - std::min(of_.now_ns, of.since_ns);
  }

  // Its memory has been in DRAM for a whole slice. How long its last wait was does not matter:
  // ranks that poll, or fetch one task after another, wait for microseconds at a time and would
  // otherwise keep their memory for ever.
  bool is_overdue(const rank_view &rank) const noexcept {
    return of_.now_ns - std::min(of_.now_ns, rank.let_in_ns) >= of_.room_slice_ns;
  }

  // Its wait is over, and it goes on only if nobody else lacks room.
  bool yields(const rank_view &rank) const noexcept {
    return rank.wants && may_leave(rank) && is_overdue(rank);
  }

  void count(const rank_view &each) noexcept {
    used_ += charge_of(each, of_.budget);
    running_ += each.state == running;
    in_slots_ += each.state == running && ran_ns(each) < of_.silence_ns;
    ready_ += each.state == ready;
    coming_ += each.state == swap_in;
    served_ += each.state == wait && each.kind == wait_kind::served && !each.wants;
    pinned_ += each.is_pinned && is_resident_waiter(each);
    if (each.state == swap_out) {
      out_++;
      out_size_ += charge_of(each, of_.budget);
    } else if (each.state == swap_out_wait && (!each.wants || yields(each))) {
      leaving_++;
      leaving_size_ += charge_of(each, of_.budget);
    }
  }

  // Ranks for which `is_wanted`, who waits longest first; `before` first of all.
  template <class Wanted, class Before>
  std::span<const uint16_t> in_order(Wanted &&is_wanted, Before &&before) noexcept {
    size_t count = 0;
    for (size_t i = 0; i < of_.ranks.size(); i++) {
      if (is_wanted(of_.ranks[i]))
        order_[count++] = uint16_t(i);
    }
    std::sort(order_.begin(), order_.begin() + count, [&](uint16_t a, uint16_t b) {
      auto const &x = of_.ranks[a], &y = of_.ranks[b];
      if (bool const first = before(x), second = before(y); first != second)
        return first;
      return x.since_ns != y.since_ns ? x.since_ns < y.since_ns : a < b;
    });
    return {order_.data(), count};
  }
  template <class Wanted>
  std::span<const uint16_t> in_order(Wanted &&is_wanted) noexcept {
    return in_order(is_wanted, [](const rank_view &) { return false; });
  }

  uint64_t extra(const rank_view &of) const noexcept {
    return full_size_of(of, of_.budget) - charge_of(of, of_.budget);
  }

  void run() noexcept {
    if (ready_ == 0)
      return;
    for (auto const i : in_order([](const rank_view &r) { return r.state == ready; })) {
      if (in_slots_ >= of_.slots) {
        has_waiters_ = true;
        return;
      }
      made_.run.add(i);
      running_++;
      in_slots_++;
    }
  }

  // First come, first served, but for those that need no more room. Who comes next has its room
  // kept. Ranks that have been let in long ago come last, and make_room() decides upon them while
  // anybody lacks room.
  void let_in() noexcept {
    auto const needs_nothing = [&](const rank_view &r) {
      return r.state != swap_in_wait && extra(r) == 0;
    };
    for (auto const i :
         in_order([&](const rank_view &r) { return is_candidate(r) && !yields(r); }, needs_nothing))
      let_in(i);
    for (auto const i : in_order([&](const rank_view &r) { return yields(r); }, needs_nothing)) {
      if (head_ == nobody || extra(of_.ranks[i]) > 0)
        let_in(i);
    }
  }

  void let_in(uint16_t i) noexcept {
    auto const &rank = of_.ranks[i];
    uint64_t const more = extra(rank);
    if (more > 0 && (head_ != nobody || used_ + more > of_.budget)) {
      if (head_ == nobody)
        head_ = i;
      wanted_ += more;
      return;
    }
    used_ += more;
    if (rank.state != swap_in_wait) {
      if (rank.state == swap_out_wait && yields(rank))
        stays(rank);
      admit(i);
    } else if (coming_ < of_.moves_max) {
      made_.come.add(i);
      coming_++;
    }
  }

  void admit(uint16_t i) noexcept {
    made_.admit.add(i);
    is_admitted_.set(i);
  }

  // It was counted as leaving.
  void stays(const rank_view &rank) noexcept {
    leaving_--;
    leaving_size_ -= charge_of(rank, of_.budget);
  }

  // Moving out overlaps with others' computing: as many leave as those that are let in next need,
  // but no more than can move soon.
  void make_room() noexcept {
    if (head_ == nobody)
      return;
    uint64_t const wanted = used_ + wanted_ > of_.budget ? used_ + wanted_ - of_.budget : 0;
    made_.cache_surplus = std::min(of_.cached, wanted);
    bool const is_quiet = running_ + ready_ + coming_ + out_ == 0;
    uint64_t freed = out_size_ + leaving_size_;
    auto const send_away = [&](uint16_t i) {
      if (i == head_ || is_admitted_[i] || freed >= wanted || leaving_ + out_ > of_.moves_max)
        return;
      made_.leave.add(i);
      leaving_++;
      freed += charge_of(of_.ranks[i], of_.budget);
    };
    auto const is_victim = [&](const rank_view &r) {
      if (r.state != wait || r.wants || !may_leave(r))
        return false;
      return is_quiet || is_overdue(r) || of_.now_ns - r.since_ns >= of_.patience_ns;
    };
    for (auto const i : in_order(is_victim))
      send_away(i);
    auto const yielding =
        in_order([&](const rank_view &r) { return r.state == wait && yields(r); });
    for (auto i = yielding.rbegin(); i != yielding.rend(); ++i)
      send_away(*i);
    auto const may_go = [&](const rank_view &r) {
      return r.state == swap_out_wait && (!r.wants || yields(r)) && r.is_prepared && may_leave(r);
    };
    for (auto const i : in_order(may_go, [](const rank_view &r) { return !r.wants; })) {
      if (out_size_ >= wanted || out_ >= of_.moves_max)
        break;
      if (is_admitted_[i])
        continue;
      made_.out.add(i);
      out_++;
      out_size_ += charge_of(of_.ranks[i], of_.budget);
      leaving_size_ -= charge_of(of_.ranks[i], of_.budget);
    }
    lacks_room_ = freed < wanted;
    let_go_on(wanted);
  }

  // Ranks that would yield, and whose room is not needed any more or cannot be moved yet, go on
  // meanwhile.
  void let_go_on(uint64_t wanted) noexcept {
    auto const goes_on = [&](const rank_view &r) {
      return yields(r) && extra(r) == 0;
    };
    for (auto const i : in_order(goes_on)) {
      auto const &rank = of_.ranks[i];
      auto const is_among = [&](const decision::list &ranks) {
        return std::find(ranks.begin(), ranks.end(), i) != ranks.end();
      };
      if (is_admitted_[i] || is_among(made_.leave) || is_among(made_.out))
        continue;
      if (rank.state == swap_out_wait) {
        if (out_size_ + leaving_size_ - charge_of(rank, of_.budget) < wanted)
          continue;
        stays(rank);
      }
      admit(i);
    }
  }

  // Pins, and pages in the cache, last as long as somebody uses them, who may wait for others, too:
  // not for ever.
  bool is_idle() const noexcept {
    constexpr uint64_t use_stuck_max = 100;  // times stuck_ns
    if (running_ + ready_ + coming_ + out_ + leaving_ + served_ + made_.admit.count != 0)
      return false;
    if (pinned_ == 0 && made_.cache_surplus == 0)
      return true;
    return of_.now_ns - std::min(of_.now_ns, of_.ranks[head_].since_ns) >=
           use_stuck_max * of_.stuck_ns;
  }

  // All who could do something want room, or have wanted it for long beside few who run. Who came
  // last gives its own up; if there is nobody, and nobody runs, there is no other way than beyond
  // the budget.
  void unstick() noexcept {
    constexpr uint64_t long_wait = 5;  // times stuck_ns
    bool const nobody_goes_on = is_idle();
    if (!nobody_goes_on) {
      bool const is_long =
          of_.now_ns - std::min(of_.now_ns, of_.ranks[head_].since_ns) >= long_wait * of_.stuck_ns;
      if (!is_long || running_ + ready_ >= of_.slots ||
          leaving_ + out_ + coming_ + made_.admit.count != 0)
        return;
    }
    uint32_t victim = nobody;
    for (uint32_t i = 0; i < of_.ranks.size(); i++) {
      auto const &each = of_.ranks[i];
      if (i == head_ || !each.wants || !may_leave(each))
        continue;
      if (each.state == swap_out_wait) {
        if (each.is_prepared)
          made_.out.add(i);
        return;
      }
      if (victim == nobody || each.since_ns >= of_.ranks[victim].since_ns)
        victim = i;
    }
    if (victim != nobody) {
      made_.leave.add(victim);
      return;
    }
    auto const &head = of_.ranks[head_];
    if (!nobody_goes_on || of_.now_ns - head.since_ns < of_.stuck_ns)
      return;
    made_.is_beyond_budget = true;
    (head.state == swap_in_wait ? made_.come : made_.admit).add(head_);
  }

  void ask() noexcept {
    if (!has_waiters_ && !lacks_room_)
      return;
    for (uint32_t i = 0; i < of_.ranks.size(); i++) {
      auto const &each = of_.ranks[i];
      if (each.state != running)
        continue;
      if ((has_waiters_ && ran_ns(each) >= of_.slice_ns) || (lacks_room_ && is_overdue(each)))
        made_.ask.add(i);
    }
  }

  const node_view &of_;
  decision made_;
  std::bitset<node_view::rank_count_max> is_admitted_;
  std::array<uint16_t, node_view::rank_count_max> order_;
  uint64_t used_ = 0, wanted_ = 0;  // bytes: charged; and what those need that cannot be let in yet
  uint64_t out_size_ = 0, leaving_size_ = 0;  // bytes that are given up
  uint32_t running_ = 0, in_slots_ = 0, ready_ = 0, coming_ = 0, out_ = 0, leaving_ = 0,
           served_ = 0, pinned_ = 0;
  uint32_t head_ = nobody;    // who is to be let in first, and cannot be
  bool has_waiters_ = false;  // for a slot
  bool lacks_room_ = false;   // the head does, and what leaves is not enough for it
};

}  // namespace

uint64_t charge_of(const rank_view &of, uint64_t budget) noexcept {
  return of.state == gone || is_away(of.state) ? 0 : size_of(of, budget);
}

decision decide(const node_view &of) noexcept {
  return planner{of}.make();
}

}  // namespace tanada::comex::swap
