#include "products/poold/gaps.hpp"

namespace tanada::poold {

void gaps::failed(const std::vector<change> &changes, uint64_t order, status why) {
  for (const change &each : changes) {
    key const name{each.space, each.name}, old_name{each.space, each.old_name};
    bool const renamed = each.what == change::kind::rename && name != old_name;
    if (each.what == change::kind::put)
      (void)take_ghost(name, each.version);
    if (each.what == change::kind::put || renamed) {
      std::string logged_as;
      if (renamed) {
        gap &old = all_[old_name];
        if (old.unlogged != each.version)
          old.ghosts[each.version] = order;
        logged_as = old.unlogged != each.version ? each.old_name : old.logged_as;
      }
      gap &of = all_[name];
      // What was not in the log before is no ghost.
      if (each.before != 0 && each.before != of.unlogged)
        of.ghosts[each.before] = order;
      if (order >= of.order) {
        of.unlogged = each.version;
        of.order = order;
        of.why = why;
        of.logged_as = std::move(logged_as);
      }
    }
    if (each.what == change::kind::remove) {
      gap &of = all_[name];
      if (of.unlogged != each.version)
        of.ghosts[each.version] = order;
      else
        of.unlogged = 0;
      if (of.ghosts.empty())
        all_.erase(name);
    }
  }
}

// False: the log has that version not under the name.
bool gaps::take_ghost(const key &of, uint64_t version) {
  auto const found = all_.find(of);
  if (found == all_.end() || found->second.ghosts.erase(version) == 0)
    return false;
  if (found->second.unlogged == 0 && found->second.ghosts.empty())
    all_.erase(found);
  return true;
}

// The log has that version under the name. It is in the way of a later one that failed.
void gaps::close(const key &of, uint64_t order, uint64_t version) {
  auto const found = all_.find(of);
  if (found == all_.end())
    return;
  gap &at = found->second;
  std::erase_if(at.ghosts, [&](auto const &ghost) { return ghost.second <= order; });
  if (order < at.order)
    at.ghosts[version] = at.order;
  else
    at.unlogged = 0;
  if (at.unlogged == 0 && at.ghosts.empty())
    all_.erase(found);
}

void gaps::follow(const key &of, uint64_t order, std::vector<change> &to_follow) {
  auto const found = all_.find(of);
  if (found == all_.end())
    return;
  gap &at = found->second;
  for (auto const &[version, failed_order] : at.ghosts) {
    if (failed_order > order)
      continue;
    change &gone = to_follow.emplace_back();
    gone.what = change::kind::remove;
    gone.version = version;
    gone.space = of.first;
    gone.name = of.second;
  }
  if (order >= at.order)
    at.unlogged = 0;
  if (at.unlogged == 0 && at.ghosts.empty())
    all_.erase(found);
}

void gaps::begin_following(std::vector<change> &removals, uint64_t order) {
  std::erase_if(removals, [&](const change &each) {
    auto const found = all_.find({each.space, each.name});
    if (found == all_.end())
      return true;
    auto const ghost = found->second.ghosts.find(each.version);
    if (ghost == found->second.ghosts.end() || ghost->second > order)
      return true;
    (void)take_ghost(found->first, each.version);
    return false;
  });
}

status gaps::kept(const std::vector<change> &changes, uint64_t order,
                  std::vector<change> &to_follow) {
  if (all_.empty())
    return status::ok;
  status code = status::ok;
  for (const change &each : changes) {
    key const name{each.space, each.name}, old_name{each.space, each.old_name};
    auto const at = all_.find(each.what == change::kind::rename ? old_name : name);
    bool const missing = at != all_.end() && at->second.unlogged == each.version;
    status const why = missing ? at->second.why : status::ok;
    switch (each.what) {
      case change::kind::put: close(name, order, each.version); break;
      case change::kind::remove: follow(name, order, to_follow); break;
      case change::kind::set_flags:
        if (missing)
          code = why;
        break;
      case change::kind::rename:
        // The log may have moved it from another name.
        if (missing && !take_ghost({each.space, at->second.logged_as}, each.version)) {
          code = why;
          failed({each}, order, code);
        } else {
          close(name, order, each.version);
          if (name != old_name)
            follow(old_name, order, to_follow);
        }
    }
  }
  return code;
}

}  // namespace tanada::poold
