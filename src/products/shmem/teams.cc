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
constexpr size_t far_word_count = sizeof(fabric_exchange_area) / sizeof(uint64_t);

// The members of a parent agree on a slot that is free in all members of the new team, and on a
// number that none of the slot's words exceeds.
struct agreement {
  uint64_t free, number;
};

void agree(void *target_array, const void *source_array, size_t count) {
  auto *const target = static_cast<agreement *>(target_array);
  auto const *const source = static_cast<const agreement *>(source_array);
  for (size_t i = 0; i < count; i++) {
    target[i].free &= source[i].free;
    target[i].number = std::max(target[i].number, source[i].number);
  }
}

constexpr reduction agreeing{sizeof(agreement), &agree};

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

}  // namespace

team::team(channel_ref channel, group members, size_t slot, int context_count)
    : channel_{channel},
      members_{std::move(members)},
      numbers_(size_t(channel.job->count()), -1),
      slot_{slot},
      context_count_{context_count} {
  for (int32_t i = 0; i < count(); i++)
    numbers_[size_t(members_.pe(i))] = i;
}

team_set::team_set(channel_ref channel, group_mode mode)
    : channel_{channel},
      mode_{mode},
      layout_{channel.job->count(), exit_slot + 1},
      departures_{channel, layout_},
      stalls_{channel, layout_, departures_, world_slot},
      slots_(exit_slot + 1),
      free_{~uint64_t{0}},
      number_{0} {
  TND_ASSERT(channel.job->control().size() >= layout_.size());
  for (auto &entry : slots_)
    entry.consumed.resize(far_word_count);
  group all_pes;
  for (onesided::pe_index pe = 0; pe < channel.job->count(); pe++)
    all_pes.pes.push_back(pe);
  all_pes.me = channel.job->me();
  group node;
  for (onesided::pe_index const pe : channel.job->node_pes()) {
    if (pe == channel.job->me())
      node.me = node.count();
    node.pes.push_back(pe);
  }
  world_ = make(all_pes, {world_slot, 0}, 0);
  legacy_world_ = make(all_pes, {1, 0}, 0);
  exit_team_ = make(std::move(all_pes), {exit_slot, 0}, 0);
  team_guard::detector_refs const detectors{departures_, stalls_};
  departure_guard_ = std::make_unique<departure_guard>(detectors, world_->members(), world_slot);
  shared_ = make(std::move(node), {2, 0}, 0);
}

// All PEs use the same slots, because no team has been split yet.
status team_set::start_devices() {
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

fabric_signals team_set::signals_for_slot(size_t slot_index) {
  auto const control = channel_.job->control();
  fabric_exchange_area *const area = layout_.fabric_area_of(control, slot_index);
  auto &consumed = slots_[slot_index].consumed;
  auto const counter_of = [&](uint64_t &word) {
    return counter{&word, &consumed[size_t(&word - &area->sync[0][0])]};
  };
  fabric_signals signals;
  for (size_t parity = 0; parity < 2; parity++) {
    for (size_t round = 0; round < round_count_max; round++) {
      signals.sync[parity * round_count_max + round] = counter_of(area->sync[parity][round]);
      signals.gather[parity * round_count_max + round] = counter_of(area->gather[parity][round]);
    }
    signals.bulk[parity] = counter_of(area->bulk[parity]);
    signals.relay[parity] = counter_of(area->relay[parity]);
    signals.areas[parity] = layout_.gather_of(control, slot_index, parity);
  }
  for (size_t round = 0; round < round_count_max; round++)
    signals.tree[round] = counter_of(area->tree[round]);
  signals.area_size = layout_.gather_size();
  signals.slices = counter_of(area->slices);
  signals.slices_area = layout_.slices_of(control, slot_index);
  return signals;
}

// Called with the mutex held, or in the constructor.
team *team_set::make(group members, const slot_choice &choice, int context_count,
                     bool is_device_team) {
  size_t const slot_index = choice.slot;
  auto &taken_slot = slots_[slot_index];
  taken_slot.owner =
      std::make_unique<team>(channel_, std::move(members), slot_index, context_count);
  if (slot_index < team_count_max)
    free_ &= ~(uint64_t{1} << slot_index);
  team &new_team = *taken_slot.owner;
  new_team.is_device_team_ = is_device_team;
  if (slot_index == exit_slot) {
    new_team.guard_ = std::make_unique<exit_guard>(departures_);
  } else {
    team_guard::detector_refs const detectors{departures_, stalls_};
    new_team.guard_ =
        std::make_unique<team_guard>(detectors, new_team.members_, slot_index, new_team.entered_);
  }
  new_team.channel_.guard = new_team.guard_.get();
  std::vector<mapped_exchange_area *> areas;
  auto const *const own_area = layout_.mapped_area_of(channel_.job->control(), slot_index);
  for (onesided::pe_index const pe : new_team.members_.pes) {
    auto const peer = channel_.job->map().locate(own_area, sizeof(mapped_exchange_area), pe);
    if (peer.mapped == nullptr)
      break;
    areas.push_back(reinterpret_cast<mapped_exchange_area *>(peer.mapped));
  }
  if (mode_ != group_mode::fabric && areas.size() == new_team.members_.pes.size()) {
    bool const is_oversubscribed = mode_ == group_mode::mapped
                                       ? channel_.job->is_oversubscribed()
                                       : mode_ == group_mode::mapped_oversubscribed;
    new_team.mapped_.emplace(new_team.channel_, new_team.members_, std::move(areas), choice.number,
                             is_oversubscribed);
  }
  if (!new_team.mapped_ || channel_.job->map().device() != nullptr) {
    new_team.fabric_.emplace(new_team.channel_, new_team.members_, signals_for_slot(slot_index));
  }
  return &new_team;
}

// `members`: nullopt for PEs that are not in the new team; they accept every slot.
result<team *> team_set::create_team(team &parent, std::optional<group> members,
                                     int context_count) {
  agreement own_vote{~uint64_t{0}, 0};
  if (members) {
    lock_guard lock{mutex_};
    for (auto const &entry : slots_) {
      if (entry.owner && entry.owner->mapped_)
        number_ = std::max(number_, entry.owner->mapped_->number());
    }
    own_vote = {free_, number_};
  }
  agreement agreed;
  TND_TRY(collective{parent}.agree(agreeing, &agreed, &own_vote));
  if (agreed.free == 0)
    return fail(status::no_space,
                "no team slot is free in all members: a PE can be in %zu teams at a time",
                team_count_max);
  if (!members)
    return static_cast<team *>(nullptr);
  lock_guard lock{mutex_};
  slot_choice const choice{size_t(std::countr_zero(agreed.free)), agreed.number};
  return make(std::move(*members), choice, context_count, parent.is_device_team());
}

result<team *> team_set::split(team &parent, const stride &subset, int context_count) {
  int64_t const last = subset.start + int64_t{subset.step} * (int64_t{subset.count} - 1);
  bool const is_repeated = subset.step == 0 && subset.count > 1;
  if (subset.count < 1 || parent.pe_of(subset.start) < 0 || last < 0 || last >= parent.count() ||
      is_repeated) {
    return fail(status::invalid,
                "a team of %d PEs from %d on by steps of %d does not lie within the parent's %d",
                subset.count, subset.start, subset.step, parent.count());
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

result<team_set::axes> team_set::split_2d(team &parent, int row, int row_context_count,
                                          int column_context_count) {
  if (row < 1)
    return fail(status::invalid, "rows of %d PEs: a row needs at least one", row);
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
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](auto const &entry) { return entry.owner.get() == team_ptr; });
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
  size_t const index = team_ptr->slot_;
  slots_[index].owner.reset();
  free_ |= uint64_t{1} << index;
  return status::ok;
}

}  // namespace tanada::shmem
