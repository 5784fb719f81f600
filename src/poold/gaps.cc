#include "poold/gaps.hpp"

namespace tanada::poold {

void gaps::failed(const std::vector<change> &changes, uint64_t order, status why) {
  for (const change &each : changes) {
    key const name{each.space, each.name};
    if (each.what == change::kind::put || (each.what == change::kind::rename && each.name != each.old_name)) {
      gap &of = all_[name];
      // What was not in the log before is no ghost.
      if (each.before != 0 && each.before != of.unlogged) of.ghosts.insert(each.before);
      if (order >= of.order) of.unlogged = each.version, of.order = order, of.why = why;
    }
    if (each.what == change::kind::rename && each.name != each.old_name) {
      gap &old = all_[{each.space, each.old_name}];
      if (old.unlogged != each.version) old.ghosts.insert(each.version);
    }
    if (each.what == change::kind::remove) {
      gap &of = all_[name];
      if (of.unlogged != each.version) of.ghosts.insert(each.version);
      else of.unlogged = 0;
      if (of.ghosts.empty()) all_.erase(name);
    }
  }
}

// The log has that version under the name. It is in the way of a later one that failed.
void gaps::close(const key &of, uint64_t order, uint64_t version) {
  auto const found = all_.find(of);
  if (found == all_.end()) return;
  if (order >= found->second.order) all_.erase(found);
  else found->second.ghosts = {version};
}

void gaps::take_ghosts(const key &of, uint64_t order, std::vector<change> &to_follow) {
  auto const found = all_.find(of);
  if (found == all_.end()) return;
  for (uint64_t const version : std::exchange(found->second.ghosts, {})) {
    change &gone = to_follow.emplace_back();
    gone.what = change::kind::remove, gone.version = version, gone.space = of.first, gone.name = of.second;
  }
  if (order >= found->second.order) all_.erase(found);
}

status gaps::kept(const std::vector<change> &changes, uint64_t order, std::vector<change> &to_follow) {
  if (all_.empty()) return status::ok;
  status code = status::ok;
  for (const change &each : changes) {
    key const name{each.space, each.name}, old_name{each.space, each.old_name};
    auto const at = all_.find(each.what == change::kind::rename ? old_name : name);
    bool const missing = at != all_.end() && at->second.unlogged == each.version;
    switch (each.what) {
      case change::kind::put: close(name, order, each.version); break;
      case change::kind::remove: take_ghosts(name, order, to_follow); break;
      case change::kind::set_flags:
        if (missing) code = at->second.why;
        break;
      case change::kind::rename:
        if (missing) {
          code = at->second.why;
          failed({each}, order, code);
        } else if (name != old_name) {
          close(name, order, each.version);
          take_ghosts(old_name, order, to_follow);
        }
    }
  }
  return code;
}

}  // namespace tanada::poold
