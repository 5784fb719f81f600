// The catalog's objects that leave memory and come back.
#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

// Let an object leave memory from now on, as the one that was used last, or no longer.
void catalog::update_residence(namespace_state &state, entries::iterator it) {
  TND_ASSERT(mutex_.is_held());
  entry &target = it->second;
  remove_residence(target);
  const object &held = *target.object;
  // The bytes of a striped object are read under the catalog's mutex.
  bool const stays = (held.flags.load() & (flag_pinned | flag_striped)) != 0 || held.is_damaged;
  if (!is_tiered() || held.is_cold() || held.allocated_size() == 0 || stays)
    return;
  target.added_places().resident = residents_.insert(residents_.end(), {&state, it});
  residents_size_ += held.allocated_size();
}

void catalog::remove_residence(entry &target) {
  TND_ASSERT(mutex_.is_held());
  if (!target.is_resident())
    return;
  TND_ASSERT(residents_size_ >= target.object->allocated_size());
  residents_size_ -= target.object->allocated_size();
  residents_.erase(*target.places->resident);
  target.places->resident.reset();
  target.drop_unused_places();
}

void catalog::count_cold(const object &target, bool adds) {
  if (!target.is_cold())
    return;
  TND_ASSERT(adds || statistics_.cold_count > 0);
  statistics_.cold_count += adds ? 1 : uint64_t(-1);
  statistics_.cold_size += adds ? target.metadata.size : -target.metadata.size;
}

// The object is the same, so neither its order among evictable ones nor its name's count changes.
void catalog::replace_instance(namespace_state &state,
                               entries::iterator it,
                               const object_ref &instance) {
  TND_ASSERT(mutex_.is_held());
  entry &target = it->second;
  TND_ASSERT(target.object->metadata.version == instance->metadata.version);
  remove_residence(target);
  if (target.is_evictable() && !is_striped(*target.object))
    evictable_size_ += instance->stored_size() - target.object->stored_size();
  count_cold(*target.object, false);
  count_cold(*instance, true);
  instance->flags = target.object->flags.load();
  instance->take_charge(*target.object);
  target.object = instance;
  update_residence(state, it);
}

void catalog::demote(const resident_place &place) {
  TND_ASSERT(mutex_.is_held());
  const object_ref &resident = place.position->second.object;
  auto const cold = std::make_shared<object>(
      resident->account(), resident->metadata, resident->logged_version.load());
  cold->is_discardable = resident->is_discardable.load();
  statistics_.demotions++;
  replace_instance(*place.state, place.position, cold);
}

// Free the memory of the least recently used object whose bytes the log has and which nobody uses.
// False: there is no such object.
bool catalog::demote_one(demotion_obstacles &obstacles) {
  TND_ASSERT(mutex_.is_held());
  for (const resident_place &place : residents_) {
    const object_ref &candidate = place.position->second.object;
    bool const is_logged = candidate->logged_version.load() != 0;
    if (is_logged && candidate.use_count() == 1) {
      demote(resident_place{place});
      return true;
    }
    obstacles.has_users = obstacles.has_users || is_logged;
  }
  obstacles.has_writes = is_tiered() && !residents_.empty() && options_.cold->is_writing();
  return false;
}

// Evict objects until the log has space for `size` more bytes.
status catalog::allocate_stored(namespace_state &state, uint64_t size) {
  TND_ASSERT(mutex_.is_held());
  if (!is_tiered())
    return status::ok;
  uint64_t const capacity = options_.cold->capacity();
  bool const could = size <= capacity &&
                     stored_size() - std::min(stored_size(), evictable_size_) <= capacity - size;
  while (size > capacity || stored_size() > capacity - size) {
    if (could && evict_one(state, {}))
      continue;
    return fail(status::no_space,
                "namespace {}: the pool has no space for {} bytes: {} of the {} bytes that its log "
                "has for objects are in use: remove objects, or start the daemon with a larger "
                "--log-size",
                state.user_name(),
                size,
                stored_size(),
                capacity);
  }
  return status::ok;
}

result<catalog::entries::iterator> catalog::find_version(namespace_state &state,
                                                         const std::string &name,
                                                         uint64_t version) {
  TND_ASSERT(mutex_.is_held());
  auto const it = state.objects.find(name);
  if (it == state.objects.end())
    return status::no_entry;
  bool const is_wanted = version == 0 || it->second.object->metadata.version == version;
  return is_wanted ? result<entries::iterator>{it} : status::no_entry;
}

result<catalog::opened_object> catalog::open_bytes(uint64_t namespace_id,
                                                   const std::string &name,
                                                   uint64_t version,
                                                   bool count_open) {
  lock_guard lock{mutex_};
  auto match = open_locked(namespace_id, name, version, count_open);
  if (!match.ok())
    return match.error();
  opened_object opened{std::move(match).value(), nullptr};
  opened.reader = reader_of(*opened.object);
  return opened;
}

// Evicts nothing: an object that comes back may only take the place of others in memory.
result<object_ref> catalog::create_resident(const object_ref &cold, allocation mode) {
  TND_ASSERT(cold->is_cold());
  lock_guard lock{mutex_};
  namespace_state &state = state_for(cold->owner());
  uint64_t const size = cold->metadata.size;
  std::vector<pool_extent> pieces;
  demotion_obstacles obstacles;
  while (allocate_memory(state, size, allocation::only_free, pieces) != status::ok) {
    if (mode == allocation::only_free)
      return status::no_space;
    if (could_fit(size) && demote_one(obstacles))
      continue;
    if (mode == allocation::may_wait && (obstacles.has_writes || obstacles.has_users))
      return obstacles.has_writes ? status::again : status::busy;
    return fail_no_space(state, size);
  }
  auto created = std::make_shared<object>(cold->account());
  created->add_pieces(std::move(pieces), false);
  created->metadata = cold->metadata;
  created->flags = cold->flags.load();
  created->is_discardable = cold->is_discardable.load();
  created->logged_version = cold->logged_version.load();
  return created;
}

object_ref catalog::promote(const std::string &name,
                            const object_ref &cold,
                            const object_ref &resident) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(cold->owner());
  auto const match = find_version(state, name, cold->metadata.version);
  if (match.ok() && match.value()->second.object == cold) {
    statistics_.promotions++;
    replace_instance(state, match.value(), resident);
    return resident;
  }
  // Another client has brought it back, or it was removed.
  if (match.ok() && !match.value()->second.object->is_cold())
    return match.value()->second.object;
  resident->take_charge(*cold);
  return resident;
}

object_ref catalog::create_cold(uint64_t namespace_id,
                                const info &about,
                                uint32_t flags,
                                uint64_t logged) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  auto created = std::make_shared<object>(state.account, about, logged);
  created->flags = flags & flags_of_objects;
  return created;
}

}  // namespace tanada::poold
