// The catalog of a cluster's server: changes that other servers have made, and visits of objects
// for bringing other servers up to date.
#include <algorithm>

#include "core/base/assert.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t rewrite_size_max = 16 << 20;  // bytes of objects, unless one is larger

}  // namespace

uint64_t catalog::hold_namespace(const std::string &namespace_name) {
  lock_guard lock{mutex_};
  namespace_state &state = find_or_create(namespace_name);
  state.writer_count++;
  return state.account->id;
}

void catalog::exclude_changes(const std::function<void()> &action) {
  lock_guard lock{mutex_};
  action();
}

void catalog::rewrite(std::span<const poold::object_place> places, journal_callback done) {
  std::vector<change> changes;
  std::vector<object_ref> superseded;
  uint64_t size = 0;
  lock_guard lock{mutex_};
  for (const object_place &place : places) {
    object_ref const present = find_locked(place);
    bool const is_damaged = present != nullptr && present->is_damaged;
    size += present == nullptr ? 0 : present->metadata.size;
    if (is_damaged || (size > rewrite_size_max && !changes.empty()))
      continue;
    // The journal knows what it has under a name that is free now.
    change &target = changes.emplace_back();
    target.type = present == nullptr ? change::kind::remove : change::kind::put;
    target.is_replica = true;
    target.namespace_name = place.namespace_name;
    target.name = place.name;
    if (present == nullptr)
      continue;
    target.version = present->metadata.version;
    target.object = present;
    target.flags = present->flags.load() & flags_of_objects;
  }
  append_changes(std::move(changes), superseded, std::move(done));
}

object_ref catalog::find_locked(const object_place &place) const {
  TND_ASSERT(mutex_.is_held());
  auto const id = ids_.find(place.namespace_name);
  if (id == ids_.end())
    return nullptr;
  auto const &objects = state_for(id->second).objects;
  auto const it = objects.find(place.name);
  return it == objects.end() ? nullptr : it->second.object;
}

status catalog::apply(uint64_t namespace_id,
                      const std::function<status()> &check,
                      std::vector<change> changes,
                      journal_callback done) {
  std::vector<object_ref> superseded;
  lock_guard lock{mutex_};
  TND_TRY(check());
  namespace_state &state = state_for(namespace_id);
  for (change &target : changes) {
    target.is_replica = true;
    target.namespace_name = state.name;
    if (object_ref previous = apply_locked(state, target); previous != nullptr)
      superseded.push_back(std::move(previous));
  }
  // Without an object a change had nothing to change.
  std::erase_if(changes, [](const change &target) { return target.version == 0; });
  append_changes(std::move(changes), superseded, std::move(done));
  return status::ok;
}

// Makes one change, and completes it for the journal. Returns the object that it superseded.
object_ref catalog::apply_locked(namespace_state &state, change &target) {
  TND_ASSERT(mutex_.is_held());
  switch (target.type) {
    case change::kind::put:
      return apply_put(state, target);
    case change::kind::remove:
      return apply_remove(state, target);
    case change::kind::rename:
      return apply_rename(state, target);
    case change::kind::set_flags:
      apply_flags(state, target);
  }
  return nullptr;
}

object_ref catalog::apply_put(namespace_state &state, change &target) {
  TND_ASSERT(target.object != nullptr && target.object->owner() == state.account->id);
  last_version_ = std::max(last_version_, target.object->metadata.version);
  target.version = target.object->metadata.version;
  target.flags = target.object->flags & flags_of_objects;
  adopt_manifest(state, *target.object);
  object_ref previous = bind(state, target.name, target.object);
  target.replaced_version = previous == nullptr ? 0 : previous->metadata.version;
  return previous;
}

object_ref catalog::apply_remove(namespace_state &state, change &target) {
  auto const it = state.objects.find(target.name);
  target.version = it == state.objects.end() ? 0 : it->second.object->metadata.version;
  return it == state.objects.end() ? nullptr : unbind(state, it);
}

object_ref catalog::apply_rename(namespace_state &state, change &target) {
  auto const it = state.objects.find(target.old_name);
  target.version = it == state.objects.end() ? 0 : it->second.object->metadata.version;
  if (it == state.objects.end() || target.old_name == target.name)
    return nullptr;
  object_ref const moved = unbind(state, it);
  object_ref previous = bind(state, target.name, moved);
  target.replaced_version = previous == nullptr ? 0 : previous->metadata.version;
  return previous;
}

void catalog::apply_flags(namespace_state &state, change &target) {
  auto const it = state.objects.find(target.name);
  target.version = it == state.objects.end() ? 0 : it->second.object->metadata.version;
  if (it == state.objects.end())
    return;
  std::atomic<uint32_t> &object_flags = it->second.object->flags;
  object_flags = (object_flags & ~flags_of_objects) | (target.flags & flags_of_objects);
  target.object = it->second.object;
  update_eviction(state, it);
  update_residence(state, it);
}

bool catalog::visit_objects(const namespace_filter &filter,
                            object_place after,
                            size_t count_max,
                            const object_visitor &visitor) {
  lock_guard lock{mutex_};
  std::vector<std::pair<std::string, uint64_t>> spaces;
  for (auto const &[name, id] : ids_)
    if (name >= after.namespace_name && filter(name))
      spaces.emplace_back(name, id);
  std::sort(spaces.begin(), spaces.end());
  for (auto const &[name, id] : spaces) {
    auto const &objects = state_for(id).objects;
    bool const is_first = name == after.namespace_name;
    auto it = is_first ? objects.upper_bound(after.name) : objects.begin();
    for (; it != objects.end(); ++it)
      if (count_max-- == 0 || !visitor({name, it->first}, it->second.object))
        return true;
  }
  return false;
}

void catalog::visit_places(
    std::span<const object_place> places,
    const std::function<void(const object_place &place, const object_ref &object)> &visitor) {
  lock_guard lock{mutex_};
  for (const object_place &place : places)
    visitor(place, find_locked(place));
}

}  // namespace tanada::poold
