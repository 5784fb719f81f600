// The scheduler of one resident block: turns of lanes, barriers, collectives and shared memory.
#include "executor/block.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/base/assert.hpp"
#include "executor/sanitizer.hpp"

namespace tanada::simt::host {

constinit __thread const lane_ids *current_ids = nullptr;

namespace {

constinit thread_local block_runner *current_runner = nullptr;

// A lane that executes this many atomics in one turn is spinning without pause(), so other lanes
// get a turn.
constexpr u32 atomics_per_turn_max = 4096;

constexpr u64 chunk_size = 64 * 1024;

constexpr u32 rotate_left(u32 bits, u32 count) {
  return count == 0 ? bits : bits << count | bits >> (32 - count);
}

constexpr u32 lowest_bit(u32 bits) {
  return u32(__builtin_ctz(bits));
}

// Names of calls, which may be null, from any translation unit.
bool is_same_call(const char *first, const char *second) {
  bool const is_one_null = (first == nullptr) != (second == nullptr);
  return first == second || (!is_one_null && std::strcmp(first, second) == 0);
}

}  // namespace

void random_source::seed(u64 value) noexcept {
  value += 0x9e3779b97f4a7c15ull;  // splitmix64, so that similar seeds differ at once
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ value >> 27) * 0x94d049bb133111ebull;
  state_ = value ^ value >> 31;
  if (state_ == 0)
    state_ = 1;
}

u64 random_source::next() noexcept {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 0x2545f4914f6cdd1dull >> 16;
}

std::string grid_shape_fault(const grid_shape &shape) {
  u64 const threads = u64(shape.block_size.x) * shape.block_size.y * shape.block_size.z;
  if (shape.block_count() != 0 && threads != 0 && threads <= block_thread_count_max)
    return {};
  auto const text = [](dim3 size) {
    return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " + std::to_string(size.z);
  };
  return "launch of " + text(shape.grid_size) + " blocks of " + text(shape.block_size) +
         " threads; a block has 1 to " + std::to_string(block_thread_count_max);
}

block_runner *block_runner::current() noexcept {
  return current_runner;
}

block_runner::~block_runner() {
  release_stacks();
}

void block_runner::release_stacks() noexcept {
  TND_ASSERT(finished());
  for (fiber *stack : stacks_)
    if (stack != nullptr)
      fiber_release(stack);
  stacks_.clear();
}

// Sizes and numbers the lanes, unless the previous block had the same shape.
void block_runner::load_shape(const grid_shape &shape) {
  dim3 const size = shape.block_size, grid = shape.grid_size;
  bool const same_shape = lanes_.size() != 0 &&
                          memcmp(&size, &shape_.block_size, sizeof size) == 0 &&
                          memcmp(&grid, &shape_.grid_size, sizeof grid) == 0;
  if (shape.stack_size != shape_.stack_size)
    release_stacks();
  shape_ = shape;
  if (same_shape)
    return;
  thread_count_ = size.x * size.y * size.z;
  TND_ASSERT(thread_count_ != 0 && thread_count_ <= block_thread_count_max);
  warp_count_ = (thread_count_ + 31) / 32;
  lanes_.resize(thread_count_);
  warps_.resize(warp_count_);
  for (u32 i = 0; i < thread_count_; i++)
    lanes_[i].ids = {{i % size.x, i / size.x % size.y, i / size.x / size.y}, {}, size, grid, i};
}

void block_runner::reset_warps() noexcept {
  for (u32 w = 0; w < warp_count_; w++) {
    u32 const rest = thread_count_ - w * 32;
    warp &warp_state = warps_[w];
    warp_state.existing = rest >= 32 ? ~0u : (1u << rest) - 1;
    warp_state.live = warp_state.existing;
    warp_state.ready = warp_state.existing;
    warp_state.started = 0;
    warp_state.spinning = 0;
    warp_state.at_barrier = 0;
    warp_state.at_collective = 0;
  }
}

void block_runner::start(const grid_shape &shape,
                         u64 block_rank,
                         const std::function<void()> &kernel) {
  TND_ASSERT(finished() && block_rank < shape.block_count());
  dim3 const grid = shape.grid_size;
  load_shape(shape);
  kernel_ = &kernel;
  block_rank_ = block_rank;
  block_index_ = {u32(block_rank % grid.x),
                  u32(block_rank / grid.x % grid.y),
                  u32(block_rank / grid.x / grid.y)};
  reset_warps();
  live_count_ = thread_count_;
  barrier_count_ = 0;
  shared_.clear();
  for (storage_chunk &chunk : chunks_)
    chunk.used = 0;
  fiber_adopt_thread(home_);
  release_edge(&start_key_);
}

fiber *block_runner::stack_for(u32 linear) {
  TND_ASSERT(linear < thread_count_);
  if (one_fiber_per_lane) {
    if (stacks_.size() <= linear)
      stacks_.resize(linear + 1);
    if (stacks_[linear] == nullptr)
      stacks_[linear] = fiber_acquire(shape_.stack_size);
    return stacks_[linear];
  }
  if (stacks_.empty())
    return fiber_acquire(shape_.stack_size);
  fiber *const reused = stacks_.back();
  stacks_.pop_back();
  return reused;
}

TND_NO_ASAN void block_runner::lane_main(void *runner) {
  auto *const self = static_cast<block_runner *>(runner);
  fiber_entered(self->home_);
  acquire_edge(&self->start_key_);
  (*self->kernel_)();
  release_edge(&self->end_key_);
  self->finish_lane();
  std::abort();  // unreachable: a finished lane gets no turn
}

TND_NO_ASAN void block_runner::finish_lane() noexcept {
  u32 const warp_index = running_ / 32, bit = 1u << running_ % 32;
  warp &w = warps_[warp_index];
  TND_ASSERT(live_count_ != 0 && (w.live & w.ready & bit) != 0);
  w.live &= ~bit;
  w.ready &= ~bit;
  live_count_--;
  for (u32 waiting = w.at_collective;
       waiting != 0;) {  // other lanes may have waited only for this one
    u32 const mask = lanes_[warp_index * 32 + lowest_bit(waiting)].mask;
    (void)try_complete_collective(warp_index, mask);
    waiting &= ~mask & w.at_collective;
  }
  if (barrier_count_ != 0 && barrier_kind_ == barrier_kind::group)
    report_divergence("this_block", "has returned");
  if (barrier_count_ != 0 && barrier_count_ == live_count_)
    release_barrier();
  fiber_switch(*lanes_[running_].stack, home_, true);
}

bool block_runner::turn(u32 warp_index, u32 lane_index) {
  warp &w = warps_[warp_index];
  u32 const bit = 1u << lane_index, linear = warp_index * 32 + lane_index;
  lane &l = lanes_[linear];
  TND_ASSERT((w.live & w.ready & bit) != 0 && current_runner == nullptr);
  bool const was_spinning = (w.spinning & bit) != 0;
  w.spinning &= ~bit;
  if ((w.started & bit) == 0) {
    w.started |= bit;
    l.ids.block = block_index_;
    l.stack = stack_for(linear);
    fiber_prepare(*l.stack, &block_runner::lane_main, this);
  }
  running_ = linear;
  atomic_count_ = 0;
  current_ids = &l.ids;
  current_runner = this;
  fiber_switch(home_, *l.stack);
  current_ids = nullptr;
  current_runner = nullptr;
  if ((w.live & bit) == 0 && !one_fiber_per_lane)
    stacks_.push_back(l.stack);
  return !was_spinning || (w.spinning & bit) == 0;
}

bool block_runner::warp_turns(u32 warp_index) {
  warp &w = warps_[warp_index];
  u32 const permille = rules_.preempt_permille;
  u32 const rotation = permille != 0 ? u32(rules_.random->next() % 32) : 0;
  bool progress = false;
  for (u32 remaining = rotate_left(w.ready, (32 - rotation) % 32); remaining != 0;
       remaining &= remaining - 1) {
    if (permille != 0) {
      if (rules_.random->chance(permille / 4)) {  // skip its turn, so that lanes drift apart
        progress = true;
        continue;
      }
      if (rules_.between != nullptr && rules_.random->chance(100))
        (*rules_.between)();
    }
    if (turn(warp_index, (lowest_bit(remaining) + rotation) % 32))
      progress = true;
  }
  return progress;
}

bool block_runner::round() {
  TND_ASSERT(warp_count_ != 0 && !finished());
  u32 const first = rules_.preempt_permille != 0 ? u32(rules_.random->next() % warp_count_) : 0;
  bool progress = false, can_run = false;
  other_pause_count_ = 0;
  for (u32 i = 0; i < warp_count_; i++) {
    u32 const warp_index = first + i < warp_count_ ? first + i : first + i - warp_count_;
    if (warps_[warp_index].ready != 0 && warp_turns(warp_index))
      progress = true;
  }
  if (live_count_ == 0) {
    acquire_edge(&end_key_);
    return true;
  }
  for (const warp &w : warps_)
    can_run = can_run || w.ready != 0;
  if (!can_run)
    report_deadlock();
  return progress;
}

void block_runner::switch_out() noexcept {
  TND_ASSERT(current_runner == this);
  fiber_switch(*lanes_[running_].stack, home_);
}

void block_runner::pause() noexcept {
  other_pause_count_++;
  pause_for_host();
}

void block_runner::pause_for_host() noexcept {
  warps_[running_ / 32].spinning |= 1u << running_ % 32;
  switch_out();
}

void block_runner::preempt() noexcept {
  if (++atomic_count_ >= atomics_per_turn_max || rules_.random->chance(rules_.preempt_permille))
    switch_out();
}

void block_runner::release_barrier() noexcept {
  TND_ASSERT(barrier_count_ == live_count_);
  for (warp &w : warps_) {
    w.ready |= w.at_barrier;
    w.at_barrier = 0;
  }
  barrier_count_ = 0;
  barrier_phase_ ^= 1;
}

void block_runner::arrive(barrier_kind kind) noexcept {
  u32 const linear = running_, bit = 1u << linear % 32;
  warp &w = warps_[linear / 32];
  if (barrier_count_ != 0 && kind != barrier_kind_)
    report_divergence("this_block", "waits at a barrier outside it");
  if (kind == barrier_kind::group && live_count_ != thread_count_)
    report_divergence("this_block", "has returned");
  const char *const call = lanes_[linear].ids.call;
  if (barrier_count_ == 0)
    barrier_call_ = call;
  else if (kind == barrier_kind::group && !is_same_call(call, barrier_call_))
    report_divergence("this_block", "makes another call");
  TND_ASSERT((w.ready & bit) != 0 && barrier_count_ < live_count_);
  barrier_kind_ = kind;
  void *const key = &barrier_keys_[barrier_phase_];
  release_edge(key);
  w.ready &= ~bit;
  w.at_barrier |= bit;
  if (++barrier_count_ == live_count_)
    release_barrier();
  else
    switch_out();
  acquire_edge(key);
}

void block_runner::expect_whole_warp() const noexcept {
  const warp &w = warps_[running_ / 32];
  if (w.live != w.existing)
    report_divergence("this_warp", "has returned");
}

// The calls that threads of the block make: one name, two where they differ, or none.
std::string block_runner::call_names() const {
  std::string names;
  const char *first = nullptr;
  for (u32 i = 0; i < thread_count_; i++) {
    const char *const call = lanes_[i].ids.call;
    bool const is_live = i == running_ || (warps_[i / 32].live >> i % 32 & 1) != 0;
    if (!is_live || call == nullptr || (first != nullptr && is_same_call(call, first)))
      continue;
    names += (first == nullptr ? "" : " or ") + std::string{call};
    if (std::exchange(first, call) != nullptr)
      break;
  }
  return names.empty() ? names : names + ", ";
}

void block_runner::report_divergence(const char *group, const char *others) const noexcept {
  std::fprintf(stderr,
               "tanada: block %llu diverged: some of its threads are in %sa collective call of %s, "
               "and another one %s (detected by "
               "thread %u); every thread of a group must make the call\n",
               block_rank_,
               call_names().c_str(),
               group,
               others,
               running_);
  std::abort();
}

void block_runner::complete_collective(warp &w, u32 warp_index, u32 mask) noexcept {
  TND_ASSERT((mask & ~w.at_collective) == 0);
  u64 result[32];
  for (u32 i = 0; i < 32; i++)
    result[i] = (mask >> i & 1) != 0 ? w.slots[i] : 0xa5a5a5a5a5a5a5a5ull;
  for (u32 remaining = mask; remaining != 0; remaining &= remaining - 1) {
    lane &l = lanes_[warp_index * 32 + lowest_bit(remaining)];
    if (l.values != nullptr)
      copy_untraced(l.values, result, 32);
    l.mask = mask;
  }
  w.at_collective &= ~mask;
  w.ready |= mask;
}

bool block_runner::try_complete_collective(u32 warp_index, u32 mask) noexcept {
  warp &w = warps_[warp_index];
  u32 const participants = mask & w.live;
  if ((participants & ~w.at_collective) != 0)
    return false;
  for (u32 remaining = participants; remaining != 0; remaining &= remaining - 1)
    if (lanes_[warp_index * 32 + lowest_bit(remaining)].mask != mask)
      return false;
  lanes_[warp_index * 32 + lowest_bit(mask)].phase ^= 1;
  complete_collective(w, warp_index, participants);
  return true;
}

// A warp barrier is an exchange without values. The lane that completes it delivers the values to
// all lanes, so that each waits only once. TSan orders the lanes by the first lane of the mask,
// which two disjoint groups never share.
u32 block_runner::exchange(u32 mask, u64 value, u64 *values) noexcept {
  u32 const linear = running_, warp_index = linear / 32, bit = 1u << linear % 32;
  warp &w = warps_[warp_index];
  if ((mask & bit) == 0) {
    std::fprintf(
        stderr,
        "tanada: thread %u of block %llu calls a warp collective with mask %#x, without itself\n",
        linear,
        block_rank_,
        mask);
    std::abort();
  }
  TND_ASSERT((w.ready & bit) != 0);
  mask &= w.existing;
  lane &first = lanes_[warp_index * 32 + lowest_bit(mask)];
  void *const key = &first.keys[first.phase];
  release_edge(key);
  w.slots[linear % 32] = value;
  w.ready &= ~bit;
  w.at_collective |= bit;
  lanes_[linear].values = values;
  lanes_[linear].mask = mask;
  if (!try_complete_collective(warp_index, mask))
    switch_out();
  acquire_edge(key);
  return lanes_[linear].mask;
}

void *block_runner::storage(const void *key, u64 size, u64 alignment) noexcept {
  for (const shared_variable &variable : shared_) {
    if (variable.key != key)
      continue;
    acquire_edge(variable.addr);
    return variable.addr;
  }
  TND_ASSERT(alignment != 0);
  size = size == 0 ? 1 : size;
  storage_chunk *target = nullptr;
  for (storage_chunk &chunk : chunks_)
    if (chunk.size - chunk.used >= size + alignment)
      target = &chunk;
  if (target == nullptr) {
    u64 const made_size = size + alignment > chunk_size ? size + alignment : chunk_size;
    chunks_.push_back({std::make_unique<char[]>(made_size), made_size, 0});
    target = &chunks_.back();
  }
  auto const base = reinterpret_cast<unsigned long>(target->bytes.get());
  u64 const offset = (base + target->used + alignment - 1) / alignment * alignment - base;
  target->used = offset + size;
  TND_ASSERT(target->used <= target->size);
  char *const addr = target->bytes.get() + offset;
  memset(addr, 0xa5, size);
  shared_.push_back({key, addr});
  release_edge(addr);
  return addr;
}

bool block_runner::is_private(const void *addr) const noexcept {
  auto const is_within = [position = reinterpret_cast<unsigned long>(addr)](const char *begin,
                                                                            u64 size) {
    return position - reinterpret_cast<unsigned long>(begin) < size;
  };
  const fiber &own_fiber = *lanes_[running_].stack;
  if (is_within(own_fiber.stack_low, own_fiber.stack_size))
    return true;
  for (const storage_chunk &chunk : chunks_)
    if (is_within(chunk.bytes.get(), chunk.size))
      return true;
  return false;
}

u64 block_runner::read_clock() noexcept {
  if (rules_.clock == nullptr || !*rules_.clock) {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return u64(time.tv_sec) * 1000000000ull + u64(time.tv_nsec);
  }
  const lane_ids *const ids = current_ids;
  current_ids = nullptr;  // the clock is host code: its atomics belong to no lane
  current_runner = nullptr;
  u64 time = 0;
  {
    tsan_fiber_scope const scheduler{home_.tsan_handle};
    time = (*rules_.clock)();
  }
  current_ids = ids;
  current_runner = this;
  return time;
}

void block_runner::report_deadlock() const noexcept {
  u32 in_collective = 0, example = 0;
  bool has_example = false;
  for (u32 i = 0; i < thread_count_; i++) {
    if ((warps_[i / 32].at_collective >> i % 32 & 1) == 0)
      continue;
    in_collective++;
    if (!has_example)
      example = i;
    has_example = true;
  }
  std::fprintf(stderr,
               "tanada: deadlock in block %llu: of %u live threads %u wait at the block barrier "
               "and %u at a warp "
               "barrier or collective, none of which can complete\n",
               block_rank_,
               live_count_,
               barrier_count_,
               in_collective);
  if (has_example) {
    const warp &w = warps_[example / 32];
    u32 const mask = lanes_[example].mask;
    u32 const missing = mask & w.live & ~w.at_collective;
    std::fprintf(stderr,
                 "tanada: thread %u waits with mask %#x; %s %#x\n",
                 example,
                 mask,
                 missing != 0 ? "missing lanes:" : "all arrived, but with other masks; live lanes:",
                 missing != 0 ? missing : w.live);
  }
  std::abort();
}

}  // namespace tanada::simt::host
