#include "products/shmem/collectives/departures.hpp"

#include "products/shmem/collectives/stalls.hpp"

namespace tanada::shmem {
namespace {

// A departure in a word: zero is none.
uint64_t departure_word(uint64_t count, departure_kind kind) noexcept {
  return count << 2 | (kind == departure_kind::exit ? 2u : 0u) | 1u;
}
uint64_t count_of(uint64_t word) noexcept {
  return word >> 2;
}
departure_kind kind_of(uint64_t word) noexcept {
  return (word & 2) != 0 ? departure_kind::exit : departure_kind::finalize;
}

}  // namespace

void departures::announce(departure_kind kind, const std::vector<membership> &teams) {
  auto const me = by_.job->me();
  auto const update = [this](port::fabric_atomic how, uint64_t *word, uint64_t value, auto pe) {
    static_cast<void>(by_.context->update<uint64_t>(how, word, value, 0, nullptr, pe));
  };
  // What is behind the last collective operations is seen before the departure is.
  static_cast<void>(by_.signals->quiet());
  static_cast<void>(by_.context->quiet());
  // Atomic: others, who know of an earlier departure, may read the word now.
  for (auto const &each : teams) {
    uint64_t const word = departure_word(each.entered, kind);
    uint64_t *const own = layout_.departures_of(by_.job->control(), each.slot) + me;
    for (pgas::pe_index const pe : each.members->pes) {
      if (pe != me)
        update(port::fabric_atomic::swap, own, word, pe);
    }
  }
  static_cast<void>(by_.context->quiet());
  for (pgas::pe_index pe = 0; pe < by_.job->count(); pe++) {
    if (pe != me)
      update(port::fabric_atomic::add, count_word(), 1, pe);
  }
  static_cast<void>(by_.context->quiet());
}

std::optional<departure> departures::find_absent(const group &members, size_t slot,
                                                 uint64_t entered) const noexcept {
  auto const *const words = layout_.departures_of(by_.job->control(), slot);
  for (pgas::pe_index const pe : members.pes) {
    uint64_t const word = __atomic_load_n(words + pe, __ATOMIC_ACQUIRE);
    if (word != 0 && count_of(word) < entered)
      return departure{pe, kind_of(word)};
  }
  return std::nullopt;
}

std::optional<departure> departures::departure_of(pgas::pe_index pe, size_t slot) const noexcept {
  auto const *const words = layout_.departures_of(by_.job->control(), slot);
  uint64_t const word = __atomic_load_n(words + pe, __ATOMIC_ACQUIRE);
  if (word == 0)
    return std::nullopt;
  return departure{pe, kind_of(word)};
}

void departures::report(const departure &reason) noexcept {
  reported_ = departure_word(uint64_t(reason.pe), reason.kind);
}

std::optional<departure> departures::reported() const noexcept {
  uint64_t const word = reported_;
  if (word == 0)
    return std::nullopt;
  return departure{pgas::pe_index(count_of(word)), kind_of(word)};
}

namespace {

// Whether a wait that has looked in vain can go on.
status check_stall(const team_guard::source &from, const char *call) {
  if (!from.stalls.look(call))
    return status::ok;
  from.all.report(from.stalls.cause());
  return status::peer_lost;
}

}  // namespace

status team_guard::check() {
  auto &all = from_.all;
  if (all.count() != 0) {
    uint64_t const entered = entered_.load(std::memory_order_relaxed);
    if (auto const absent = all.find_absent(members_, slot_, entered)) {
      all.report(*absent);
      return status::peer_lost;
    }
  }
  return check_stall(from_, "a collective operation");
}

void team_guard::end() {
  from_.stalls.end();
}

status desertion_guard::check() {
  auto &all = from_.all;
  if (all.count() >= uint64_t(members_.count() - 1)) {
    auto const absent = all.find_absent(members_, slot_, UINT64_MAX);
    if (!absent)
      return status::ok;  // this PE is alone
    all.report(*absent);
    return status::peer_lost;
  }
  return check_stall(from_, call_.load(std::memory_order_relaxed));
}

void desertion_guard::end() {
  from_.stalls.end();
}

}  // namespace tanada::shmem
