// The catalog's sets: groups of objects that get their names atomically.
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

status catalog::join_set(uint64_t namespace_id, const std::string &set, uint64_t session) {
  lock_guard lock{mutex_};
  auto &sets = state_for(namespace_id).sets;
  if (!sets.contains(set) && sets.size() >= 4096)
    return fail(status::no_space,
                "the namespace has 4096 uncommitted sets, the maximum: commit some");
  sets[set].sessions.insert(session);
  return status::ok;
}

status catalog::prepare(const object_ref &object,
                        const std::string &name,
                        const std::string &set,
                        uint64_t session,
                        uint32_t flags) {
  lock_guard lock{mutex_};
  TND_ASSERT(object != nullptr);
  object_set &target = state_for(object->owner()).sets[set];
  target.sessions.insert(session);
  target.prepared[name] = {object, (flags & flag_exclusive) != 0};
  return status::ok;
}

status catalog::commit_set(uint64_t namespace_id,
                           const std::string &set,
                           uint64_t count,
                           journal_callback done) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  auto const it = state.sets.find(set);
  size_t const have = it == state.sets.end() ? 0 : it->second.prepared.size();
  if (have != count) {
    return fail(status::again, "set {} has {} of {} objects", set, have, count);
  }
  std::vector<change> changes;
  std::vector<object_ref> superseded;
  if (count > 0) {
    for (auto const &[name, target] : it->second.prepared)
      if (target.is_exclusive && state.objects.contains(name))
        return status::exists;
    for (auto const &[name, target] : it->second.prepared)
      commit_locked(state, name, target.object, changes, superseded);
    state.sets.erase(it);
  }
  append_changes(std::move(changes), std::move(superseded), std::move(done));
  return status::ok;
}

void catalog::close_namespace(uint64_t namespace_id, bool can_write, uint64_t session) {
  std::vector<object_set> dropped;  // their objects must be released before the namespace
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  for (auto it = state.sets.begin(); it != state.sets.end();) {
    object_set &target = it->second;
    if (target.sessions.erase(session) == 0 || !target.sessions.empty()) {
      ++it;
      continue;
    }
    dropped.push_back(std::move(target));
    it = state.sets.erase(it);
  }
  dropped.clear();
  uint32_t &client_count = can_write ? state.writer_count : state.reader_count;
  TND_ASSERT(client_count > 0);
  client_count--;
  maybe_unused_.insert(namespace_id);
  remove_unused();
}

}  // namespace tanada::poold
