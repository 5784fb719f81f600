// core/wire/pool_fragments.hpp: requests about the fragments of striped objects with an erasure
// code.
#pragma once

#include "core/wire/pool.hpp"

namespace tanada::wire::pool {

// cluster_erasure: sets the erasure code of a namespace's striped objects that are created from now
// on.
using cluster_erasure_request = erasure_setting;

// fragment_places, to the namespace's primary: where the fragments of an object are, as far as it
// knows. no_entry: it has no such object.
struct fragment_places_request {
  striped_id id;
  static bool fields(auto &f, auto &m) {
    return f(m.id);
  }
};

struct fragment_places_reply {
  std::vector<server_address> servers;
  std::vector<uint8_t> places;  // indices of `servers`, by fragment; no_stripe_server: not known
  static bool fields(auto &f, auto &m) {
    return f(m.servers) && f(m.places);
  }
};

struct fragment_entry {
  striped_id id;
  uint32_t index = 0;
  auto operator<=>(const fragment_entry &) const = default;
  static bool fields(auto &f, auto &m) {
    return f(m.id) && f(m.index);
  }
};

// fragment_report, from a server to the primary of their namespace: it has these fragments. The
// reply is a stripe_check_reply: a fragment that is not known is to be removed, because its object
// will never exist again, or because another server has the fragment.
struct fragment_report_request {
  std::string namespace_name, server;
  uint64_t run = 0;  // of the server
  std::vector<fragment_entry> entries;
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name) && f(m.server) && f(m.run) && f(m.entries);
  }
};

struct fragment_source {
  uint32_t index = 0;
  std::string address;
  static bool fields(auto &f, auto &m) {
    return f(m.index) && f(m.address);
  }
};

// fragment_build, from the primary to a server: it shall make a fragment from others. The reply
// comes once it has noted that, with `busy` if it has enough to do.
struct fragment_build_request {
  std::string namespace_name;
  fragment_entry target;
  erasure_scheme scheme;
  uint64_t size = 0, fragment_size = 0;  // see erasure_layout
  uint64_t sum = 0;                      // XXH3 of the fragment
  std::vector<fragment_source> sources;  // data_count of them; empty fragments need none
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name) && f(m.target) && f(m.scheme) && f(m.size) && f(m.fragment_size) &&
           f(m.sum) && f(m.sources);
  }
};

// fragment_read, from a server to another: a part of a fragment, which is the reply's data.
struct fragment_read_request {
  std::string namespace_name;
  fragment_entry source;
  uint64_t offset = 0, size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name) && f(m.source) && f(m.offset) && f(m.size);
  }
};
inline constexpr uint64_t fragment_read_size_max = 4 << 20;

}  // namespace tanada::wire::pool
