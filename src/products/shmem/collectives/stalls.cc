// Finding a job whose PEs all wait after one has left.
#include "products/shmem/collectives/stalls.hpp"

#include <algorithm>
#include <cstring>

namespace tanada::shmem {
namespace {

// How long all must be seen waiting. The proof needs no time, but assumes that networks deliver.
constexpr uint64_t stall_patience_ns = 2'000'000'000;
constexpr size_t described_count_max = 8;

bool is_waiting(uint64_t number) noexcept {
  return number % 2 == 1;
}

}  // namespace

void stall_detector::publish(const char *call) {
  auto &board = *layout_.wait_board_of(by_.job->control());
  if (!is_waiting(board.number)) {
    std::strncpy(board.call, call, sizeof board.call - 1);
    board.call[sizeof board.call - 1] = '\0';
    __atomic_store_n(&board.number, board.number + 1, __ATOMIC_SEQ_CST);
  }
  __atomic_store_n(&board.looks, board.looks + 1, __ATOMIC_SEQ_CST);
}

// Writes nothing where nothing was published: several threads may wait then.
void stall_detector::end() {
  if (!is_settled_)
    return;
  auto &board = *layout_.wait_board_of(by_.job->control());
  if (!is_waiting(board.number))
    return;
  __atomic_store_n(&board.number, board.number + 1, __ATOMIC_SEQ_CST);
  first_.clear();
}

// False: a PE that has not left does not wait, or cannot be read; or none has left.
bool stall_detector::observe(std::vector<observation> &into) {
  std::optional<departure> first;
  auto *const board = layout_.wait_board_of(by_.job->control());
  auto const read = [this](uint64_t *word, uint64_t &value, pgas::pe_index pe) {
    return by_.context->update<uint64_t>(port::fabric_atomic::fetch, word, 0, 0, &value, pe) ==
           status::ok;
  };
  for (pgas::pe_index pe = 0; pe < by_.job->count(); pe++) {
    if (auto const gone = departures_.departure_of(pe, world_slot_)) {
      if (!first)
        first = gone;
      continue;
    }
    observation now{pe, 0, 0};
    // In this order: a number that is still the same says that the looks read before it are of the
    // same wait.
    if (!read(&board->looks, now.looks, pe))
      return false;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!read(&board->number, now.number, pe))
      return false;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!is_waiting(now.number))
      return false;
    into.push_back(now);
  }
  if (first)
    cause_ = *first;
  return first.has_value();
}

bool stall_detector::look(const char *call) {
  if (!is_settled_)
    return false;
  if (!is_settled_()) {
    end();
    return false;
  }
  publish(call);
  std::vector<observation> now;
  if (departures_.count() == 0 || !observe(now)) {
    first_.clear();
    return false;
  }
  return is_proof(std::move(now));
}

bool stall_detector::is_proof(std::vector<observation> now) {
  auto const is_same_wait = [](const observation &one, const observation &other) {
    return one.pe == other.pe && one.number == other.number;
  };
  if (!std::ranges::equal(now, first_, is_same_wait)) {
    first_ = std::move(now);
    is_confirmed_ = false;
    since_ns_ = by_.job->time().now_ns();
    return false;
  }
  if (!is_confirmed_) {
    first_ = std::move(now);
    is_confirmed_ = true;
    return false;
  }
  auto const has_looked = [](const observation &later, const observation &before) {
    return later.looks >= before.looks + 2;
  };
  if (!std::ranges::equal(now, first_, has_looked))
    return false;
  if (by_.job->time().now_ns() - since_ns_ < stall_patience_ns)
    return false;
  note_stall(now);
  return true;
}

void stall_detector::note_stall(const std::vector<observation> &waiting) {
  auto *const board = layout_.wait_board_of(by_.job->control());
  description_.clear();
  for (size_t i = 0; i < std::min(waiting.size(), described_count_max); i++) {
    decltype(board->call) call{};
    if (by_.context->get(call, board->call, sizeof call, waiting[i].pe) != status::ok)
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
