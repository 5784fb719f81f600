// tests/sim/pgas_shared.cc: updates of words by all contexts: in any order, none is lost and none
// is done twice.
#include "sim/pgas_harness.hpp"

namespace tanada::test {

using seams::fabric_atomic;
using seams::fabric_element;

// An update that counts at the end; certain unless it is refused.
status pgas_run::give(actor &self,
                      uint32_t target,
                      const contribution &what,
                      const std::function<status()> &how) {
  self.given[target].add(what);
  status const code = call(self, target, how);
  if (code != status::ok)
    self.unsure[target].add(what);
  return code;
}

void pgas_run::update_shared(actor &self, uint32_t target) {
  switch (world_.random.below(way_ != pgas_way::direct ? 5 : 6)) {
    case 0:
      return take_ticket(self, target);
    case 1:
      return take_small_ticket(self, target);
    case 2:
      return pass_token(self, target);
    case 3:
      return guess(self, target);
    case 4:
      return add_and_mask(self, target);
    default:
      return accumulate(self, target);
  }
}

// "Atomics on one word are performed one after the other": each ticket once, and later ones higher.
void pgas_run::ticket_seen(uint32_t target, uint64_t ticket, uint64_t top_before) {
  auto &of = shared_[target];
  if (!of.tickets.insert(ticket).second)
    fail("the ticket " + std::to_string(ticket) + " is given twice");
  if (ticket < top_before)
    fail("the ticket " + std::to_string(ticket) + " is given late");
  of.ticket_top = std::max(of.ticket_top, ticket + 1);
}

void pgas_run::take_ticket(actor &self, uint32_t target) {
  uint64_t const top_before = shared_[target].ticket_top;
  bool const waits = world_.random.chance(60);
  auto &mine = self.tickets.emplace_back(target, top_before, ~uint64_t{0});
  auto const to = word_of(self, target, &own_words(self).tickets);
  onesided::remote_context::atomic const what{
      .kind = fabric_atomic::add, .element = fabric_element::u64, .operand = 1};
  status const code = give(self, target, {.tickets = 1}, [&] {
    return waits ? self.context->update(onesided::pe_index(target), to, what, &mine.value)
                 : self.context->update_nbi(onesided::pe_index(target), to, what, &mine.value);
  });
  if (code == status::ok && !waits)
    return;
  uint64_t const value = mine.value;
  self.tickets.pop_back();
  if (code == status::ok)
    ticket_seen(target, value, top_before);
}

void pgas_run::take_small_ticket(actor &self, uint32_t target) {
  uint32_t value[2] = {0, 0xDEAD};
  auto const to = word_of(self, target, &own_words(self).small_tickets);
  status const code = give(self, target, {.small_tickets = 1}, [&] {
    return self.context->update(
        onesided::pe_index(target),
        to,
        {.kind = fabric_atomic::add, .element = fabric_element::u32, .operand = 1},
        &value[0]);
  });
  if (value[1] != 0xDEAD)
    fail("more than its result is written");
  if (code == status::ok && !shared_[target].small_tickets.insert(value[0]).second)
    fail("a small ticket is given twice");
}

void pgas_run::pass_token(actor &self, uint32_t target) {
  uint64_t const token = ++stamp_;
  uint64_t before = ~uint64_t{0};
  shared_[target].tokens_given.insert(token);
  auto const to = word_of(self, target, &own_words(self).token);
  status const code = call(self, target, [&] {
    return self.context->update(
        onesided::pe_index(target),
        to,
        {.kind = fabric_atomic::swap, .element = fabric_element::u64, .operand = token},
        &before);
  });
  if (code != status::ok)
    return;
  if (before != 0 && !shared_[target].tokens_given.contains(before))
    fail("a token that nobody gave");
  if (!shared_[target].tokens_seen.insert(before).second)
    fail("a token is seen twice");
}

void pgas_run::guess(actor &self, uint32_t target) {
  auto const to = word_of(self, target, &own_words(self).guess);
  uint64_t last = 0, before = 0;
  status code = call(self, target, [&] {
    return self.context->update(onesided::pe_index(target),
                                to,
                                {.kind = fabric_atomic::fetch, .element = fabric_element::u64},
                                &last);
  });
  if (code != status::ok)
    return;
  code = give(self, target, {.guesses_won = 1}, [&] {
    return self.context->update(onesided::pe_index(target),
                                to,
                                {.kind = fabric_atomic::compare_swap,
                                 .element = fabric_element::u64,
                                 .operand = last + 1,
                                 .compare = last},
                                &before);
  });
  if (code == status::ok && before != last)
    self.given[target].guesses_won--;
  if (code == status::ok && before < last)
    fail("a counter goes back");
}

void pgas_run::add_and_mask(actor &self, uint32_t target) {
  uint64_t const value = world_.random.between(1, 1'000),
                 bit = uint64_t{1} << world_.random.below(64);
  bool const adds = world_.random.chance(60);
  auto const to = word_of(self, target, adds ? &own_words(self).added : &own_words(self).mask);
  (void)give(self, target, adds ? contribution{.added = value} : contribution{.mask = bit}, [&] {
    return self.context->update(onesided::pe_index(target),
                                to,
                                {.kind = adds ? fabric_atomic::add : fabric_atomic::bit_or,
                                 .element = fabric_element::u64,
                                 .operand = adds ? value : bit},
                                nullptr);
  });
}

void pgas_run::accumulate(actor &self, uint32_t target) {
  uint64_t const value = world_.random.between(1, 1'000);
  bool const is_real = world_.random.chance(50);
  auto const bytes = buffer(self, 32);
  for (size_t i = 0; i < 4; i++) {
    double const real = double(value);
    std::memcpy(bytes.data() + 8 * i, is_real ? static_cast<const void *>(&real) : &value, 8);
  }
  auto const to = is_real ? word_of(self, target, own_words(self).real_sums)
                          : word_of(self, target, own_words(self).sums);
  fabric_element const real_element =
      world_.random.chance(50) ? fabric_element::f64 : fabric_element::c128;
  status const code = give(
      self, target, is_real ? contribution{.real_sums = value} : contribution{.sums = value}, [&] {
        return self.context->accumulate(onesided::pe_index(target),
                                        to,
                                        is_real ? real_element : fabric_element::u64,
                                        bytes.data(),
                                        bytes.size());
      });
  if (code == status::ok)
    scribble(bytes);
}

}  // namespace tanada::test
