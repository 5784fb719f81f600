// Operations of a lane: starting them, and handling their completions.
#include <cstring>

#include "core/base/log.hpp"
#include "onesided/job/lane_state.hpp"

namespace tanada::onesided {

lane::lane(std::unique_ptr<seams::fabric_endpoint> endpoint,
           std::vector<seams::fabric_address> addresses,
           options chosen)
    : state_{
          std::make_unique<state>(std::move(endpoint), std::move(addresses), std::move(chosen))} {}

lane::~lane() = default;

bool lane::progress_outstanding() noexcept {
  return state_->progress_outstanding();
}
pe_index lane::failed_pe() const noexcept {
  return state_->failed_pe();
}
bool lane::is_ordered() const noexcept {
  return state_->is_ordered();
}
void lane::try_progress() noexcept {
  state_->try_progress();
}
status lane::wait_for_access(uint64_t deadline_ns) noexcept {
  return state_->wait_for_access(deadline_ns);
}

lane::state::state(std::unique_ptr<seams::fabric_endpoint> endpoint,
                   std::vector<seams::fabric_address> addresses,
                   options chosen)
    : options_{std::move(chosen)},
      addresses_{std::move(addresses)},
      endpoint_{std::move(endpoint)},
      progress_lock_{*endpoint_, *options_.time, options_.is_oversubscribed},
      is_ordered_{endpoint_->properties().is_ordered},
      needs_progress_{!is_ordered_ || !endpoint_->properties().has_auto_progress},
      copied_size_max_{endpoint_->properties().copied_size_max},
      peers_(addresses_.size(), seams::no_fabric_peer),
      has_failed_(addresses_.size()),
      records_(endpoint_->properties().depth) {
  record_count_ = uint32_t(records_.size());
  for (uint32_t i = uint32_t(records_.size()); i > 0; i--)
    record_free(i - 1);
  if (!is_ordered_)
    chained_.resize(records_.size());
}

lane::state::~state() = default;

result<seams::fabric_peer> lane::state::find_or_add_peer(pe_index pe) {
  TND_ASSERT(size_t(pe) < peers_.size());
  auto &known = peers_[size_t(pe)];
  if (has_failed_[size_t(pe)]) [[unlikely]]
    return status::peer_lost;
  if (known == seams::no_fabric_peer) [[unlikely]] {
    auto added = endpoint_->peer_add(addresses_[size_t(pe)].span());
    if (!added.ok())
      return added.error();
    known = added.value();
  }
  return known;
}

uint32_t lane::state::record_take(remote_context &owner,
                                  pe_index pe,
                                  const completion_action &action) {
  uint32_t const index = first_free_;
  if (index == no_index)
    return no_index;
  auto &entry = records_[index];
  TND_ASSERT(entry.owner == nullptr);
  first_free_ = entry.next_free;
  record_count_.store(record_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  entry = {.owner = &owner, .action = action, .pe = pe, .is_chained = action.chained_op != nullptr};
  return index;
}

void lane::state::record_free(uint32_t index) {
  TND_ASSERT(index < records_.size() && record_count_.load(std::memory_order_relaxed) != 0);
  records_[index].owner = nullptr;
  records_[index].next_free = first_free_;
  first_free_ = index;
  record_count_.store(record_count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

// A fence requires that earlier operations are complete, unless the fabric orders them.
void lane::state::enforce_fence(guard &lock, remote_context &owner) {
  uint32_t const fences = owner.fence_count_.load(std::memory_order_relaxed);
  if (is_ordered_ || fences == owner.fences_enforced_)
    return;
  drain(lock, owner);
  if (int32_t(fences - owner.fences_enforced_) > 0)
    owner.fences_enforced_ = fences;
}

// again: no record is free, or the fabric does not accept it now.
status lane::state::try_start(remote_context &owner,
                              pe_index pe,
                              seams::fabric_op &op,
                              const completion_action &action) {
  uint32_t const index = record_take(owner, pe, action);
  if (index == no_index)
    return status::again;
  if (action.chained_op != nullptr) {
    TND_ASSERT(!is_ordered_);
    chained_[index] = *action.chained_op;
    chained_[index].op_id = index;
    chained_[index].peer = op.peer;
    chained_[index].deadline_ns = op.deadline_ns;
  }
  op.op_id = index;
  status const code = endpoint_->post(op);
  if (code != status::ok) [[unlikely]] {
    record_free(index);
    return code;
  }
  if (needs_progress_ && options_.on_first_outstanding &&
      record_count_.load(std::memory_order_relaxed) == 1)
    options_.on_first_outstanding();
  records_[index].epoch = owner.epochs_.start_operation();
  return code;
}

status lane::state::start(guard &lock,
                          remote_context &owner,
                          pe_index pe,
                          seams::fabric_op &op,
                          const completion_action &action) {
  TND_ASSERT(lock.owns_lock());
  if (op.kind != seams::fabric_op_kind::read)
    enforce_fence(lock, owner);
  progress_lock_.claim_endpoint(lock);
  auto peer = find_or_add_peer(pe);
  if (!peer.ok())
    return peer.error();
  op.peer = peer.value();
  op.deadline_ns = seams::deadline_after(options_.time->now_ns(), options_.timeout_ns);
  for (backoff_state backoff;; step(lock, backoff), progress_lock_.claim_endpoint(lock)) {
    if (has_failed_[size_t(pe)])
      return status::peer_lost;
    // Once all records were in use, wait until a quarter is free. The fabric may then put several
    // operations into one packet, instead of one for each that has ended.
    bool const has_space = backoff.total_rounds == 0 ||
                           record_count_.load(std::memory_order_relaxed) <= records_.size() / 4 * 3;
    status const code = has_space ? try_start(owner, pe, op, action) : status::again;
    if (code != status::again) [[likely]]
      return code;
    if (progress_lock::is_check_due(backoff))
      fail_dead_peers();
    if (progress_lock_.is_past(backoff, op.deadline_ns))
      return status::timed_out;
  }
}

status lane::state::start_from_caller(guard &lock,
                                      remote_context &owner,
                                      pe_index pe,
                                      seams::fabric_op &op,
                                      const seams::fabric_op *chained_op) {
  blocking_wait waiter;
  TND_TRY(start_early(lock, owner, pe, op, chained_op, waiter));
  wait(lock, owner, waiter);
  return waiter.code;
}

status lane::state::start_early(guard &lock,
                                remote_context &owner,
                                pe_index pe,
                                seams::fabric_op &op,
                                const seams::fabric_op *chained_op,
                                blocking_wait &waiter) {
  waiter.is_done = true;
  if (op.size <= copied_size_max_) {
    op.is_copied = true;
    return start(lock, owner, pe, op, {.chained_op = chained_op});
  }
  uint32_t const buffer =
      op.size <= bounce_pool::buffer_size ? bounce_buffers_.take() : bounce_pool::no_buffer;
  if (buffer == bounce_pool::no_buffer) {
    waiter.is_done = false;
    return start(lock, owner, pe, op, {.waiter = &waiter, .chained_op = chained_op});
  }
  if (bounce_region_ == seams::no_fabric_region) {
    // Without a region the endpoint looks up a registration each time.
    auto region = endpoint_->region_register(
        {.addr = bounce_buffers_.memory(), .size = bounce_pool::size}, {});
    if (region.ok())
      bounce_region_ = region.value().id;
  }
  std::memcpy(bounce_buffers_.buffer_at(buffer), op.addr, op.size);
  op.addr = bounce_buffers_.buffer_at(buffer);
  op.region = bounce_region_;
  status const code =
      start(lock, owner, pe, op, {.bounce_buffer = buffer, .chained_op = chained_op});
  if (code != status::ok)
    bounce_buffers_.release(buffer);
  return code;
}

// Polls once. Returns the number of completions.
size_t lane::state::progress() {
  TND_ASSERT(!progress_lock_.has_sleeper());
  std::array<seams::fabric_completion, 16> done;
  size_t const count = endpoint_->poll(done);
  for (size_t i = 0; i < count; i++)
    dispatch(done[i]);
  if (!backlog_.empty())
    post_chained();
  if (!peers_to_remove_.empty()) [[unlikely]]
    remove_failed_peers();
  return count;
}

void lane::state::dispatch(const seams::fabric_completion &done) {
  auto const index = uint32_t(done.op_id);
  TND_ASSERT(index < records_.size());
  auto &entry = records_[index];
  if (!done.settled) {
    // The memory is still in use. The fabric releases it once the peer is removed.
    entry.code = done.code;
    fail_peer(entry.pe);
    return;
  }
  if (entry.code == status::ok)
    entry.code = done.code == status::canceled ? status::peer_lost : done.code;
  if (entry.code == status::timed_out)
    fail_peer(entry.pe);
  if (entry.code == status::ok && entry.is_chained && entry.owner != nullptr) {
    // The caller may reuse the source. The context waits for the chained operation.
    entry.is_chained = false;
    release(entry, status::ok);
    backlog_.push_back(index);
    return;
  }
  finish(index, entry.code, done.value);
}

void lane::state::finish(uint32_t index, status code, uint64_t value) {
  auto &entry = records_[index];
  if (code == status::ok && entry.action.result != nullptr)
    std::memcpy(entry.action.result, &value, entry.action.result_size);
  auto *const owner = entry.owner;
  if (owner != nullptr) {
    int32_t no_failure = 0;
    if (code != status::ok && entry.action.waiter == nullptr) {
      owner->failure_.compare_exchange_strong(no_failure, int32_t(code));
      failed_pe_.store(entry.pe, std::memory_order_relaxed);
    }
    owner->epochs_.end_operation(entry.epoch);
  }
  release(entry, code);
  record_free(index);
}

void lane::state::release(record &entry, status code) {
  if (entry.action.waiter != nullptr)
    *std::exchange(entry.action.waiter, nullptr) = {.is_done = true, .code = code};
  if (entry.action.bounce_buffer != bounce_pool::no_buffer)
    bounce_buffers_.release(std::exchange(entry.action.bounce_buffer, bounce_pool::no_buffer));
}

// Operations that the fabric does not accept now stay in the backlog.
void lane::state::post_chained() {
  TND_ASSERT(!is_ordered_);
  while (!backlog_.empty()) {
    uint32_t const index = backlog_.front();
    auto &entry = records_[index];
    status code =
        has_failed_[size_t(entry.pe)] ? status::peer_lost : endpoint_->post(chained_[index]);
    if (code == status::again && options_.time->now_ns() >= chained_[index].deadline_ns)
      code = status::timed_out;
    if (code == status::again)
      return;
    backlog_.pop_front();
    if (code != status::ok)
      finish(index, code, 0);
  }
}

void lane::state::fail_peer(pe_index pe) {
  if (has_failed_[size_t(pe)])
    return;
  mark_failed(pe);
  log(log_level::warning,
      "pgas: PE {} did not answer within {:.1f} s (TND_PGAS_TIMEOUT); treating it as failed",
      pe,
      double(options_.timeout_ns) * 1e-9);
}

// The launcher reports it first where the fabric cannot: there a missing reply fails no operation.
void lane::state::fail_dead_peers() {
  pe_index const dead = options_.failed_pe ? options_.failed_pe() : -1;
  if (dead >= 0 && !has_failed_[size_t(dead)])
    mark_failed(dead);
}

// The next progress() takes the PE's operations from the endpoint.
void lane::state::mark_failed(pe_index pe) {
  TND_ASSERT(size_t(pe) < has_failed_.size() && !has_failed_[size_t(pe)]);
  has_failed_[size_t(pe)] = true;
  peers_to_remove_.push_back(pe);
}

void lane::state::remove_failed_peers() {
  for (pe_index const pe : std::exchange(peers_to_remove_, {}))
    (void)endpoint_->peer_remove(peers_[size_t(pe)]);
}

// The fabric has not released some memory, and the lane stops waiting for it.
void lane::state::abandon(remote_context &owner) {
  TND_ASSERT(progress_lock_.is_held());
  for (auto &entry : records_) {
    if (entry.owner != &owner)
      continue;
    int32_t no_failure = 0;
    if (entry.action.waiter == nullptr)
      owner.failure_.compare_exchange_strong(no_failure, int32_t(status::timed_out));
    if (entry.action.waiter != nullptr)
      *std::exchange(entry.action.waiter, nullptr) = {.is_done = true, .code = status::timed_out};
    entry.action.result = nullptr;
    entry.owner = nullptr;
    owner.epochs_.end_operation(entry.epoch);
    fail_peer(entry.pe);
  }
  log(log_level::error,
      "pgas: the fabric has not released the memory of operations past their deadline");
}

}  // namespace tanada::onesided
