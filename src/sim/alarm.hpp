// sim/alarm.hpp: port::alarm among programs of one thread, in a world's time.
#pragma once

#include <functional>
#include <list>
#include <utility>

#include "seams/alarm/alarm.hpp"

namespace tanada::sim {

// How programs that block share one thread. All are called by the thread of the world.
struct program_switch {
  std::function<size_t()> running;                             // the program that calls
  std::function<void()> yield;                                 // it goes on by resume()
  std::function<void(size_t)> resume;                          // called outside of programs
  std::function<void(uint64_t, std::function<void()>)> after;  // ns from now, an action
};

// A switch between programs happens only in wait(), so a wake-up cannot come between a look at the
// word and the sleep: a wake-up that is lost was never sent.
//
// Thread safety: the world's thread only.
class alarm final : public port::alarm {
 public:
  explicit alarm(program_switch programs, bool loses_wakeups = false)
      : programs_{std::move(programs)}, loses_wakeups_{loses_wakeups} {}

  bool wait(std::atomic<uint32_t> &word, uint32_t seen, uint64_t timeout_ns) noexcept override {
    if (word.load() != seen)
      return true;
    uint64_t const ticket = ++last_ticket_;
    auto const self = waiting_.insert(waiting_.end(), {&word, programs_.running(), ticket, false});
    programs_.after(timeout_ns, [this, ticket] { time_out(ticket); });
    programs_.yield();
    bool const is_woken = self->is_woken;
    waiting_.erase(self);
    return is_woken;
  }

  void wake_all(std::atomic<uint32_t> &word) noexcept override {
    if (loses_wakeups_)
      return;
    for (sleeper &entry : waiting_) {
      if (entry.word != &word || entry.is_woken)
        continue;
      entry.is_woken = true;
      programs_.after(wake_ns, [this, program = entry.program] { programs_.resume(program); });
      wakeup_count_++;
    }
  }

  void note_lost_wakeup() noexcept override {
    lost_wakeup_count_++;
  }

  uint64_t wakeup_count() const {
    return wakeup_count_;
  }
  uint64_t lost_wakeup_count() const {
    return lost_wakeup_count_;
  }

 private:
  static constexpr uint64_t wake_ns = 5000;  // until a program that was woken runs

  struct sleeper {
    std::atomic<uint32_t> *word;
    size_t program;
    uint64_t ticket;
    bool is_woken;
  };

  void time_out(uint64_t ticket) {
    for (sleeper const &entry : waiting_) {
      if (entry.ticket == ticket && !entry.is_woken)
        return programs_.resume(entry.program);
    }
  }

  program_switch programs_;
  bool loses_wakeups_;
  std::list<sleeper> waiting_;
  uint64_t last_ticket_ = 0, wakeup_count_ = 0, lost_wakeup_count_ = 0;
};

}  // namespace tanada::sim
