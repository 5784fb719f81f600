// products/poold/cluster/fragment_directory.hpp: which servers have the fragments of the objects
// that this server serves.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/mutex.hpp"
#include "core/wire/pool_fragments.hpp"
#include "products/poold/cluster/map.hpp"
#include "products/poold/stripe_ledger.hpp"

namespace tanada::poold {

/**
 * Where fragments are, as their servers report it.
 *
 * Fragments never change, so their places are in no map and in no object: each server reports the
 * fragments that it has to the primary of their namespace, every period. A primary begins with the
 * places at which the client has put them. A place that is not reported for some periods, or whose
 * server does not run any more, does not count.
 *
 * **Thread safety** All calls, by any thread. No call waits for anything else.
 */
class fragment_directory {
 public:
  // Reports come once in `period_ns`.
  explicit fragment_directory(uint64_t period_ns) : period_ns_{period_ns} {}

  void set_servers(const std::vector<server_presence> &servers);

  // The object is served here, and was committed with this manifest. Without effect if it is known.
  void add(const striped_key &key, const wire::pool::stripe_manifest &manifest, uint64_t now_ns);
  bool contains(const striped_key &key) const;
  // Forgets the objects that the filter refuses.
  void retain(const std::function<bool(const striped_key &key)> &filter);

  // The server has the fragment. False: it shall remove it, because another server that stays has
  // it, too.
  struct report {
    striped_key key;
    uint32_t index = 0;
    replica server;
  };
  bool add_report(const report &received, uint64_t now_ns);

  // A fragment that no server has, or only servers that are draining.
  struct gap {
    uint32_t index = 0;
    bool is_missing = false;
  };
  std::vector<gap> find_gaps(const striped_key &key,
                             const wire::pool::erasure_layout &layout,
                             uint64_t now_ns) const;

  // The names of the servers that have the fragments of a group, by the fragments' indices.
  std::multimap<uint32_t, std::string> holders_of(const striped_key &key,
                                                  const wire::pool::erasure_layout &layout,
                                                  uint64_t group,
                                                  uint64_t now_ns) const;
  wire::pool::fragment_places_reply places_of(const striped_key &key, uint64_t now_ns) const;

 private:
  struct holder {
    replica server;
    uint64_t noted_ns = 0;
    bool is_reported = false;  // else it is where the client has put it
  };
  struct object_places {
    bool is_added = false;                              // else only reported
    std::map<uint32_t, std::vector<holder>> fragments;  // by index
  };

  // The server's index in the reply, which it is added to. no_stripe_server: it does not fit.
  static uint8_t index_of(const std::string &address,
                          wire::pool::fragment_places_reply &reply,
                          std::map<std::string, uint8_t> &indices,
                          size_t &size);
  bool counts(const holder &candidate, uint64_t now_ns) const TND_REQUIRES(mutex_);
  bool stays(const holder &candidate) const TND_REQUIRES(mutex_);
  bool is_better(const report &received, const holder &rival) const TND_REQUIRES(mutex_);

  uint64_t const period_ns_;
  mutable mutex mutex_;
  std::map<striped_key, object_places> objects_ TND_GUARDED_BY(mutex_);
  std::map<std::string, server_presence> servers_ TND_GUARDED_BY(mutex_);  // by name
};

}  // namespace tanada::poold
