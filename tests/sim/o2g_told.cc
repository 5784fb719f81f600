// tests/sim/o2g_told.cc: checks the engines' reports, and the state at the end of a run.

#include <algorithm>
#include <cstring>

#include "sim/o2g_harness.hpp"

namespace tanada::test {

using o2g::completion_kind;

void o2g_run::reap(endpoint &at) {
  while (!at.done.empty()) {
    auto const what = at.done.front();
    at.done.pop_front();
    time_++;
    world_.note(uint64_t(what.kind) << 32 ^ what.size ^ uint64_t(what.code) << 16);
    told(at, what);
  }
  // A caller that waited for a message of a failed peer does not wait on.
  for (auto const &each : requests_) {
    if (at.failed_to.empty())
      break;
    bool const waits = each.owner == at.number && each.is_out && each.kind == request_kind::receive;
    if (!waits || model_.looks[each.look].many || !model_.looks[each.look].waits)
      continue;
    auto const source = model_.looks[each.look].pattern.source;
    if (source != o2g::any_peer && at.failed_to.contains(source))
      fail("a receive waits for one who is gone");
  }
  at.failed_to.clear();
}

void o2g_run::told(endpoint &at, const o2g::completion &what) {
  auto &of = *static_cast<request *>(what.context);
  if (!of.is_out)
    return fail("a request of kind " + std::to_string(int(of.kind)) + " completes twice");
  if (of.owner != at.number)
    return fail("somebody else's completion");
  if (of.kind == request_kind::receive)
    return told_receive(at, of, what);
  of.is_out = false;
  if (of.kind == request_kind::peek)
    return told_peek(at, of, what);
  if (of.kind == request_kind::get)
    at.gets_out[of.to]--;
  if (what.code != status::ok) {
    if (of.kind == request_kind::send)
      model_.messages[of.message].failed = true;
    else
      at.is_unsure[of.to] = true;
    if (has_losses() && of.to != at.number)
      at.failed_to.insert(of.to);
    if (!may_fail() || what.code != status::peer_lost)
      fail("a request of kind " + std::to_string(int(of.kind)) +
           " fails: " + std::to_string(int(what.code)));
    return;
  }
  if (of.kind == request_kind::send) {
    auto &message = model_.messages[of.message];
    if (of.quiet)
      fail("a quiet send that succeeded is told of");
    message.sent = true;
    // A message to oneself may be discarded before the discard is reported.
    bool const is_there = message.done_time != never || message.discarded ||
                          message.from == message.to || !is_here(message.to);
    if (of.delivered && !is_there)
      fail("delivered, and not there: " + model_.text(of.message));
  }
  if (!of.expected.empty() && !at.is_unsure[of.to] && of.memory != of.expected)
    fail("what was got is not what was put");
  if (of.kind != request_kind::count_up)
    return;
  uint64_t before = 0;
  std::memcpy(&before, of.memory.data(), 8);
  if (!counts_seen_[of.to].insert(before).second)
    fail("two of a counter's answers are the same");
}

void o2g_run::told_receive(endpoint &, request &of, const o2g::completion &what) {
  auto &look = model_.looks[of.look];
  bool const ends = !look.many || !look.waits || what.kind == completion_kind::buffer ||
                    what.code == status::canceled || what.buffer_done;
  if (ends) {
    of.is_out = false;
    look.open = false;
  }
  if (what.kind == completion_kind::buffer)
    return;
  if (what.code == status::canceled) {
    if (look.end_time == never)
      fail("canceled by nobody");
    return;
  }
  if (what.code == status::peer_lost) {
    if (!may_fail())
      fail("a receive fails");
    look.end_time = std::min(look.end_time, time_);
    if (!what.has_data || !look.waits)
      return;
    // It had taken a message that will not arrive any more.
    auto &message = model_.messages[what.data];
    if (message.taken_by != never || !model_.may_be_lost(message))
      fail("lost without a reason: " + model_.text(what.data));
    message.taken_by = of.look;
    message.taken_at = look.many ? uint64_t(what.buffer - of.memory.data()) : 0;
    look.took.push_back(what.data);
    return;
  }
  if (what.code != status::ok && what.code != status::overflow)
    return fail("a receive fails strangely");
  if (ends)
    look.end_time = std::min(look.end_time, time_);
  take(of, what);
}

// A message is in a receive's memory.
void o2g_run::take(request &of, const o2g::completion &what) {
  auto &look = model_.looks[of.look];
  if (!what.has_data || what.data >= model_.messages.size())
    return fail("a message that nobody sent");
  auto &message = model_.messages[what.data];
  bool const was_claimed = !look.waits;
  if (was_claimed ? what.data != of.message : message.taken_by != never)
    return fail(model_.text(what.data) + " comes twice");
  if (!model::fits(look, message))
    return fail(model_.text(what.data) + " does not match");
  if (what.size + what.truncated_size != message.size ||
      (what.code == status::overflow) != (what.truncated_size != 0))
    return fail("wrong sizes");
  if (what.truncated_size != 0 &&
      (what.size < of.memory.size() - (look.many ? of.memory.size() : 0)))
    return fail("cut short although there is room");
  uint64_t const offset =
      look.many && what.size != 0 ? uint64_t(what.buffer - of.memory.data()) : 0;
  if (offset + what.size > of.memory.size())
    return fail("beyond the receive's end");
  for (uint64_t i = 0; i < what.size; i++)
    if (of.memory[offset + i] != byte_of(what.data, i))
      return fail(model_.text(what.data) + " is wrong at " + std::to_string(i));
  if (ends_[message.to]->peers[message.from] != what.source)
    return fail("a wrong source");
  message.done_time = time_;
  if (was_claimed)
    return;
  message.taken_by = of.look;
  message.taken_at = look.many ? uint64_t(what.buffer - of.memory.data()) : 0;
  look.took.push_back(what.data);
}

void o2g_run::told_peek(endpoint &at, request &of, const o2g::completion &what) {
  auto &look = model_.looks[of.look];
  look.open = false;
  if (what.code == status::no_entry)
    return;
  if (what.code != status::ok || what.data >= model_.messages.size())
    return fail("a strange answer to a peek");
  auto &message = model_.messages[what.data];
  if (message.taken_by != never)
    return fail("a peek finds what was taken: " + model_.text(what.data));
  if (!model::fits(look, message) || what.size != message.size)
    return fail("a peek finds what does not match");
  look.took.push_back(what.data);
  if (!look.consumes)
    return;
  message.taken_by = of.look;
  of.message = what.data;
  message.discarded = of.discard;
  if (of.discard)
    message.done_time = time_;
  if (of.claim)
    at.claims.insert(uint64_t(
        std::find_if(requests_.begin(), requests_.end(), [&](auto &each) { return &each == &of; }) -
        requests_.begin()));
}

// Until nothing is in flight any more.
void o2g_run::settle() {
  for (uint32_t quiet = 0; quiet < 50 && problem_.empty();) {
    size_t count = world_.step() ? 1 : 0;
    for (auto &each : ends_) {
      if (each->engine == nullptr)
        continue;
      count += each->engine->poll(false);
      reap(*each);
    }
    quiet = count == 0 ? quiet + 1 : 0;
    if (count == 0)
      world_.advance(1'000);
  }
}

// Everything that arrived and was not taken is taken now.
void o2g_run::drain() {
  for (auto &at : ends_) {
    if (at->engine == nullptr || !problem_.empty())
      continue;
    while (!at->claims.empty()) {
      end_claim(*at);
      reap(*at);
    }
    for (auto &each : requests_) {
      if (each.owner != at->number || !each.is_out || each.kind != request_kind::receive ||
          !model_.looks[each.look].waits)
        continue;
      if (at->engine->cancel(context_of(each)) == status::ok)
        model_.looks[each.look].end_time = ++time_;
      reap(*at);
    }
    std::vector<bool> left;  // tagged or not
    for (auto const &each : model_.messages)
      if (each.to == at->number && each.taken_by == never)
        left.push_back(each.tagged);
    for (bool const tagged : left) {
      auto &what = make(request_kind::receive, at->number);
      model_look look{
          .at = at->number, .tagged = tagged, .pattern = {0, ~uint64_t{0}, o2g::any_peer}};
      if (!look.tagged)
        look.pattern.ignore = 0;
      what.look = model_.looks.size();
      what.memory.assign(120'000, std::byte{0xA5});
      model_.looks.push_back(look);
      iovec const part{what.memory.data(), what.memory.size()};
      if (at->engine->post_receive({.parts = {&part, 1},
                                    .pattern = look.pattern,
                                    .tagged = look.tagged,
                                    .context = context_of(what)}) != status::ok)
        fail("a receive was refused");
      reap(*at);
    }
    settle();
  }
  settle();
}

void o2g_run::check_end() {
  if (!problem_.empty())
    return;
  if (auto const why = model_.problem(); !why.empty())
    return fail(why);
  for (auto &at : ends_) {
    if (at->engine == nullptr)
      continue;
    if (auto const size = at->engine->statistics().unexpected_size; size != 0)
      fail(std::to_string(size) + " bytes are kept for nobody");
    for (uint32_t from = 0; from < engine_count; from++) {
      if (from == at->number || !is_here(from) || ends_[from]->is_unsure[at->number])
        continue;
      auto const slice = std::span{at->memory}.subspan(8 + from * slice_size, slice_size);
      if (!std::ranges::equal(slice, ends_[from]->mirrors[at->number]))
        fail("memory is not what was put there");
    }
    uint64_t count = 0;
    std::memcpy(&count, at->memory.data(), 8);
    uint64_t const seen = counts_seen_[at->number].size();
    bool const is_whole = model_.is_dead.empty() && model_.is_ended.empty();
    if (is_whole && (count < seen || count > counts_posted_[at->number]))
      fail("a counter is wrong");
    if (!may_fail() && count != seen)
      fail("a counter is wrong");
  }
  for (auto const &each : requests_) {
    bool const is_over = !each.is_out || each.quiet || !is_here(each.owner);
    bool const is_left_receive =
        each.kind == request_kind::receive && model_.looks[each.look].took.empty();
    if (!is_over && !is_left_receive)
      fail("a request of kind " + std::to_string(int(each.kind)) + " never completes");
  }
}

}  // namespace tanada::test
