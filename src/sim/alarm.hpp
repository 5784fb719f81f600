// sim/alarm.hpp: seams::alarm for programs that share one thread, in the time of a world.
#pragma once

#include <functional>
#include <list>
#include <utility>

#include "core/base/assert.hpp"
#include "seams/alarm/alarm.hpp"

namespace tanada::sim {

// Switches between programs that block and share one thread. The world's thread makes all calls.
struct program_switch {
  std::function<size_t()> running;     // the running program
  std::function<void()> yield;         // suspends it until resume()
  std::function<void(size_t)> resume;  // called outside of any program
  std::function<void(uint64_t, std::function<void()>)>
      schedule_after;  // runs an action after so many ns
};

// Programs switch only in wait(), so no wake-up can occur between the check of the word and the
// sleep. A lost wake-up is therefore one that was never sent.
class alarm final : public seams::alarm {
 public:
  explicit alarm(program_switch programs, bool loses_wakeups = false)
      : programs_{std::move(programs)}, loses_wakeups_{loses_wakeups} {
    TND_ASSERT(programs_.running && programs_.yield);
    TND_ASSERT(programs_.resume && programs_.schedule_after);
  }

  bool wait(std::atomic<uint32_t> &word, uint32_t expected, uint64_t timeout_ns) noexcept override {
    if (word.load() != expected)
      return true;
    uint64_t const ticket = ++last_ticket_;
    auto const self = waiting_.insert(waiting_.end(), {&word, programs_.running(), ticket, false});
    programs_.schedule_after(timeout_ns, [this, ticket] { time_out(ticket); });
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
      programs_.schedule_after(wake_ns,
                               [this, program = entry.program] { programs_.resume(program); });
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
  static constexpr uint64_t wake_ns = 5000;  // delay until a woken program runs

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
