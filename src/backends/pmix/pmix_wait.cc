// Waits for answers of PMIx, with a deadline.
#include "backends/pmix/pmix_wait.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

// State of the process, as PMIx has one. Never destroyed, because threads of PMIx may call back
// until the process ends.
struct process_state {
  tanada::mutex mutex;  // guards all answers
  condition_variable changed;
  std::atomic<int32_t> lost{-1};
};

process_state &state() {
  static auto *const instance = new process_state;
  return *instance;
}

}  // namespace

struct pmix_wait::shared {
  bool is_done = false;
  pmix_answer answer;
};

pmix_wait::pmix_wait() : shared_{std::make_shared<shared>()} {}

void *pmix_wait::data() {
  return new std::shared_ptr<shared>{shared_};
}

void pmix_wait::release_data(void *data) {
  delete static_cast<std::shared_ptr<shared> *>(data);
}

void pmix_wait::on_done(pmix_status_t code, void *data) {
  on_registered(code, 0, data);
}

void pmix_wait::on_registered(pmix_status_t code, size_t reference, void *data) {
  std::unique_ptr<std::shared_ptr<shared>> const held{static_cast<std::shared_ptr<shared> *>(data)};
  lock_guard const lock{state().mutex};
  TND_ASSERT(held != nullptr && !(*held)->is_done);
  (*held)->answer.code = code;
  (*held)->answer.reference = reference;
  (*held)->is_done = true;
  state().changed.notify_all();
}

pmix_answer pmix_get(const pmix_proc_t &process, const std::string &key) {
  // PMIX_IMMEDIATE: return a missing value as missing, without waiting for other processes.
  pmix_info_t immediate{};
  std::snprintf(immediate.key, sizeof immediate.key, "%s", PMIX_IMMEDIATE);
  immediate.value.type = PMIX_BOOL;
  immediate.value.data.flag = true;
  pmix_answer answer;
  pmix_value_t *value = nullptr;
  answer.code = PMIx_Get(&process, key.c_str(), &immediate, 1, &value);
  if (answer.code == PMIX_SUCCESS && value == nullptr)
    answer.code = PMIX_ERR_NOT_FOUND;
  if (answer.code != PMIX_SUCCESS)
    return answer;
  const void *start = nullptr;
  size_t size = 0;
  switch (value->type) {
    case PMIX_BOOL:
      answer.number = value->data.flag ? 1 : 0;
      break;
    case PMIX_UINT32:
      answer.number = value->data.uint32;
      break;
    case PMIX_STRING:
      start = value->data.string;
      size = std::strlen(value->data.string);
      break;
    case PMIX_BYTE_OBJECT:
      start = value->data.bo.bytes;
      size = value->data.bo.size;
      break;
    default:
      answer.code = PMIX_ERR_TYPE_MISMATCH;
  }
  auto const *const first = static_cast<const std::byte *>(start);
  if (size != 0)
    answer.bytes.assign(first, first + size);
  PMIX_VALUE_RELEASE(value);
  return answer;
}

status pmix_wait::wait(uint64_t timeout_ns, bool may_be_lost, pmix_answer &answer) {
  uint64_t const deadline_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns);
  unique_lock lock{state().mutex};
  while (!shared_->is_done) {
    if (may_be_lost && state().lost >= 0)
      return status::peer_lost;
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    if (now_ns >= deadline_ns)
      return status::timed_out;
    state().changed.wait_for(
        lock, std::chrono::nanoseconds{std::min<uint64_t>(deadline_ns - now_ns, 1'000'000'000)});
  }
  answer = std::move(shared_->answer);
  return status::ok;
}

status pmix_bounded(uint64_t timeout_ns, std::function<pmix_status_t()> call, pmix_status_t &code) {
  pmix_wait wait;
  void *const data = wait.data();
  std::thread{[call = std::move(call), data] {
    pmix_wait::on_done(call(), data);
  }}.detach();
  pmix_answer answer;
  TND_TRY(wait.wait(timeout_ns, false, answer));
  code = answer.code;
  return status::ok;
}

int32_t pmix_failed_rank() noexcept {
  return state().lost.load(std::memory_order_relaxed);
}

void pmix_set_failed(int32_t rank) {
  TND_ASSERT(rank >= 0);
  lock_guard const lock{state().mutex};
  if (state().lost < 0)
    state().lost = rank;
  state().changed.notify_all();
}

status pmix_status_of(pmix_status_t code) {
  switch (code) {
    case PMIX_SUCCESS:
    case PMIX_OPERATION_SUCCEEDED:
      return status::ok;
    case PMIX_ERR_TIMEOUT:
      return status::timed_out;
    case PMIX_ERR_NOT_FOUND:
      return status::no_entry;
    case PMIX_ERR_NOMEM:
      return status::no_memory;
    case PMIX_ERR_NOT_SUPPORTED:
      return status::not_supported;
    case PMIX_ERR_LOST_CONNECTION:
    case PMIX_ERR_UNREACH:
    case PMIX_ERR_PARTIAL_SUCCESS:
    case PMIX_ERR_PROC_REQUESTED_ABORT:
    case PMIX_ERR_PROC_ABORTED_BY_SIG:
    case PMIX_ERR_PROC_TERM_WO_SYNC:
      return status::peer_lost;
    default:
      return status::io;
  }
}

}  // namespace tanada::backends
