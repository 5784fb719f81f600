// The placement of an object's stripes.
#include "products/pool/client/stripe_placement.hpp"

#include <algorithm>
#include <map>

#include "core/base/assert.hpp"
#include "products/pool/checksum.hpp"

namespace tanada::pool {

using wire::pool::stripe_partition_count;
using wire::pool::stripe_places_reply;
using wire::pool::stripe_server;

namespace {

constexpr size_t partition_count_max = 3;  // of a server
constexpr uint64_t stripe_alignment = 4096;

uint64_t rank_of(const std::string &namespace_name, uint32_t partition) {
  std::string const text = namespace_name + "/" + std::to_string(partition);
  return checksum_of(checksum_kind::xxh3, text.data(), text.size());
}

uint64_t divided_up(uint64_t number, uint64_t divisor) {
  return number / divisor + (number % divisor != 0 ? 1 : 0);
}

// A partition, after its rank.
using ranked_partition = std::pair<uint64_t, uint8_t>;
// The best partition by the server of its other copy.
using choices_of_server = std::map<uint8_t, ranked_partition>;

std::map<uint8_t, choices_of_server> choose_partitions(const stripe_places_reply &places,
                                                       const std::string &namespace_name) {
  std::map<uint8_t, choices_of_server> choices;
  size_t const count = std::min(places.primaries.size(), places.backups.size());
  for (uint32_t i = 0; i < count && i < stripe_partition_count; i++) {
    if (places.primaries[i] >= places.servers.size())
      continue;
    ranked_partition const choice{rank_of(namespace_name, i), uint8_t(i)};
    auto const [it, is_new] = choices[places.primaries[i]].try_emplace(places.backups[i], choice);
    if (!is_new)
      it->second = std::min(it->second, choice);
  }
  return choices;
}

std::vector<uint8_t> best_partitions(const choices_of_server &choices) {
  std::vector<ranked_partition> ranked;
  for (auto const &[backup, choice] : choices)
    ranked.push_back(choice);
  std::sort(ranked.begin(), ranked.end());
  std::vector<uint8_t> partitions;
  for (size_t i = 0; i < ranked.size() && i < partition_count_max; i++)
    partitions.push_back(ranked[i].second);
  return partitions;
}

}  // namespace

stripe_placement::stripe_placement(const stripe_places_reply &places,
                                   const std::string &namespace_name,
                                   uint64_t start)
    : stripe_size_max_{places.stripe_size} {
  for (auto const &[index, choices] : choose_partitions(places, namespace_name)) {
    const stripe_server &description = places.servers[index];
    server added;
    added.address = description.address;
    added.weight = std::max<uint64_t>(description.weight, 1);
    added.partitions = best_partitions(choices);
    servers_.push_back(std::move(added));
  }
  if (!servers_.empty())
    std::rotate(servers_.begin(), servers_.begin() + long(start % servers_.size()), servers_.end());
}

uint64_t stripe_placement::stripe_size(uint64_t object_size) const {
  TND_ASSERT(!servers_.empty() && stripe_size_max_ > 0);
  uint64_t const rounds = divided_up(object_size, stripe_size_max_ * servers_.size());
  if (rounds == 0)
    return stripe_size_max_;
  uint64_t const even_size = divided_up(object_size, rounds * servers_.size());
  uint64_t const aligned_size = divided_up(even_size, stripe_alignment) * stripe_alignment;
  return std::min(aligned_size, stripe_size_max_);
}

uint8_t stripe_placement::next() {
  TND_ASSERT(!servers_.empty());
  // The server whose share would be the smallest with one more.
  auto const has_less = [](const server &lhs, const server &rhs) {
    return double(lhs.stripe_count + 1) / double(lhs.weight) <
           double(rhs.stripe_count + 1) / double(rhs.weight);
  };
  server &chosen = *std::min_element(servers_.begin(), servers_.end(), has_less);
  return chosen.partitions[chosen.stripe_count++ % chosen.partitions.size()];
}

std::string stripe_placement::address_of(uint8_t partition) const {
  for (const server &candidate : servers_)
    if (std::find(candidate.partitions.begin(), candidate.partitions.end(), partition) !=
        candidate.partitions.end())
      return candidate.address;
  return {};
}

}  // namespace tanada::pool
