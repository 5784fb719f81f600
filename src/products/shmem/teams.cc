// Creating, splitting and destroying teams.
#include "products/shmem/teams.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/collectives/collectives.hpp"

namespace tanada::shmem {
namespace {

static_assert(team_count_max == 64, "free slots are the bits of one word");
static_assert(sizeof(fabric_exchange_area) % sizeof(uint64_t) == 0);
constexpr size_t fabric_word_count = sizeof(fabric_exchange_area) / sizeof(uint64_t);

void agree(void *target_array, const void *source_array, size_t count) {
  auto *const target = static_cast<team_set::ballot *>(target_array);
  auto const *const source = static_cast<const team_set::ballot *>(source_array);
  for (size_t i = 0; i < count; i++) {
    target[i].free &= source[i].free;
    target[i].number = std::max(target[i].number, source[i].number);
  }
}

constexpr reduction agreeing{sizeof(team_set::ballot), &agree};

// The slot of the team by which all PEs leave the job; it follows those of other teams.
constexpr size_t exit_slot = team_count_max;
constexpr size_t world_slot = 0;

// The guard of a departing PE's wait: it announces the departure once, and the wait continues.
class exit_guard final : public wait_guard {
 public:
  explicit exit_guard(departures &departed) : departed_{departed} {}

  void prepare(departure_kind kind, std::vector<departures::membership> teams) {
    kind_ = kind;
    teams_ = std::move(teams);
  }

  status check() override {
    if (std::exchange(is_announced_, true))
      return status::ok;
    departed_.announce(kind_, teams_);
    return status::ok;
  }

 private:
  departures &departed_;
  departure_kind kind_ = departure_kind::finalize;
  std::vector<departures::membership> teams_;
  bool is_announced_ = false;
};

// Returns true if this PE's device maps the memory of all these PEs' devices.
bool reaches(const onesided::job &job, const group &members) {
  auto const heap = job.device_heap();
  return std::all_of(members.pes.begin(), members.pes.end(), [&](onesided::pe_index pe) {
    return job.map().locate(heap.data(), heap.size(), pe).device_addr(pe) != nullptr;
  });
}

group all_pes(const onesided::job &job) {
  group world;
  for (onesided::pe_index pe = 0; pe < job.count(); pe++)
    world.pes.push_back(pe);
  world.me = job.me();
  return world;
}

group node_pes(const onesided::job &job) {
  group node;
  for (onesided::pe_index const pe : job.node_pes()) {
    if (pe == job.me())
      node.me = node.count();
    node.pes.push_back(pe);
  }
  return node;
}

}  // namespace

team::team(channel_ref channel, group members, size_t slot, int context_count)
    : channel_{channel},
      members_{std::move(members)},
      numbers_(size_t(channel.job->count()), -1),
      slot_{slot},
      context_count_{context_count} {
  TND_ASSERT(pe_of(me()) == channel.job->me());
  for (int32_t i = 0; i < count(); i++) {
    auto &number = numbers_[size_t(members_.pe(i))];
    TND_ASSERT(number == -1);
    number = i;
  }
}

team_set::team_set(channel_ref channel, group_mode mode)
    : channel_{channel},
      mode_{mode},
      layout_{channel.job->count(), exit_slot + 1},
      departures_{channel, layout_},
      stalls_{channel, layout_, departures_},
      slots_(exit_slot + 1),
      free_{~uint64_t{0}},
      number_{0} {
  TND_ASSERT(channel.job->control().size() >= layout_.size());
  lock_guard lock{mutex_};
  for (auto &entry : slots_)
    for (auto &counts : entry.consumed)
      counts.resize(fabric_word_count);
  world_ = make(all_pes(*channel.job), {world_slot, 0}, 0);
  legacy_world_ = make(all_pes(*channel.job), {1, 0}, 0);
  exit_team_ = make(all_pes(*channel.job), {exit_slot, 0}, 0);
  team_guard::detector_refs const detectors{departures_, stalls_};
  departure_guard_ = std::make_unique<departure_guard>(detectors, world_->members());
  shared_ = make(node_pes(*channel.job), {2, 0}, 0);
}

// All PEs use the same slots, because no team has been split yet.
status team_set::start_devices() {
  TND_ASSERT(device_world_ == nullptr && device_shared_ == nullptr);
  uint32_t const own_reach = reaches(*channel_.job, shared_->members()) ? 1 : 0;
  uint32_t all_reach = 0;
  TND_TRY(collective{*shared_}.agree(reduction_of<uint32_t, bit_and>, &all_reach, &own_reach));
  group alone;
  alone.pes.push_back(channel_.job->me());
  lock_guard lock{mutex_};
  device_world_ = make(world_->members(), {3, 0}, 0, true);
  device_shared_ = make(all_reach == 1 ? shared_->members() : std::move(alone), {4, 0}, 0, true);
  return status::ok;
}

team *team_set::device_team_at(size_t index) noexcept {
  lock_guard lock{mutex_};
  team *const team_ptr = index < slots_.size() ? slots_[index].owner.get() : nullptr;
  bool const has_other_name = team_ptr == device_world_ || team_ptr == device_shared_;
  return team_ptr != nullptr && team_ptr->is_device_team() && !has_other_name ? team_ptr : nullptr;
}

team_set::~team_set() = default;

std::vector<departures::membership> team_set::memberships() {
  lock_guard lock{mutex_};
  std::vector<departures::membership> list;
  for (auto const &entry : slots_) {
    if (entry.owner)
      list.push_back({&entry.owner->members(), entry.owner->slot(), entry.owner->entered()});
  }
  return list;
}

status team_set::leave(departure_kind kind) {
  static_cast<exit_guard &>(*exit_team_->guard_).prepare(kind, memberships());
  return collective{*exit_team_}.sync();
}

namespace {

// Returns the counter of a word of the exchange area, whose position is also that of its count.
counter counter_in(fabric_exchange_area &area, std::vector<uint64_t> &consumed, uint64_t &word) {
  size_t const index = size_t(&word - &area.sync[0][0]);
  TND_ASSERT(index < consumed.size());
  return {&word, &consumed[index]};
}

}  // namespace

fabric_signals team_set::signals_for_slot(size_t slot_index, area_level level) {
  TND_ASSERT(mutex_.is_held());
  auto const control = channel_.job->control();
  fabric_exchange_area *const area = layout_.fabric_area_of(control, slot_index, level);
  auto &consumed = slots_[slot_index].consumed[size_t(level)];
  auto const counter_of = [&](uint64_t &word) {
    return counter_in(*area, consumed, word);
  };
  fabric_signals signals;
  for (size_t parity = 0; parity < 2; parity++) {
    for (size_t round = 0; round < round_count_max; round++) {
      signals.sync[parity * round_count_max + round] = counter_of(area->sync[parity][round]);
      signals.gather[parity * round_count_max + round] = counter_of(area->gather[parity][round]);
    }
    signals.bulk[parity] = counter_of(area->bulk[parity]);
    signals.relay[parity] = counter_of(area->relay[parity]);
  }
  for (size_t round = 0; round < round_count_max; round++)
    signals.tree[round] = counter_of(area->tree[round]);
  signals.slices = counter_of(area->slices);
  set_areas(signals, slot_index, level);
  return signals;
}

void team_set::set_areas(fabric_signals &signals, size_t slot_index, area_level level) const {
  auto const control = channel_.job->control();
  for (size_t parity = 0; parity < 2; parity++)
    signals.areas[parity] = layout_.gather_of(control, slot_index, level, parity);
  signals.area_size = control_layout::gather_size;
  signals.scratch = &layout_.fabric_area_of(control, slot_index, level)->scratch;
  bool const has_slices = level == area_level::members;
  signals.slices_area =
      has_slices ? layout_.slices_of(control, slot_index) : layout_.shared_of(control, slot_index);
  signals.slices_size = has_slices ? control_layout::slices_size : 0;
}

team *team_set::make(group members,
                     const slot_choice &choice,
                     int context_count,
                     bool is_device_team) {
  TND_ASSERT(mutex_.is_held());
  size_t const slot_index = choice.slot;
  TND_ASSERT(slot_index < slots_.size() && !slots_[slot_index].owner);
  slots_[slot_index].owner =
      std::make_unique<team>(channel_, std::move(members), slot_index, context_count);
  if (slot_index < team_count_max)
    free_ &= ~(uint64_t{1} << slot_index);
  team &new_team = *slots_[slot_index].owner;
  new_team.is_device_team_ = is_device_team;
  set_guard(new_team);
  set_groups(new_team, choice.number);
  return &new_team;
}

void team_set::set_guard(team &target) {
  if (target.slot_ == exit_slot) {
    target.guard_ = std::make_unique<exit_guard>(departures_);
  } else {
    team_guard::detector_refs const detectors{departures_, stalls_};
    target.guard_ =
        std::make_unique<team_guard>(detectors, target.members_, target.slot_, target.entered_);
  }
  target.channel_.guard = target.guard_.get();
}

// Returns the exchange areas of the members that are mapped.
std::vector<mapped_exchange_area *> team_set::mapped_areas(const team &source) const {
  std::vector<mapped_exchange_area *> areas;
  auto const *const own_area = layout_.mapped_area_of(channel_.job->control(), source.slot_);
  for (onesided::pe_index const pe : source.members_.pes) {
    auto const peer = channel_.job->map().locate(own_area, sizeof(mapped_exchange_area), pe);
    if (peer.mapped != nullptr)
      areas.push_back(reinterpret_cast<mapped_exchange_area *>(peer.mapped));
  }
  return areas;
}

// `number`: no word of the slot's mapped exchange areas holds a higher one.
void team_set::set_groups(team &target, uint64_t number) {
  TND_ASSERT(target.channel_.guard != nullptr);
  auto areas = mapped_areas(target);
  if (mode_ != group_mode::fabric && areas.size() == target.members_.pes.size()) {
    target.mapped_.emplace(
        target.channel_, target.members_, std::move(areas), number, is_oversubscribed());
  }
  if (!target.mapped_ || channel_.job->map().device() != nullptr)
    target.fabric_.emplace(
        target.channel_, target.members_, signals_for_slot(target.slot_, area_level::members));
  if (!target.mapped_ && mode_ != group_mode::fabric)
    set_node_group(target, {std::move(areas), number, is_oversubscribed()});
}

bool team_set::is_oversubscribed() const noexcept {
  return mode_ == group_mode::mapped ? channel_.job->is_oversubscribed()
                                     : mode_ == group_mode::mapped_oversubscribed;
}

void team_set::set_node_group(team &target, node_group::node_areas shared) {
  node_plan plan{*channel_.job, target.members_};
  if (!plan.has_levels())
    return;
  target.nodes_.emplace(target.channel_,
                        target.members_,
                        std::move(plan),
                        std::move(shared),
                        signals_for_slot(target.slot_, area_level::leaders));
}

// Votes of PEs that are not in the new team accept everything.
team_set::ballot team_set::prepare_ballot() {
  lock_guard lock{mutex_};
  return {free_, number_};
}

bool team_set::reserve_slot(size_t index) {
  TND_ASSERT(index < team_count_max);
  lock_guard lock{mutex_};
  uint64_t const bit = uint64_t{1} << index;
  bool const was_free = (free_ & bit) != 0;
  free_ &= ~bit;
  return was_free;
}

void team_set::return_slot(size_t index) {
  TND_ASSERT(index < team_count_max);
  lock_guard lock{mutex_};
  TND_ASSERT(!slots_[index].owner);
  free_ |= uint64_t{1} << index;
}

// A slot that was free in all members when they voted may have gone to another thread's split
// since. Members therefore reserve it, and confirm in a second vote that all of them could.
result<team_set::slot_choice> team_set::agree_on_slot(team &parent, bool is_member) {
  constexpr int attempt_count_max = 1000;  // each failed attempt needs another split in progress
  for (int attempt = 0; attempt < attempt_count_max; attempt++) {
    ballot const own_vote = is_member ? prepare_ballot() : ballot{~uint64_t{0}, 0};
    ballot agreed;
    TND_TRY(collective{parent}.agree(agreeing, &agreed, &own_vote));
    if (agreed.free == 0) {
      return fail(status::no_space,
                  "no team slot is free in all members: a PE can be in {} teams at a time",
                  team_count_max);
    }
    // Splits of different parents begin their search at different slots.
    int const turn = int((parent.slot() + size_t(attempt)) % team_count_max);
    size_t const distance = size_t(std::countr_zero(std::rotr(agreed.free, turn)));
    slot_choice const choice{(distance + size_t(turn)) % team_count_max, agreed.number};

    bool const has_reserved = is_member && reserve_slot(choice.slot);
    ballot const own_result{!is_member || has_reserved ? uint64_t{1} : uint64_t{0}, 0};
    ballot all_results;
    status const code = collective{parent}.agree(agreeing, &all_results, &own_result);
    if (code == status::ok && all_results.free != 0)
      return choice;
    if (has_reserved)
      return_slot(choice.slot);
    TND_TRY(code);
  }
  return fail(status::busy,
              "no team slot could be reserved in {} attempts beside other splits",
              attempt_count_max);
}

// `members`: nullopt for PEs that are not in the new team.
result<team *> team_set::create_team(team &parent,
                                     std::optional<group> members,
                                     int context_count) {
  auto const choice = agree_on_slot(parent, members.has_value());
  if (!choice.ok())
    return choice.error();
  if (!members)
    return static_cast<team *>(nullptr);
  lock_guard lock{mutex_};
  return make(std::move(*members), choice.value(), context_count, parent.is_device_team());
}

result<team *> team_set::split(team &parent, const stride &subset, int context_count) {
  int64_t const last = subset.start + int64_t{subset.step} * (int64_t{subset.count} - 1);
  bool const is_repeated = subset.step == 0 && subset.count > 1;
  if (subset.count < 1 || parent.pe_of(subset.start) < 0 || last < 0 || last >= parent.count() ||
      is_repeated) {
    return fail(status::invalid,
                "a team of {} PEs from {} on by steps of {} does not lie within the parent's {}",
                subset.count,
                subset.start,
                subset.step,
                parent.count());
  }
  group members;
  members.me = -1;
  for (int i = 0; i < subset.count; i++) {
    int32_t const member = subset.start + i * subset.step;
    if (member == parent.me())
      members.me = i;
    members.pes.push_back(parent.pe_of(member));
  }
  if (members.me < 0)
    return create_team(parent, std::nullopt, context_count);
  return create_team(parent, std::move(members), context_count);
}

result<team_set::axes> team_set::split_2d(team &parent,
                                          int row,
                                          int row_context_count,
                                          int column_context_count) {
  if (row < 1)
    return fail(status::invalid, "rows of {} PEs: a row needs at least one", row);
  row = std::min(row, parent.count());
  group rows, columns;
  int32_t const first = parent.me() / row * row;
  rows.me = parent.me() - first;
  for (int32_t member = first; member < std::min(first + row, parent.count()); member++)
    rows.pes.push_back(parent.pe_of(member));
  columns.me = parent.me() / row;
  for (int32_t member = parent.me() % row; member < parent.count(); member += row)
    columns.pes.push_back(parent.pe_of(member));
  auto along = create_team(parent, std::move(rows), row_context_count);
  if (!along.ok())
    return along.error();
  auto across = create_team(parent, std::move(columns), column_context_count);
  if (!across.ok()) {
    TND_TRY(destroy(along.value()));
    return across.error();
  }
  return axes{along.value(), across.value()};
}

bool team_set::has(const team *team_ptr) {
  lock_guard lock{mutex_};
  return std::any_of(slots_.begin(), slots_.end(), [&](auto const &entry) {
    return entry.owner.get() == team_ptr;
  });
}

// After the sync, all members have finished the earlier operations. Signals of the sync that a
// member has not seen yet remain in words that only grow.
status team_set::destroy(team *team_ptr) {
  for (auto const *const predefined :
       {world_, shared_, legacy_world_, device_world_, device_shared_}) {
    if (team_ptr == predefined)
      return status::invalid;
  }
  TND_TRY(collective{*team_ptr}.sync());
  lock_guard lock{mutex_};
  if (team_ptr->mapped_)
    number_ = std::max(number_, team_ptr->mapped_->number());
  if (team_ptr->nodes_)
    number_ = std::max(number_, team_ptr->nodes_->number());
  size_t const index = team_ptr->slot_;
  TND_ASSERT(index < team_count_max);
  slots_[index].owner.reset();
  free_ |= uint64_t{1} << index;
  return status::ok;
}

}  // namespace tanada::shmem
