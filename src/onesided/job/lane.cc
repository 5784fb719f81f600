// What is under way in a lane, and what becomes of it.
#include <cstring>

#include "core/base/log.hpp"
#include "onesided/job/lane_state.hpp"

namespace tanada::pgas {

lane::lane(std::unique_ptr<port::fabric_endpoint> endpoint,
           std::vector<port::fabric_address> addresses, options chosen)
    : state_{
          std::make_unique<state>(std::move(endpoint), std::move(addresses), std::move(chosen))} {}

lane::~lane() = default;

bool lane::attend() noexcept {
  return state_->attend();
}
pe_index lane::failed() const noexcept {
  return state_->failed();
}
bool lane::is_ordered() const noexcept {
  return state_->is_ordered();
}
void lane::look() noexcept {
  state_->look();
}
status lane::rest(uint64_t deadline_ns) noexcept {
  return state_->rest(deadline_ns);
}

lane::state::state(std::unique_ptr<port::fabric_endpoint> endpoint,
                   std::vector<port::fabric_address> addresses, options chosen)
    : options_{std::move(chosen)},
      addresses_{std::move(addresses)},
      endpoint_{std::move(endpoint)},
      turns_{*endpoint_, *options_.time, options_.is_crowded},
      is_ordered_{endpoint_->properties().is_ordered},
      needs_attention_{!is_ordered_ || !endpoint_->properties().progresses_alone},
      copied_size_max_{endpoint_->properties().copied_size_max},
      peers_(addresses_.size(), port::no_fabric_peer),
      is_lost_(addresses_.size()),
      records_(endpoint_->properties().depth) {
  record_count_ = uint32_t(records_.size());
  for (uint32_t i = uint32_t(records_.size()); i > 0; i--)
    record_free(i - 1);
  if (!is_ordered_)
    chained_.resize(records_.size());
}

lane::state::~state() = default;

result<port::fabric_peer> lane::state::peer_of(pe_index pe) {
  auto &known = peers_[size_t(pe)];
  if (is_lost_[size_t(pe)]) [[unlikely]]
    return status::peer_lost;
  if (known == port::no_fabric_peer) [[unlikely]] {
    auto added = endpoint_->peer_add(addresses_[size_t(pe)].span());
    if (!added.ok())
      return added.error();
    known = added.value();
  }
  return known;
}

uint32_t lane::state::record_take(remote_context &owner, pe_index pe, const aim &to) {
  uint32_t const index = first_free_;
  if (index == none)
    return none;
  auto &of = records_[index];
  first_free_ = of.next_free;
  record_count_.store(record_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  of = {.owner = &owner, .to = to, .pe = pe, .is_chained = to.then != nullptr};
  return index;
}

void lane::state::record_free(uint32_t index) {
  records_[index].owner = nullptr;
  records_[index].next_free = first_free_;
  first_free_ = index;
  record_count_.store(record_count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

status lane::state::start(held &lock, remote_context &owner, pe_index pe, port::fabric_op &op,
                          const aim &to) {
  bool const is_fenced = !is_ordered_ && op.kind != port::fabric_op_kind::read &&
                         owner.fences_.load(std::memory_order_relaxed) != owner.fences_kept_;
  if (is_fenced) {
    uint32_t const fences = owner.fences_.load(std::memory_order_relaxed);
    drain(lock, owner);
    if (int32_t(fences - owner.fences_kept_) > 0)
      owner.fences_kept_ = fences;
  }
  turns_.claim(lock);
  auto peer = peer_of(pe);
  if (!peer.ok())
    return peer.error();
  op.peer = peer.value();
  op.deadline_ns = port::deadline_after(options_.time->now_ns(), options_.timeout_ns);
  for (pacing pace;; step(lock, pace), turns_.claim(lock)) {
    if (is_lost_[size_t(pe)])
      return status::peer_lost;
    // Once it was full it takes some more at a time, which the fabric may put into one packet, than
    // one for each that has ended.
    bool const has_room =
        pace.count == 0 || record_count_.load(std::memory_order_relaxed) <= records_.size() / 4 * 3;
    uint32_t const index = has_room ? record_take(owner, pe, to) : none;
    if (index != none) {
      if (to.then != nullptr) {
        chained_[index] = *to.then;
        chained_[index].op_id = index;
        chained_[index].peer = op.peer;
        chained_[index].deadline_ns = op.deadline_ns;
      }
      op.op_id = index;
      status const code = endpoint_->post(op);
      if (code == status::ok) [[likely]] {
        if (needs_attention_ && options_.begins &&
            record_count_.load(std::memory_order_relaxed) == 1)
          options_.begins();
        records_[index].epoch = owner.under_way_.begin();
        return code;
      }
      record_free(index);
      if (code != status::again)
        return code;
    }
    if (turns::is_time_to_look(pace))
      lose_dead();
    if (turns_.is_late(pace, op.deadline_ns))
      return status::timed_out;
  }
}

status lane::state::start_from_caller(held &lock, remote_context &owner, pe_index pe,
                                      port::fabric_op &op, const port::fabric_op *then) {
  waiter what;
  TND_TRY(start_early(lock, owner, pe, op, then, what));
  wait(lock, owner, what);
  return what.code;
}

status lane::state::start_early(held &lock, remote_context &owner, pe_index pe, port::fabric_op &op,
                                const port::fabric_op *then, waiter &what) {
  what.is_done = true;
  if (op.size <= copied_size_max_) {
    op.copied = true;
    return start(lock, owner, pe, op, {.then = then});
  }
  uint32_t const bounce = op.size <= bounce_pool::piece_size ? bounces_.take() : bounce_pool::none;
  if (bounce == bounce_pool::none) {
    what.is_done = false;
    return start(lock, owner, pe, op, {.waits = &what, .then = then});
  }
  if (bounce_region_ == port::no_fabric_region) {
    // Without it the endpoint looks for a registration each time.
    auto made =
        endpoint_->region_register({.addr = bounces_.memory(), .size = bounce_pool::size}, {});
    if (made.ok())
      bounce_region_ = made.value().id;
  }
  std::memcpy(bounces_.at(bounce), op.addr, op.size);
  op.addr = bounces_.at(bounce);
  op.region = bounce_region_;
  status const code = start(lock, owner, pe, op, {.bounce = bounce, .then = then});
  if (code != status::ok)
    bounces_.give_back(bounce);
  return code;
}

// Looks once at what has happened. How much that was.
size_t lane::state::progress() {
  std::array<port::fabric_completion, 16> done;
  size_t const count = endpoint_->poll(done);
  for (size_t i = 0; i < count; i++)
    dispatch(done[i]);
  if (!backlog_.empty())
    post_chained();
  if (!leaving_.empty()) [[unlikely]]
    forget_lost();
  return count;
}

void lane::state::dispatch(const port::fabric_completion &done) {
  auto const index = uint32_t(done.op_id);
  auto &of = records_[index];
  if (!done.settled) {
    // The memory is still in use. Without the peer the fabric lets go of it.
    of.code = done.code;
    lose(of.pe);
    return;
  }
  if (of.code == status::ok)
    of.code = done.code == status::canceled ? status::peer_lost : done.code;
  if (of.code == status::timed_out)
    lose(of.pe);
  if (of.code == status::ok && of.is_chained && of.owner != nullptr) {
    // The source is the caller's again; the context waits for what follows.
    of.is_chained = false;
    release(of, status::ok);
    backlog_.push_back(index);
    return;
  }
  finish(index, of.code, done.value);
}

void lane::state::finish(uint32_t index, status code, uint64_t value) {
  auto &of = records_[index];
  if (code == status::ok && of.to.result != nullptr)
    std::memcpy(of.to.result, &value, of.to.result_size);
  auto *const owner = of.owner;
  if (owner != nullptr) {
    int32_t nothing = 0;
    if (code != status::ok && of.to.waits == nullptr) {
      owner->failure_.compare_exchange_strong(nothing, int32_t(code));
      failed_.store(of.pe, std::memory_order_relaxed);
    }
    owner->under_way_.end(of.epoch);
  }
  release(of, code);
  record_free(index);
}

void lane::state::release(record &of, status code) {
  if (of.to.waits != nullptr)
    *std::exchange(of.to.waits, nullptr) = {.is_done = true, .code = code};
  if (of.to.bounce != bounce_pool::none)
    bounces_.give_back(std::exchange(of.to.bounce, bounce_pool::none));
}

// What does not fit is offered again.
void lane::state::post_chained() {
  while (!backlog_.empty()) {
    uint32_t const index = backlog_.front();
    auto &of = records_[index];
    status code = is_lost_[size_t(of.pe)] ? status::peer_lost : endpoint_->post(chained_[index]);
    if (code == status::again && options_.time->now_ns() >= chained_[index].deadline_ns)
      code = status::timed_out;
    if (code == status::again)
      return;
    backlog_.pop_front();
    if (code != status::ok)
      finish(index, code, 0);
  }
}

void lane::state::lose(pe_index pe) {
  if (is_lost_[size_t(pe)])
    return;
  leave(pe);
  log(log_level::warning, "pgas: PE %d has not answered for %.1f s: it is taken for lost", pe,
      double(options_.timeout_ns) * 1e-9);
}

// The launcher knows of it first where the fabric does not tell: an answer that is to come fails
// nothing there.
void lane::state::lose_dead() {
  pe_index const dead = options_.lost ? options_.lost() : -1;
  if (dead >= 0 && !is_lost_[size_t(dead)])
    leave(dead);
}

// The next progress() takes its operations from the endpoint.
void lane::state::leave(pe_index pe) {
  is_lost_[size_t(pe)] = true;
  leaving_.push_back(pe);
}

void lane::state::forget_lost() {
  for (pe_index const pe : std::exchange(leaving_, {}))
    (void)endpoint_->peer_remove(peers_[size_t(pe)]);
}

// The fabric has not let go of some memory, and will not be waited for any more.
void lane::state::abandon(remote_context &owner) {
  for (auto &of : records_) {
    if (of.owner != &owner)
      continue;
    int32_t nothing = 0;
    if (of.to.waits == nullptr)
      owner.failure_.compare_exchange_strong(nothing, int32_t(status::timed_out));
    if (of.to.waits != nullptr)
      *std::exchange(of.to.waits, nullptr) = {.is_done = true, .code = status::timed_out};
    of.to.result = nullptr;
    of.owner = nullptr;
    owner.under_way_.end(of.epoch);
    lose(of.pe);
  }
  log(log_level::error, "pgas: the fabric keeps memory of operations whose time is over");
}

}  // namespace tanada::pgas
