// Detecting a job whose PEs all wait after one has left.
#include "products/shmem/collectives/stalls.hpp"

#include <algorithm>
#include <cstring>

namespace tanada::shmem {
namespace {

// Minimum time for which all PEs must be seen waiting. The proof needs no time, but assumes that
// networks deliver.
constexpr uint64_t stall_delay_ns = 2'000'000'000;
constexpr size_t described_count_max = 8;

bool is_waiting(uint64_t number) noexcept {
  return number % 2 == 1;
}

}  // namespace

void stall_detector::publish(const char *call) {
  auto &published = *layout_.published_wait_of(channel_.job->control());
  if (!is_waiting(published.number)) {
    std::strncpy(published.call, call, sizeof published.call - 1);
    published.call[sizeof published.call - 1] = '\0';
    __atomic_store_n(&published.number, published.number + 1, __ATOMIC_SEQ_CST);
  }
  __atomic_store_n(&published.poll_count, published.poll_count + 1, __ATOMIC_SEQ_CST);
}

// Writes nothing if nothing was published, since several threads may wait then.
void stall_detector::end() {
  if (!is_settled_)
    return;
  auto &published = *layout_.published_wait_of(channel_.job->control());
  if (!is_waiting(published.number))
    return;
  __atomic_store_n(&published.number, published.number + 1, __ATOMIC_SEQ_CST);
  first_.clear();
}

// Returns false if a remaining PE does not wait or cannot be read, or if none has left.
bool stall_detector::observe(std::vector<observation> &samples) {
  std::optional<departure> first;
  auto *const published = layout_.published_wait_of(channel_.job->control());
  auto const read = [this](uint64_t *word, uint64_t &value, onesided::pe_index pe) {
    return channel_.context->update<uint64_t>(
               seams::fabric_atomic::fetch, word, 0, 0, &value, pe) == status::ok;
  };
  for (onesided::pe_index pe = 0; pe < channel_.job->count(); pe++) {
    if (auto const departed = departures_.departure_of(pe)) {
      if (!first)
        first = departed;
      continue;
    }
    observation sample{pe, 0, 0};
    // The poll count is read first: if the number is still the same afterwards, the poll count
    // belongs to the same wait.
    if (!read(&published->poll_count, sample.poll_count, pe))
      return false;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!read(&published->number, sample.number, pe))
      return false;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!is_waiting(sample.number))
      return false;
    samples.push_back(sample);
  }
  if (first)
    cause_ = *first;
  return first.has_value();
}

bool stall_detector::check(const char *call) {
  if (!is_settled_)
    return false;
  if (!is_settled_()) {
    end();
    return false;
  }
  publish(call);
  std::vector<observation> samples;
  if (departures_.count() == 0 || !observe(samples)) {
    first_.clear();
    return false;
  }
  return is_proof(std::move(samples));
}

bool stall_detector::is_proof(std::vector<observation> samples) {
  TND_ASSERT(!samples.empty());  // this PE waits
  auto const is_same_wait = [](const observation &lhs, const observation &rhs) {
    return lhs.pe == rhs.pe && lhs.number == rhs.number;
  };
  if (!std::ranges::equal(samples, first_, is_same_wait)) {
    first_ = std::move(samples);
    is_confirmed_ = false;
    since_ns_ = channel_.job->time().now_ns();
    return false;
  }
  if (!is_confirmed_) {
    first_ = std::move(samples);
    is_confirmed_ = true;
    return false;
  }
  auto const has_polled_twice = [](const observation &later, const observation &before) {
    return later.poll_count >= before.poll_count + 2;
  };
  if (!std::ranges::equal(samples, first_, has_polled_twice))
    return false;
  if (channel_.job->time().now_ns() - since_ns_ < stall_delay_ns)
    return false;
  note_stall(samples);
  return true;
}

void stall_detector::note_stall(const std::vector<observation> &waiting) {
  TND_ASSERT(departures_.count() != 0 && !waiting.empty());
  auto *const published = layout_.published_wait_of(channel_.job->control());
  description_.clear();
  for (size_t i = 0; i < std::min(waiting.size(), described_count_max); i++) {
    decltype(published->call) call{};
    if (channel_.context->get(call, published->call, sizeof call, waiting[i].pe) != status::ok)
      call[0] = '\0';
    call[sizeof call - 1] = '\0';
    if (i > 0)
      description_ += ", ";
    description_ +=
        "PE " + std::to_string(waiting[i].pe) + " in " + (call[0] == '\0' ? "a call" : call);
  }
  if (waiting.size() > described_count_max) {
    description_ += " and " + std::to_string(waiting.size() - described_count_max) + " more";
  }
}

}  // namespace tanada::shmem
