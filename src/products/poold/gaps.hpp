// products/poold/gaps.hpp: names of which the log tells other things than the catalog, because it
// failed.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "products/poold/journal.hpp"

namespace tanada::poold {

// A transaction that fails counts as never made in the log, while the catalog goes on with it. So
// an object may not be in the log, or not under its name, and the log may keep under a name what
// the catalog has no more: whoever removes the name means that, too. The log knows objects by their
// versions: what it has under another name still moves where a rename sends it. A name's gap closes
// with the next object that the log takes under it. Used by one thread.
class gaps {
 public:
  // `order`: of the transaction among all that were appended. A failure may be told before the
  // outcome of earlier ones.
  void failed(const std::vector<change> &changes, uint64_t order, status why);

  // These are in the log. Fills in removals that must follow, before these hold: after all that was
  // appended in the meantime, which may move what they name. Not ok: one of them named an object
  // that is not there; this is why.
  status kept(const std::vector<change> &changes, uint64_t order, std::vector<change> &to_follow);

  // All before these removals, which follow the transaction at `order`, has its outcome: leaves
  // those still to be made, and takes them for made.
  void begin_following(std::vector<change> &removals, uint64_t order);

 private:
  struct gap {
    uint64_t unlogged = 0;    // the version that has the name, when it is not in the log under it
    uint64_t order = 0;       // of the transaction that should have put it there
    status why = status::ok;  // it is not
    std::string logged_as = {};  // the name of which it may be a ghost; empty: of none
    std::map<uint64_t, uint64_t> ghosts =
        {};  // versions that the log may have under the name; order of what failed to end that
  };
  using key = std::pair<std::string, std::string>;  // namespace, name

  void close(const key &of, uint64_t order, uint64_t version);
  void follow(const key &of, uint64_t order, std::vector<change> &to_follow);
  bool take_ghost(const key &of, uint64_t version);

  std::map<key, gap> all_;
};

}  // namespace tanada::poold
