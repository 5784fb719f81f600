// The search for missing fragments, and their repair.
#include "products/poold/cluster/fragment_repairer.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/pool/fragment_placement.hpp"

namespace tanada::poold {

using namespace wire::pool;

namespace {

constexpr size_t gap_count_max = 65536;    // found at a time
constexpr uint64_t wait_period_count = 2;  // until all servers have reported what they have
constexpr size_t builds_of_server_max = 2;

}  // namespace

fragment_repairer::fragment_repairer(options settings,
                                     peer_channels &channels,
                                     replication &changes,
                                     catalog &objects)
    : options_{std::move(settings)}, channels_{channels}, changes_{changes}, objects_{objects} {
  TND_ASSERT(options_.page_size > 0);
}

namespace {

// Partitions, by number: the term in which this server serves them, or 0, and since when.
using served_partitions = std::array<std::pair<uint64_t, uint64_t>, partition_count>;

// Whether this server serves other partitions than before.
bool update_served(const replication &changes, served_partitions &served, uint64_t now_ns) {
  bool is_changed = false;
  for (uint32_t i = 0; i < partition_count; i++) {
    bool const is_served = changes.may_reply(i) && changes.check_serving(i) == status::ok;
    uint64_t const term = is_served ? changes.term(i) : 0;
    if (served[i].first == term)
      continue;
    served[i] = {term, now_ns};
    is_changed = true;
  }
  return is_changed;
}

}  // namespace

// At once when servers come or go, or a partition gets another primary: until its search, nobody
// counts what the partition's objects lack.
bool fragment_repairer::is_search_due() {
  uint64_t const now_ns = options_.clock->now_ns();
  auto servers = changes_.servers();
  bool is_due = now_ns >= search_ns_ || servers != servers_;
  is_due = update_served(changes_, served_, now_ns) || is_due;
  servers_ = std::move(servers);
  return is_due;
}

bool fragment_repairer::progress() {
  if (is_search_due()) {
    search_ns_ = options_.clock->now_ns() + options_.period_ns;
    search();
  }
  while (!gaps_.empty() && builds_.size() < options_.build_count_max && build(gaps_.front()))
    gaps_.pop_front();
  return !builds_.empty();
}

void fragment_repairer::search() {
  gaps_.clear();
  missing_count_.store(0, std::memory_order_relaxed);
  catalog::object_place position;
  auto const is_served_space = [this](const std::string &name) {
    return !is_hidden_namespace(name) && changes_.check_serving(partition_of(name)) == status::ok;
  };
  for (bool more = true; more;) {
    std::vector<std::pair<striped_key, object_ref>> heads;
    more = objects_.visit_objects(
        is_served_space,
        position,
        options_.page_size,
        [&](const catalog::object_place &place, const object_ref &object) {
          position = place;
          if (object->striped != nullptr && object->striped->layout.scheme.is_on())
            heads.emplace_back(striped_key{place.namespace_name, object->striped->id()}, object);
          return true;
        });
    for (auto const &[key, head] : heads)
      search_object(key, head);
  }
  changes_.fragments().retain([this](const striped_key &key) {
    return objects_.striped()->contains(key) &&
           changes_.check_serving(partition_of(key.first)) == status::ok;
  });
}

void fragment_repairer::search_object(const striped_key &key, const object_ref &head) {
  fragment_directory &directory = changes_.fragments();
  uint64_t const now_ns = options_.clock->now_ns();
  if (!directory.contains(key)) {
    auto const manifest = catalog::manifest_of(*head);
    if (!manifest.ok())
      return;
    directory.add(key, manifest.value(), now_ns);
  }
  bool const may_build = knows_reports(key.first);
  for (const auto &[index, is_missing] : directory.find_gaps(key, head->striped->layout, now_ns)) {
    if (is_missing)
      missing_count_.fetch_add(1, std::memory_order_relaxed);
    if (may_build && gaps_.size() < gap_count_max && !builds_.contains({key, index}))
      gaps_.push_back({key, head, index});
  }
}

// Fragments may be elsewhere than where the client has put them.
bool fragment_repairer::knows_reports(const std::string &namespace_name) {
  uint32_t const partition = partition_of(namespace_name);
  TND_ASSERT(partition < partition_count);
  uint64_t const now_ns = options_.clock->now_ns(), term = changes_.term(partition);
  auto const &[known_term, begin_ns] = served_[partition];
  return known_term == term && now_ns >= begin_ns + wait_period_count * options_.period_ns;
}

bool fragment_repairer::build(const gap &wanted) {
  object_ref const head = wanted.head.lock();
  if (head == nullptr || changes_.check_serving(partition_of(wanted.key.first)) != status::ok)
    return true;
  auto const manifest = catalog::manifest_of(*head);
  if (!manifest.ok())
    return true;
  server_presence target;
  auto const request = make_request(wanted, manifest.value(), target);
  if (!request)
    return builds_.empty();
  pool::channel *const channel = channels_.channel_to(target.address);
  if (channel == nullptr)
    return true;  // the next search finds it again
  build_key const key{wanted.key, wanted.index};
  builds_[key] = {target.self.server, manifest.value().layout().group_of(wanted.index)};
  channel->post(kind::fragment_build,
                *request,
                {},
                {},
                [this, key, server = target.self](const pool::reply &received) {
                  finish_build(key, server, received.code);
                });
  (void)channel->progress(0);
  return true;
}

// Empty: it cannot be built now.
std::optional<fragment_build_request> fragment_repairer::make_request(
    const gap &wanted, const stripe_manifest &manifest, server_presence &target) {
  erasure_layout const layout = manifest.layout();
  uint64_t const group = layout.group_of(wanted.index);
  holders const present =
      changes_.fragments().holders_of(wanted.key, layout, group, options_.clock->now_ns());
  auto const chosen = choose_target(wanted, group, present);
  if (!chosen)
    return std::nullopt;
  target = *chosen;
  size_t needed_count = layout.scheme.data_count;
  for (uint32_t i = 0; i < layout.scheme.data_count; i++)
    needed_count -= layout.size_of(group * layout.scheme.width() + i) == 0;
  fragment_build_request request{.namespace_name = wanted.key.first,
                                 .target = {wanted.key.second, wanted.index},
                                 .scheme = layout.scheme,
                                 .size = layout.size,
                                 .fragment_size = layout.fragment_size,
                                 .sum = manifest.sums[wanted.index],
                                 .sources = choose_sources(wanted, present, needed_count)};
  return request.sources.size() == needed_count ? std::optional{std::move(request)} : std::nullopt;
}

// Different fragments, each at a server that runs.
std::vector<fragment_source> fragment_repairer::choose_sources(const gap &wanted,
                                                               const holders &present,
                                                               size_t count) const {
  std::vector<fragment_source> sources;
  for (auto const &[index, name] : present) {
    bool const is_new = sources.empty() || sources.back().index != index;
    auto const server = std::find_if(servers_.begin(), servers_.end(), [&](auto const &entry) {
      return entry.self.server == name;
    });
    if (is_new && index != wanted.index && sources.size() < count && server != servers_.end())
      sources.push_back({index, server->address});
  }
  return sources;
}

// Also one that is being built.
bool fragment_repairer::has_fragment(const gap &wanted,
                                     uint64_t group,
                                     const holders &present,
                                     const std::string &name) const {
  auto const is_at = [&](auto const &entry) {
    return entry.second == name;
  };
  auto const is_built_at = [&](auto const &entry) {
    return entry.first.first == wanted.key && entry.second.group == group &&
           entry.second.server == name;
  };
  return std::any_of(present.begin(), present.end(), is_at) ||
         std::any_of(builds_.begin(), builds_.end(), is_built_at);
}

// A server that has no fragment of the group, and gets none. Empty: all have one, or are busy.
std::optional<server_presence> fragment_repairer::choose_target(const gap &wanted,
                                                                uint64_t group,
                                                                const holders &present) const {
  std::vector<stripe_server> servers;
  std::map<std::string, size_t> build_counts;
  for (auto const &[key, entry] : builds_)
    build_counts[entry.server]++;
  for (const server_presence &server : servers_)
    servers.push_back({.address = server.address,
                       .weight = server.weight,
                       .run = server.self.run,
                       .domain = server.domain,
                       .is_draining = server.is_draining});
  pool::fragment_placement placement{servers, wanted.key.second, group};
  for (size_t i = 0; i < servers_.size(); i++) {
    const std::string &name = servers_[i].self.server;
    if (has_fragment(wanted, group, present, name))
      placement.take(i);
    else if (build_counts[name] >= builds_of_server_max)
      placement.exclude(i);
  }
  auto const chosen = placement.next();
  return chosen ? std::optional{servers_[*chosen]} : std::nullopt;
}

void fragment_repairer::finish_build(const build_key &built, const replica &target, status code) {
  builds_.erase(built);
  if (code != status::ok)
    return;
  (void)changes_.fragments().add_report({built.first, built.second, target},
                                        options_.clock->now_ns());
}

}  // namespace tanada::poold
