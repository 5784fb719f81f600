#include "products/shmem/teams.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/shmem/collectives/collectives.hpp"

namespace tanada::shmem {
namespace {

static_assert(team_count_max == 64, "a bit of a word each");
static_assert(sizeof(far_board) % sizeof(uint64_t) == 0);
constexpr size_t far_word_count = sizeof(far_board) / sizeof(uint64_t);

// What the members of a parent agree on: a slot that is free in all of the new team, and a number
// that none of its words exceeds.
struct agreement {
  uint64_t free, number;
};

void agree(void *into, const void *with, size_t count) {
  auto *const target = static_cast<agreement *>(into);
  auto const *const other = static_cast<const agreement *>(with);
  for (size_t i = 0; i < count; i++) {
    target[i].free &= other[i].free;
    target[i].number = std::max(target[i].number, other[i].number);
  }
}

constexpr reduction agreeing{sizeof(agreement), &agree};

// The slot of the team by which all leave, after those of other teams.
constexpr size_t leaving_slot = team_count_max;
constexpr size_t world_slot = 0;

// For the wait of a PE that leaves: the others learn of it, once, and the wait goes on.
class leaving_guard final : public wait_guard {
 public:
  explicit leaving_guard(departures &all) : all_{all} {}

  void prepare(departure_kind kind, std::vector<departures::membership> teams) {
    kind_ = kind;
    teams_ = std::move(teams);
  }

  status check() override {
    if (std::exchange(is_announced_, true))
      return status::ok;
    all_.announce(kind_, teams_);
    return status::ok;
  }

 private:
  departures &all_;
  departure_kind kind_ = departure_kind::finalize;
  std::vector<departures::membership> teams_;
  bool is_announced_ = false;
};

// Our device reaches the memory of all these PEs' devices.
bool reaches(const pgas::job &job, const group &all) {
  auto const heap = job.device_heap();
  return std::all_of(all.pes.begin(), all.pes.end(), [&](pgas::pe_index pe) {
    return job.map().locate(heap.data(), heap.size(), pe).reached(pe) != nullptr;
  });
}

}  // namespace

team::team(wires by, group members, size_t slot, int context_count)
    : by_{by},
      members_{std::move(members)},
      numbers_(size_t(by.job->count()), -1),
      slot_{slot},
      context_count_{context_count} {
  for (int32_t i = 0; i < count(); i++)
    numbers_[size_t(members_.pe(i))] = i;
}

team_set::team_set(wires by, means near)
    : by_{by},
      near_{near},
      layout_{by.job->count(), leaving_slot + 1},
      departures_{by, layout_},
      stalls_{by, layout_, departures_, world_slot},
      slots_(leaving_slot + 1),
      free_{~uint64_t{0}},
      number_{0} {
  TND_ASSERT(by.job->control().size() >= layout_.size());
  for (auto &each : slots_)
    each.taken.resize(far_word_count);
  group all;
  for (pgas::pe_index pe = 0; pe < by.job->count(); pe++)
    all.pes.push_back(pe);
  all.me = by.job->me();
  group node;
  for (pgas::pe_index const pe : by.job->node_pes()) {
    if (pe == by.job->me())
      node.me = node.count();
    node.pes.push_back(pe);
  }
  world_ = make(all, {world_slot, 0}, 0);
  everybody_ = make(all, {1, 0}, 0);
  leaving_ = make(std::move(all), {leaving_slot, 0}, 0);
  team_guard::source const from{departures_, stalls_};
  desertion_ = std::make_unique<desertion_guard>(from, world_->members(), world_slot);
  shared_ = make(std::move(node), {2, 0}, 0);
}

// All take the same slots: nothing has been split.
status team_set::start_devices() {
  uint32_t const mine = reaches(*by_.job, shared_->members()) ? 1 : 0;
  uint32_t all = 0;
  TND_TRY(collective{*shared_}.agree(reduction_of<uint32_t, bit_and>, &all, &mine));
  group alone;
  alone.pes.push_back(by_.job->me());
  lock_guard lock{mutex_};
  device_world_ = make(world_->members(), {3, 0}, 0, true);
  device_shared_ = make(all == 1 ? shared_->members() : std::move(alone), {4, 0}, 0, true);
  return status::ok;
}

team *team_set::device_team_at(size_t index) noexcept {
  lock_guard lock{mutex_};
  team *const found = index < slots_.size() ? slots_[index].owner.get() : nullptr;
  bool const has_other_name = found == device_world_ || found == device_shared_;
  return found != nullptr && found->is_of_devices() && !has_other_name ? found : nullptr;
}

team_set::~team_set() = default;

std::vector<departures::membership> team_set::memberships() {
  lock_guard lock{mutex_};
  std::vector<departures::membership> found;
  for (auto const &each : slots_) {
    if (each.owner)
      found.push_back({&each.owner->members(), each.owner->slot(), each.owner->entered()});
  }
  return found;
}

status team_set::leave(departure_kind kind) {
  static_cast<leaving_guard &>(*leaving_->guard_).prepare(kind, memberships());
  return collective{*leaving_}.sync();
}

far_words team_set::words_of(size_t slot_index) {
  auto const control = by_.job->control();
  far_board *const board = layout_.far_of(control, slot_index);
  auto &taken = slots_[slot_index].taken;
  auto const counter_of = [&](uint64_t &word) {
    return counter{&word, &taken[size_t(&word - &board->sync[0][0])]};
  };
  far_words made;
  for (size_t parity = 0; parity < 2; parity++) {
    for (size_t round = 0; round < round_count_max; round++) {
      made.sync[parity * round_count_max + round] = counter_of(board->sync[parity][round]);
      made.gather[parity * round_count_max + round] = counter_of(board->gather[parity][round]);
    }
    made.bulk[parity] = counter_of(board->bulk[parity]);
    made.relay[parity] = counter_of(board->relay[parity]);
    made.areas[parity] = layout_.gather_of(control, slot_index, parity);
  }
  for (size_t round = 0; round < round_count_max; round++)
    made.tree[round] = counter_of(board->tree[round]);
  made.area_size = layout_.gather_size();
  made.slices = counter_of(board->slices);
  made.slices_area = layout_.slices_of(control, slot_index);
  return made;
}

// Under the mutex, or in the constructor.
team *team_set::make(group members, const place &at, int context_count, bool is_of_devices) {
  size_t const slot_index = at.slot;
  auto &taken_slot = slots_[slot_index];
  taken_slot.owner = std::make_unique<team>(by_, std::move(members), slot_index, context_count);
  if (slot_index < team_count_max)
    free_ &= ~(uint64_t{1} << slot_index);
  team &made = *taken_slot.owner;
  made.is_of_devices_ = is_of_devices;
  if (slot_index == leaving_slot) {
    made.guard_ = std::make_unique<leaving_guard>(departures_);
  } else {
    team_guard::source const from{departures_, stalls_};
    made.guard_ = std::make_unique<team_guard>(from, made.members_, slot_index, made.entered_);
  }
  made.by_.guard = made.guard_.get();
  std::vector<near_board *> boards;
  auto const *const own = layout_.near_of(by_.job->control(), slot_index);
  for (pgas::pe_index const pe : made.members_.pes) {
    auto const there = by_.job->map().locate(own, sizeof(near_board), pe);
    if (there.mapped == nullptr)
      break;
    boards.push_back(reinterpret_cast<near_board *>(there.mapped));
  }
  if (near_ != means::contexts && boards.size() == made.members_.pes.size()) {
    bool const is_crowded =
        near_ == means::stores ? by_.job->is_crowded() : near_ == means::stores_crowded;
    made.near_.emplace(made.by_, made.members_, std::move(boards), at.number, is_crowded);
  }
  if (!made.near_ || by_.job->map().device() != nullptr) {
    made.far_.emplace(made.by_, made.members_, words_of(slot_index));
  }
  return &made;
}

// `members`: none for those who are not in the new team; they say nothing about slots.
result<team *> team_set::found(team &parent, std::optional<group> members, int context_count) {
  agreement mine{~uint64_t{0}, 0};
  if (members) {
    lock_guard lock{mutex_};
    for (auto const &each : slots_) {
      if (each.owner && each.owner->near_)
        number_ = std::max(number_, each.owner->near_->number());
    }
    mine = {free_, number_};
  }
  agreement agreed;
  TND_TRY(collective{parent}.agree(agreeing, &agreed, &mine));
  if (agreed.free == 0)
    return fail(status::no_space, "no team is left: a PE can be in %zu at a time", team_count_max);
  if (!members)
    return static_cast<team *>(nullptr);
  lock_guard lock{mutex_};
  place const at{size_t(std::countr_zero(agreed.free)), agreed.number};
  return make(std::move(*members), at, context_count, parent.is_of_devices());
}

result<team *> team_set::split(team &parent, const stride &which, int context_count) {
  int64_t const last = which.start + int64_t{which.step} * (int64_t{which.count} - 1);
  bool const is_repeated = which.step == 0 && which.count > 1;
  if (which.count < 1 || parent.pe_of(which.start) < 0 || last < 0 || last >= parent.count() ||
      is_repeated) {
    return fail(status::invalid,
                "a team of %d PEs from %d on by steps of %d does not lie within the parent's %d",
                which.count, which.start, which.step, parent.count());
  }
  group members;
  members.me = -1;
  for (int i = 0; i < which.count; i++) {
    int32_t const member = which.start + i * which.step;
    if (member == parent.me())
      members.me = i;
    members.pes.push_back(parent.pe_of(member));
  }
  if (members.me < 0)
    return found(parent, std::nullopt, context_count);
  return found(parent, std::move(members), context_count);
}

result<team_set::axes> team_set::split_2d(team &parent, int row, int row_context_count,
                                          int column_context_count) {
  if (row < 1)
    return fail(status::invalid, "rows of %d PEs", row);
  row = std::min(row, parent.count());
  group rows, columns;
  int32_t const first = parent.me() / row * row;
  rows.me = parent.me() - first;
  for (int32_t member = first; member < std::min(first + row, parent.count()); member++)
    rows.pes.push_back(parent.pe_of(member));
  columns.me = parent.me() / row;
  for (int32_t member = parent.me() % row; member < parent.count(); member += row)
    columns.pes.push_back(parent.pe_of(member));
  auto along = found(parent, std::move(rows), row_context_count);
  if (!along.ok())
    return along.error();
  auto across = found(parent, std::move(columns), column_context_count);
  if (!across.ok()) {
    TND_TRY(destroy(along.value()));
    return across.error();
  }
  return axes{along.value(), across.value()};
}

bool team_set::has(const team *which) {
  lock_guard lock{mutex_};
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](auto const &each) { return each.owner.get() == which; });
}

// All have come, so all have finished what was before; what a member has not seen of the others'
// coming stays in words that only grow.
status team_set::destroy(team *which) {
  for (auto const *const kept : {world_, shared_, everybody_, device_world_, device_shared_}) {
    if (which == kept)
      return status::invalid;
  }
  TND_TRY(collective{*which}.sync());
  lock_guard lock{mutex_};
  if (which->near_)
    number_ = std::max(number_, which->near_->number());
  size_t const index = which->slot_;
  slots_[index].owner.reset();
  free_ |= uint64_t{1} << index;
  return status::ok;
}

}  // namespace tanada::shmem
