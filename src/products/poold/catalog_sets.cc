// Objects that get their names all at once.
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

status catalog::join_set(uint64_t space_id, const std::string &set, uint64_t session) {
  std::lock_guard lock{mutex_};
  auto &sets = state_of(space_id).sets;
  if (!sets.contains(set) && sets.size() >= 4096)
    return fail(status::no_space, "there are 4096 sets under way already");
  sets[set].sessions.insert(session);
  return status::ok;
}

status catalog::prepare(const object_ref &made, const std::string &name, const std::string &set,
                        uint64_t session) {
  std::lock_guard lock{mutex_};
  set_state &of = state_of(made->owner()).sets[set];
  of.sessions.insert(session);
  of.prepared[name] = made;
  return status::ok;
}

status catalog::set_commit(uint64_t space_id, const std::string &set, uint64_t count,
                           journal_done done) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  auto const found = in.sets.find(set);
  size_t const have = found == in.sets.end() ? 0 : found->second.prepared.size();
  if (have != count) {
    return fail(status::again, "set %s has %zu of %llu objects", set.c_str(), have,
                static_cast<unsigned long long>(count));
  }
  std::vector<change> changes;
  std::vector<object_ref> superseded;
  if (count > 0) {
    for (auto &[name, made] : found->second.prepared)
      publish(in, name, made, changes, superseded);
    in.sets.erase(found);
  }
  append(std::move(changes), std::move(superseded), std::move(done));
  return status::ok;
}

void catalog::leave(uint64_t space_id, bool can_write, uint64_t session) {
  std::vector<set_state> dropped;  // their objects, too, go before the namespace does
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  for (auto at = in.sets.begin(); at != in.sets.end();) {
    set_state &of = at->second;
    if (of.sessions.erase(session) == 0 || !of.sessions.empty()) {
      ++at;
      continue;
    }
    dropped.push_back(std::move(of));
    at = in.sets.erase(at);
  }
  dropped.clear();
  uint32_t &client_count = can_write ? in.writer_count : in.reader_count;
  TND_ASSERT(client_count > 0);
  client_count--;
  maybe_unused_.insert(space_id);
  drop_unused();
}

}  // namespace tanada::poold
