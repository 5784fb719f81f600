// core/wire/pool_local_stripes.hpp: striped objects of a pool that has one server.
#pragma once

#include "core/wire/pool.hpp"

namespace tanada::wire::pool {

// Reply of a pool of one server: how it stripes objects, in order to have only parts of them in
// memory. One partition has all stripes of a namespace.
struct stripe_limits_reply {
  uint64_t object_size = 0;  // larger objects are striped; 0: none
  uint64_t stripe_size = 0;  // at most
  static bool fields(auto &f, auto &m) {
    return f(m.object_size) && f(m.stripe_size);
  }
};

}  // namespace tanada::wire::pool
