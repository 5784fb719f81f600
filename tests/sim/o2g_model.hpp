// tests/sim/o2g_model.hpp: MPI's rules of matching, as a check of a run. Only an engine knows when
// a message arrives, so the rules are checked for the whole run, at its end:
//
// order of messages  A receive that took a message could not have taken an earlier one of the
//   same sender: that one had been
//                      taken by an earlier receive.
//   order of receives  A message was not taken by a receive while an earlier one waited that
//   matches it.
//
// A peek, a claim and a discard match as a receive that is posted at that moment and does not wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "products/o2g/match.hpp"

namespace tanada::test {

constexpr uint64_t never = ~uint64_t{0};

struct model_message {
  uint32_t from = 0, to = 0;
  bool tagged = false;
  uint64_t tag = 0, size = 0;
  uint64_t taken_by = never, taken_at = 0;  // the receive that takes it, and the position in its
                                            // buffer
  uint64_t done_time = never;               // when the receiver was notified
  bool sent = false;                        // its sender knows that it is in flight
  bool quiet = false, delivered = false;
  bool discarded = false;
  bool failed = false;  // as reported to its sender
  uint64_t post_time = 0;
};

// A receive, or a peek that does not wait; numbered in the order of posting.
struct model_look {
  uint32_t at = 0;
  bool tagged = false, waits = true, many = false, consumes = true;
  o2g::match_pattern pattern{0, 0, o2g::any_peer};  // source: the sender's number
  uint64_t end_time = never;                        // when it was canceled, or failed
  bool open = true;
  std::vector<uint64_t> took{};  // messages
};

struct model {
  std::deque<model_message> messages;
  std::deque<model_look> looks;
  std::map<uint32_t, bool> is_dead, is_ended;  // by endpoint
  // When bytes between two engines were last lost, the lower one first: by a cut, or because only
  // one side knew yet which connection stays.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> last_loss;

  bool was_cut_after(uint32_t one, uint32_t other, uint64_t time) const {
    auto const found = last_loss.find(std::minmax(one, other));
    return found != last_loss.end() && found->second >= time;
  }

  static bool fits(const model_look &look, const model_message &message) {
    if (look.at != message.to || look.tagged != message.tagged)
      return false;
    return o2g::matches(look.pattern, {message.tagged ? message.tag : 0, message.from});
  }

  // May be missing: its sender or receiver died, or ended before it was in flight; its connection
  // was cut; or it failed.
  bool may_be_lost(const model_message &message) const {
    if (message.failed || was_cut_after(message.from, message.to, message.post_time))
      return true;
    auto const is = [](const std::map<uint32_t, bool> &of, uint32_t which) {
      return of.contains(which);
    };
    return is(is_dead, message.from) || is(is_dead, message.to) || is(is_ended, message.to) ||
           (is(is_ended, message.from) && (!message.sent || message.quiet));
  }

  // "": all matching follows MPI.
  std::string problem() const {
    for (uint64_t i = 0; i < messages.size(); i++) {
      auto const &message = messages[i];
      if (message.taken_by == never) {
        if (!may_be_lost(message))
          return text(i) + " is lost";
        continue;
      }
      bool const was_never_sent = message.failed &&
                                  !was_cut_after(message.from, message.to, message.post_time) &&
                                  is_dead.empty() && is_ended.empty();
      if (was_never_sent)
        return text(i) + " failed, and came all the same";
      if (auto const why = order_of_receives(i); !why.empty())
        return why;
    }
    for (uint64_t i = 0; i < looks.size(); i++)
      if (auto const why = order_of_messages(i); !why.empty())
        return why;
    return {};
  }

  std::string text(uint64_t number) const {
    auto const &message = messages[number];
    return "message " + std::to_string(number) + " of " + std::to_string(message.size) +
           " bytes from " + std::to_string(message.from) + " to " + std::to_string(message.to) +
           (message.taken_by == never ? " (nobody's)"
                                      : " (of receive " + std::to_string(message.taken_by) + ")");
  }

 private:
  std::string order_of_receives(uint64_t number) const {
    auto const &message = messages[number];
    for (uint64_t i = 0; i < message.taken_by; i++) {
      auto const &earlier = looks[i];
      if (!earlier.waits || !fits(earlier, message))
        continue;
      // What it had taken when its engine died is unknown.
      if (earlier.open && (is_dead.contains(earlier.at) || is_ended.contains(earlier.at)))
        continue;
      bool const waited =
          earlier.took.empty() && (earlier.open || earlier.end_time > message.done_time);
      if (waited)
        return text(number) + " was not taken by receive " + std::to_string(i);
    }
    return {};
  }

  std::string order_of_messages(uint64_t which) const {
    auto const &look = looks[which];
    for (uint64_t const taken : look.took) {
      for (uint64_t i = 0; i < taken; i++) {
        auto const &earlier = messages[i];
        if (earlier.from != messages[taken].from || !fits(look, earlier))
          continue;
        if (earlier.taken_by == never && may_be_lost(earlier))
          continue;
        bool const is_before =
            earlier.taken_by < which ||
            (earlier.taken_by == which && earlier.taken_at < messages[taken].taken_at) ||
            (earlier.taken_by == which && earlier.taken_at == messages[taken].taken_at &&
             earlier.size == 0);
        if (!is_before)
          return (look.many ? "many-receive " : "receive ") + std::to_string(which) + " took " +
                 text(taken) + " before " + text(i);
      }
    }
    return {};
  }
};

}  // namespace tanada::test
