// The choice of servers for fragments.
#include "products/pool/fragment_placement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/assert.hpp"
#include "products/pool/checksum.hpp"

namespace tanada::pool {

using wire::pool::stripe_server;
using wire::pool::striped_id;

uint64_t fragment_rank(const std::string &address, const striped_id &id, uint64_t group) {
  std::string const text = address + "/" + wire::pool::stripe_name(id, group);
  return checksum_of(checksum_kind::xxh3, text.data(), text.size());
}

namespace {

// A server gets the first place in proportion to its weight.
double score_of(const stripe_server &server, const striped_id &id, uint64_t group) {
  uint64_t const rank = fragment_rank(server.address, id, group);
  double const uniform = (double(rank >> 11) + 0.5) / double(uint64_t{1} << 53);
  return double(std::max<uint64_t>(server.weight, 1)) / -std::log1p(-uniform);
}

const std::string &domain_of(const stripe_server &server) {
  return server.domain.empty() ? server.address : server.domain;
}

}  // namespace

fragment_placement::fragment_placement(const std::vector<stripe_server> &servers,
                                       const striped_id &id,
                                       uint64_t group)
    : servers_{servers}, ranked_(servers.size()), is_excluded_(servers.size()) {
  std::vector<double> scores;
  for (const stripe_server &server : servers) {
    is_excluded_[scores.size()] = server.is_draining;
    scores.push_back(score_of(server, id, group));
  }
  std::iota(ranked_.begin(), ranked_.end(), size_t{0});
  std::stable_sort(ranked_.begin(), ranked_.end(), [&](size_t lhs, size_t rhs) {
    return scores[lhs] > scores[rhs];
  });
}

void fragment_placement::take(size_t server) {
  TND_ASSERT(server < servers_.size());
  is_excluded_[server] = 1;
  members_.push_back(server);
}

void fragment_placement::exclude(size_t server) {
  TND_ASSERT(server < servers_.size());
  is_excluded_[server] = 1;
}

size_t fragment_placement::count_in_domain(size_t server) const {
  return size_t(std::count_if(members_.begin(), members_.end(), [&](size_t member) {
    return domain_of(servers_[member]) == domain_of(servers_[server]);
  }));
}

std::optional<size_t> fragment_placement::next() {
  std::optional<size_t> best;
  for (size_t const candidate : ranked_)
    if (is_excluded_[candidate] == 0 &&
        (!best || count_in_domain(candidate) < count_in_domain(*best)))
      best = candidate;
  if (best)
    take(*best);
  return best;
}

}  // namespace tanada::pool
