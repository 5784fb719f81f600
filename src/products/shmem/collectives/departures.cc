// Announcing that this PE leaves the job, and finding PEs that have left.
#include "products/shmem/collectives/departures.hpp"

#include "products/shmem/collectives/stalls.hpp"

namespace tanada::shmem {
namespace {

// A departure encoded in a word; zero: none. `pe` is kept where the word's place does not name it.
uint64_t departure_word(departure_kind kind, onesided::pe_index pe = 0) noexcept {
  TND_ASSERT(pe >= 0);
  return uint64_t(pe) << 2 | (kind == departure_kind::exit ? 2u : 0u) | 1u;
}
onesided::pe_index pe_of(uint64_t word) noexcept {
  return onesided::pe_index(word >> 2);
}
departure_kind kind_of(uint64_t word) noexcept {
  return (word & 2) != 0 ? departure_kind::exit : departure_kind::finalize;
}

}  // namespace

// FNV-1a over the PEs' numbers.
uint64_t identity_of(const group &members) noexcept {
  uint64_t identity = 0xcbf29ce484222325;
  for (onesided::pe_index const pe : members.pes)
    identity = (identity ^ uint64_t(pe)) * 0x100000001b3;
  return identity | 1;
}

// The others read the records when they know of the departure.
void departures::record(const std::vector<membership> &teams) noexcept {
  for (auto const &entry : teams) {
    auto &record = *layout_.departed_team_of(channel_.job->control(), entry.slot);
    __atomic_store_n(&record.entered, entry.entered, __ATOMIC_RELEASE);
    __atomic_store_n(&record.identity, identity_of(*entry.members), __ATOMIC_RELEASE);
  }
}

void departures::announce(departure_kind kind, const std::vector<membership> &teams) {
  auto const me = channel_.job->me();
  auto const update = [this](seams::fabric_atomic how, uint64_t *word, uint64_t value, auto pe) {
    static_cast<void>(channel_.context->update<uint64_t>(how, word, value, 0, nullptr, pe));
  };
  // The last collective operations complete in other PEs before they see the departure.
  static_cast<void>(channel_.signals->quiet());
  static_cast<void>(channel_.context->quiet());
  record(teams);
  // Atomic, because PEs that know of an earlier departure may read the word now.
  uint64_t *const own_word = layout_.departures(channel_.job->control()) + me;
  for (onesided::pe_index pe = 0; pe < channel_.job->count(); pe++) {
    if (pe != me)
      update(seams::fabric_atomic::swap, own_word, departure_word(kind), pe);
  }
  static_cast<void>(channel_.context->quiet());
  for (onesided::pe_index pe = 0; pe < channel_.job->count(); pe++) {
    if (pe != me)
      update(seams::fabric_atomic::add, count_word(), 1, pe);
  }
  static_cast<void>(channel_.context->quiet());
}

// A PE that cannot be read has not departed: its failure ends the wait.
bool departures::has_entered(onesided::pe_index pe,
                             const team_key &key,
                             uint64_t entered) const noexcept {
  auto *const record = layout_.departed_team_of(channel_.job->control(), key.slot);
  auto const read = [&](uint64_t *word) -> std::optional<uint64_t> {
    uint64_t value = 0;
    if (channel_.context->update<uint64_t>(seams::fabric_atomic::fetch, word, 0, 0, &value, pe) !=
        status::ok)
      return std::nullopt;
    return value;
  };
  auto const identity = read(&record->identity);
  if (!identity || *identity != key.identity)
    return true;
  auto const count = read(&record->entered);
  return !count || *count >= entered;
}

std::optional<departure> departures::find_absent(const team_key &key,
                                                 uint64_t entered) const noexcept {
  for (onesided::pe_index const pe : key.members->pes) {
    if (auto const departed = departure_of(pe); departed && !has_entered(pe, key, entered))
      return departed;
  }
  return std::nullopt;
}

std::optional<departure> departures::find_departed(const group &members) const noexcept {
  for (onesided::pe_index const pe : members.pes) {
    if (auto const departed = departure_of(pe))
      return departed;
  }
  return std::nullopt;
}

std::optional<departure> departures::departure_of(onesided::pe_index pe) const noexcept {
  TND_ASSERT(pe >= 0 && pe < channel_.job->count());
  auto const *const words = layout_.departures(channel_.job->control());
  uint64_t const word = __atomic_load_n(words + pe, __ATOMIC_ACQUIRE);
  if (word == 0)
    return std::nullopt;
  return departure{pe, kind_of(word)};
}

void departures::report(const departure &reason) noexcept {
  TND_ASSERT(reason.pe >= 0 && reason.pe < channel_.job->count());
  reported_ = departure_word(reason.kind, reason.pe);
}

std::optional<departure> departures::reported() const noexcept {
  uint64_t const word = reported_;
  if (word == 0)
    return std::nullopt;
  return departure{pe_of(word), kind_of(word)};
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
    if (auto const absent = departed.find_absent(key_, entered)) {
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
    auto const absent = departed.find_departed(members_);
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
