// Announcing that this PE leaves the job, and finding PEs that have left.
#include "products/shmem/collectives/departures.hpp"

#include "products/shmem/collectives/stalls.hpp"

namespace tanada::shmem {
namespace {

// A departure encoded in a word; zero: none.
uint64_t departure_word(uint64_t count, departure_kind kind) noexcept {
  TND_ASSERT(count <= UINT64_MAX >> 2);
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
  auto const me = channel_.job->me();
  auto const update = [this](seams::fabric_atomic how, uint64_t *word, uint64_t value, auto pe) {
    static_cast<void>(channel_.context->update<uint64_t>(how, word, value, 0, nullptr, pe));
  };
  // The last collective operations complete in other PEs before they see the departure.
  static_cast<void>(channel_.signals->quiet());
  static_cast<void>(channel_.context->quiet());
  // Atomic, because PEs that know of an earlier departure may read the word now.
  for (auto const &entry : teams) {
    uint64_t const word = departure_word(entry.entered, kind);
    uint64_t *const own_word = layout_.departures_of(channel_.job->control(), entry.slot) + me;
    for (onesided::pe_index const pe : entry.members->pes) {
      if (pe != me)
        update(seams::fabric_atomic::swap, own_word, word, pe);
    }
  }
  static_cast<void>(channel_.context->quiet());
  for (onesided::pe_index pe = 0; pe < channel_.job->count(); pe++) {
    if (pe != me)
      update(seams::fabric_atomic::add, count_word(), 1, pe);
  }
  static_cast<void>(channel_.context->quiet());
}

std::optional<departure> departures::find_absent(const group &members,
                                                 size_t slot,
                                                 uint64_t entered) const noexcept {
  auto const *const words = layout_.departures_of(channel_.job->control(), slot);
  for (onesided::pe_index const pe : members.pes) {
    uint64_t const word = __atomic_load_n(words + pe, __ATOMIC_ACQUIRE);
    if (word != 0 && count_of(word) < entered)
      return departure{pe, kind_of(word)};
  }
  return std::nullopt;
}

std::optional<departure> departures::departure_of(onesided::pe_index pe,
                                                  size_t slot) const noexcept {
  TND_ASSERT(pe >= 0 && pe < channel_.job->count());
  auto const *const words = layout_.departures_of(channel_.job->control(), slot);
  uint64_t const word = __atomic_load_n(words + pe, __ATOMIC_ACQUIRE);
  if (word == 0)
    return std::nullopt;
  return departure{pe, kind_of(word)};
}

void departures::report(const departure &reason) noexcept {
  TND_ASSERT(reason.pe >= 0 && reason.pe < channel_.job->count());
  reported_ = departure_word(uint64_t(reason.pe), reason.kind);
}

std::optional<departure> departures::reported() const noexcept {
  uint64_t const word = reported_;
  if (word == 0)
    return std::nullopt;
  return departure{onesided::pe_index(count_of(word)), kind_of(word)};
}

namespace {

// Checks whether a wait that polled without success can still end.
status check_stall(const team_guard::detector_refs &detectors, const char *call) {
  if (!detectors.stalls.check(call))
    return status::ok;
  detectors.departed.report(detectors.stalls.cause());
  return status::peer_lost;
}

}  // namespace

status team_guard::check() {
  auto &departed = detectors_.departed;
  if (departed.count() != 0) {
    uint64_t const entered = entered_.load(std::memory_order_relaxed);
    if (auto const absent = departed.find_absent(members_, slot_, entered)) {
      departed.report(*absent);
      return status::peer_lost;
    }
  }
  return check_stall(detectors_, "a collective operation");
}

void team_guard::end() {
  detectors_.stalls.end();
}

status departure_guard::check() {
  auto &departed = detectors_.departed;
  if (departed.count() >= uint64_t(members_.count() - 1)) {
    auto const absent = departed.find_absent(members_, slot_, UINT64_MAX);
    if (!absent)
      return status::ok;  // this is the only PE
    departed.report(*absent);
    return status::peer_lost;
  }
  return check_stall(detectors_, call_.load(std::memory_order_relaxed));
}

void departure_guard::end() {
  detectors_.stalls.end();
}

}  // namespace tanada::shmem
