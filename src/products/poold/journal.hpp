// products/poold/journal.hpp: what keeps the catalog's changes beyond the daemon's life.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "products/poold/object.hpp"

namespace tanada::poold {

struct change {
  enum class kind : uint8_t { put, remove, rename, set_flags };
  kind what = kind::put;
  uint64_t version = 0;  // of the object
  object_ref object;     // put, set_flags
  std::string space;     // the namespace
  std::string name;      // the object's; rename: from now on
  std::string old_name;  // rename: until now
  uint64_t before = 0;   // put, rename: the version that had the name; 0: none had it
  uint32_t flags = 0;    // put: when it was committed; set_flags: from now on
};

// But for what is particular to its kind.
inline change change_of(change::kind what, const object &which, const std::string &space_name,
                        const std::string &name) {
  change made;
  made.what = what;
  made.version = which.about.version;
  made.space = space_name;
  made.name = name;
  return made;
}

using journal_done = std::function<void(status)>;

// Thread-safe.
class journal {
 public:
  virtual ~journal() = default;

  // Keep these changes, all or none of them, and behind all that were appended before. Does not
  // wait; called with the catalog locked, so `done` comes later and from another thread.
  // `superseded` is memory that may not be used for anything else before that: a crash until then
  // brings the old objects back.
  virtual void append(std::vector<change> changes, std::vector<object_ref> superseded,
                      journal_done done) = 0;

  // So much is under way that those who commit should wait for it.
  virtual bool is_behind() const = 0;
};

}  // namespace tanada::poold
