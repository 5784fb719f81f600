// tests/sim/pool_life_model.hpp: what a durable pool may contain of one client's names, now and
// after a crash.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tanada::test {

struct held_object {
  uint64_t id = 0;     // of the contents
  uint32_t flags = 0;  // evictable, pinned

  auto operator<=>(const held_object &) const = default;
};
using held_names = std::map<std::string, held_object>;

// A request that changes names. The daemon carries out all of it or nothing.
struct name_change {
  enum class kind { put, remove, rename, set_flags };
  kind what = kind::put;
  std::vector<std::pair<std::string, held_object>> made;  // put: several of a set
  std::string name, new_name;                             // the others
  uint32_t flags = 0;                                     // set_flags
  bool exclusive = false;                                 // put, rename: the name must be free
  bool durable = false;
  uint64_t begun = 0;  // the model's tick when it was sent

  // False: the change is impossible for these names. The log, to which only completed changes are
  // appended, does not check who has the name.
  bool apply(held_names &to, bool in_log = false) const {
    bool const asks = exclusive && !in_log;
    if (what == kind::put) {
      for (auto const &[each, object] : made)
        if (asks && to.contains(each))
          return false;
      for (auto const &[each, object] : made)
        to[each] = object;
      return true;
    }
    auto const found = to.find(name);
    if (found == to.end() || (asks && name != new_name && to.contains(new_name)))
      return false;
    held_object const object = found->second;
    if (what == kind::set_flags)
      found->second.flags = flags;
    if (what == kind::remove || what == kind::rename)
      to.erase(found);
    if (what == kind::rename)
      to[new_name] = object;
    return true;
  }
};

// done: answered with ok. unknown: carried out or not. refused: not carried out, since names (do
// not) exist.
enum class outcome { done, unknown, refused };

// One client's names. It sends one change after the other over one connection. The daemon has
// carried out a prefix of that sequence, and the log has a prefix of that, except for failed
// transactions (`holes`). These are sets of states, since answers get lost.
class name_model {
 public:
  // `holes`: the log may fail without a report. `evicts`: evictable objects may vanish.
  name_model(bool holes, bool evicts) : holes_{holes}, evicts_{evicts} {}

  void sent(name_change change) {
    on_the_way_.push_back(std::move(change));
  }
  const std::deque<name_change> &on_the_way() const {
    return on_the_way_;
  }

  // The oldest outstanding change is answered at `tick`. False: that answer is impossible.
  bool settled(outcome what, uint64_t tick) {
    name_change const change = std::move(on_the_way_.front());
    on_the_way_.pop_front();
    states const now = now_;
    uint64_t meant = 0;
    for (held_names const &each : now)
      if (auto const found = each.find(change.name); found != each.end())
        meant = found->second.id;
    now_.clear();
    for (held_names const &each : now)
      add_answered(each, change, what);
    if (what != outcome::refused)
      log(change, what, tick, meant);
    return !now_.empty();
  }

  // The consequence of another client's durable answer: all of this client's changes answered
  // before `tick` are durable.
  void durable_since(uint64_t tick) {
    if (holes_)
      return;
    while (logged_.size() > 1 && logged_[1].tick < tick)
      logged_.pop_front();
  }

  // The pool was recovered with these names. False: that is impossible.
  bool recovered(const held_names &found) {
    bool good = std::any_of(logged_.begin(), logged_.end(), [&](auto const &each) {
      return matches(each.line, found);
    });
    states line = logged_.back().line;
    for (name_change const &each : on_the_way_) {
      states next = line;
      for (held_names state : line)
        if (each.apply(state, true))
          next.insert(state);
      line = std::move(next);
      good = good || matches(line, found);
    }
    accept(found);
    return good;
  }

  // A query of the running pool. False: it cannot contain these names.
  bool seen(const held_names &found) {
    bool const good = matches(now_, found);
    now_ = {found};
    return good;
  }

  // From here on the pool contains these, now and after a crash.
  void accept(const held_names &found) {
    on_the_way_.clear();
    now_ = {found};
    logged_.assign(1, {0, {found}});
  }
  // All changes carried out are durable.
  void all_durable() {
    if (on_the_way_.empty())
      logged_.assign(1, {0, now_});
  }

  // What a reader may get under that name: ids, and 0 for nothing.
  std::set<uint64_t> readable(const std::string &name) const {
    std::set<uint64_t> ids;
    states all = now_;
    for (name_change const &each : on_the_way_) {
      states const before = all;
      for (held_names state : before)
        if (carry_out(each, state))
          all.insert(state);
    }
    for (held_names const &state : all) {
      auto const found = state.find(name);
      ids.insert(found == state.end() ? 0 : found->second.id);
      if (found != state.end() && may_vanish(found->second))
        ids.insert(0);
    }
    return ids;
  }
  const held_names &likely() const {
    return *now_.begin();
  }
  bool is_settled() const {
    return on_the_way_.empty();
  }

 private:
  using states = std::set<held_names>;
  using kind = name_change::kind;
  struct snapshot {
    uint64_t tick;  // of the answer
    states line;    // the log's end
  };

  bool may_vanish(const held_object &what) const {
    return evicts_ && (what.flags & 3) == 1;
  }

  bool matches(const states &any, const held_names &found) const {
    return std::any_of(any.begin(), any.end(), [&](const held_names &state) {
      for (auto const &[name, object] : found)
        if (!state.contains(name) || state.at(name) != object)
          return false;
      return std::all_of(state.begin(), state.end(), [&](auto const &each) {
        return found.contains(each.first) || may_vanish(each.second);
      });
    });
  }

  // As name_change::apply, if the pool may have evicted objects before. An evictable object under
  // the new name prevents an exclusive change, or is gone.
  bool carry_out(const name_change &change, held_names &to) const {
    held_names without = to;
    auto const drop = [&](const std::string &name) {
      auto const found = without.find(name);
      if (found != without.end() && may_vanish(found->second))
        without.erase(found);
    };
    if (change.exclusive && change.what == kind::rename && change.name != change.new_name)
      drop(change.new_name);
    if (change.exclusive && change.what == kind::put) {
      for (auto const &[name, object] : change.made)
        drop(name);
    }
    if (!change.apply(without))
      return false;
    to = std::move(without);
    return true;
  }

  void add_answered(const held_names &state, const name_change &change, outcome what) {
    held_names after = state;
    bool const done = carry_out(change, after);
    if (what == outcome::unknown)
      now_.insert(state);
    if (done && what != outcome::refused)
      now_.insert(after);
    if (what != outcome::refused)
      return;
    after = state;
    if (!change.apply(after))
      now_.insert(state);
    // The daemon may have evicted it meanwhile.
    auto const source = state.find(change.name);
    if (source == state.end() || !may_vanish(source->second))
      return;
    after = state;
    after.erase(change.name);
    now_.insert(after);
  }

  void log(const name_change &change, outcome what, uint64_t tick, uint64_t meant) {
    bool const kept = change.durable && what == outcome::done;
    states line;
    for (held_names const &state : logged_.back().line) {
      if (!kept && (holes_ || what == outcome::unknown))
        line.insert(state);
      add_logged(state, change, holes_ ? meant : 0, kept, line);
    }
    if (kept)
      logged_.clear();
    logged_.push_back({tick, std::move(line)});
  }

  // The log's result for a state that differs from the pool's, after failed transactions: it knows
  // objects, not names. `meant` is the object that the pool changed; 0: there was none. When it is
  // kept, nothing remains under a name that was given up.
  static void add_logged(
      held_names state, const name_change &change, uint64_t meant, bool kept, states &line) {
    auto const known = std::find_if(
        state.begin(), state.end(), [&](auto const &each) { return each.second.id == meant; });
    if (change.what == kind::put || meant == 0) {
      if (change.apply(state, true))
        line.insert(std::move(state));
      return;
    }
    held_object object = known == state.end() ? held_object{} : known->second;
    bool const there = known != state.end();
    if (change.what == kind::set_flags) {
      object.flags = change.flags;
      if (there)
        known->second = object;
      line.insert(std::move(state));
      return;
    }
    if (there)
      state.erase(known);
    held_names without = state;
    without.erase(change.name);
    for (held_names after : {without, state}) {
      if (change.what == kind::rename && there)
        after[change.new_name] = object;
      bool const good = change.what == kind::remove || there;
      if (good || !kept)
        line.insert(std::move(after));
      if (kept)
        return;
    }
  }

  bool const holes_, evicts_;
  states now_{held_names{}};
  std::deque<snapshot> logged_{{0, {held_names{}}}};
  std::deque<name_change> on_the_way_;
};

}  // namespace tanada::test
