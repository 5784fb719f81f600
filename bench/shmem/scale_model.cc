// The simulation of scale_model.hpp.
#include "scale_model.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace tanada::bench {

bool costs::set(const std::string &name, double value) {
  std::pair<const char *, double *> const fields[] = {
      {"call", &call},
      {"line", &line},
      {"wake", &wake},
      {"resume", &resume},
      {"read", &read},
      {"copy", &copy},
      {"send", &send},
      {"receive", &receive},
      {"crowd", &crowd},
      {"latency", &latency},
      {"byte", &byte},
      {"byte_work", &byte_work},
      {"processors", &processors},
  };
  for (auto const &[field, member] : fields) {
    if (name == field) {
      *member = value;
      return true;
    }
  }
  return false;
}

simulation::simulation(const placement &where, const costs &cost, std::vector<program> programs)
    : where_{where},
      cost_{cost},
      is_oversubscribed_{where.is_oversubscribed(cost)},
      programs_{std::move(programs)},
      pes_(programs_.size()),
      hosts_(size_t(where.hosts)) {
  TND_ASSERT(programs_.size() == size_t(where.pes));
  for (auto &host : hosts_)
    host.free_processors = cost.processors;
}

void simulation::post(double at, event_kind kind, int32_t pe, int32_t word) {
  events_.push({at, order_++, kind, pe, word});
}

simulation::outcome simulation::run() {
  for (int32_t pe = 0; pe < where_.pes; pe++)
    release(pe, 0);
  while (!events_.empty()) {
    event const next = events_.top();
    events_.pop();
    if (next.kind == event_kind::run)
      advance(next.pe, next.at);
    else if (next.kind == event_kind::release)
      release(next.pe, next.at);
    else
      arrive(next.pe, next.word, next.at);
  }
  for (size_t pe = 0; pe < pes_.size(); pe++)
    TND_ASSERT(pes_[pe].next == programs_[pe].size());
  return {last_, stamped_count_ == 0 ? 0 : stamped_sum_ / double(stamped_count_)};
}

// A PE that may run takes a processor of its host, or queues for one.
void simulation::release(int32_t pe, double now) {
  auto &host = hosts_[size_t(where_.host_of(pe))];
  if (host.free_processors < 1) {
    host.ready.push_back(pe);
    return;
  }
  host.free_processors -= 1;
  post(now, event_kind::run, pe);
}

// The PE has a processor.
void simulation::advance(int32_t pe, double now) {
  auto &self = pes_[size_t(pe)];
  auto const &steps = programs_[size_t(pe)];
  if (self.is_asleep) {
    self.is_asleep = false;
    now += cost_.resume;
  }
  while (self.next < steps.size()) {
    auto const &step = steps[self.next];
    if (step.kind == action_kind::await && !consume(pe, step)) {
      self.is_waiting = true;
      self.is_asleep = is_oversubscribed_;
      break;
    }
    self.next++;
    double const end = perform(pe, step, now);
    if (end > now) {  // events of other PEs up to then come first
      post(end, event_kind::run, pe);
      return;
    }
  }
  last_ = std::max(last_, now);
  if (self.is_waiting && !self.is_asleep)
    return;  // it polls, on a processor of its own
  auto &host = hosts_[size_t(where_.host_of(pe))];
  if (host.ready.empty()) {
    host.free_processors += 1;
    return;
  }
  post(now, event_kind::run, host.ready.front());
  host.ready.pop_front();
}

bool simulation::consume(int32_t pe, const action &step) {
  auto &words = pes_[size_t(pe)].words;
  auto const found = words.find(step.word);
  if (step.count == 0)
    return true;
  if (found == words.end() || found->second < step.count)
    return false;
  found->second -= step.count;
  if (found->second == 0)
    words.erase(found);
  return true;
}

// Returns when the PE may go on.
double simulation::perform(int32_t pe, const action &step, double now) {
  auto &self = pes_[size_t(pe)];
  switch (step.kind) {
    case action_kind::work:
      return now + step.time;
    case action_kind::send:
    case action_kind::fetch:
      return send(pe, step, now);
    case action_kind::publish:
      return publish(pe, step, now);
    case action_kind::meet:
      return meet(pe, step, now);
    case action_kind::stamp:
      if (self.stamped >= 0) {
        stamped_sum_ += now - self.stamped;
        stamped_count_++;
      }
      self.stamped = self.stamped >= 0 ? -1 : now;
      return now;
    case action_kind::await:
      return now + step.time;  // to receive what has arrived
  }
  return now;
}

double simulation::send(int32_t pe, const action &step, double now) {
  bool const is_fetch = step.kind == action_kind::fetch;
  int32_t const receiver = is_fetch ? pe : step.peer;
  if (where_.are_mapped(pe, step.peer)) {
    bool const wakes = !is_fetch && pes_[size_t(step.peer)].is_asleep;
    double const end = now + cost_.read + step.bytes * cost_.copy + (wakes ? cost_.wake : 0);
    auto &target = pes_[size_t(receiver)];
    double const seen = is_fetch ? end : std::max(end, target.line_free) + cost_.line;
    target.line_free = seen;
    post(seen, event_kind::arrival, receiver, step.word);
    return end;
  }
  double const end = now + cost_.send + step.bytes * cost_.byte_work;
  auto &host = hosts_[size_t(where_.host_of(is_fetch ? step.peer : pe))];
  double const begin = std::max(end + (is_fetch ? cost_.latency : 0), host.wire_free);
  host.wire_free = begin + step.bytes * cost_.byte;
  post(host.wire_free + cost_.latency, event_kind::arrival, receiver, step.word);
  return end;
}

double simulation::publish(int32_t pe, const action &step, double now) {
  for (int32_t peer = step.peer; peer < step.peer + step.count; peer++) {
    if (peer == pe)
      continue;
    if (is_oversubscribed_ && pes_[size_t(peer)].is_asleep)
      now += cost_.wake;
    post(now + cost_.line, event_kind::arrival, peer, step.word);
  }
  return now;
}

double simulation::meet(int32_t pe, const action &step, double now) {
  auto &host = hosts_[size_t(where_.host_of(pe))];
  int32_t &count = host.met[{step.peer, step.word}];
  if (++count < step.count)
    return now + cost_.read;
  host.met.erase({step.peer, step.word});
  pes_[size_t(pe)].words[step.word]++;
  return publish(pe, step, now + cost_.read);
}

void simulation::arrive(int32_t pe, int32_t word, double now) {
  auto &self = pes_[size_t(pe)];
  self.words[word]++;
  if (!self.is_waiting)
    return;
  auto const &step = programs_[size_t(pe)][self.next];
  if (step.word != word || self.words[word] < step.count)
    return;
  self.is_waiting = false;
  if (self.is_asleep && step.is_remote)
    post(now + cost_.crowd * (where_.pes_per_processor(cost_) - 1), event_kind::release, pe);
  else if (self.is_asleep)
    release(pe, now);
  else
    post(now, event_kind::run, pe);
}

}  // namespace tanada::bench
