// The simulated cluster's objects with an erasure code: their clients' fragments, the damage that
// is done to these, and what must hold for them.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "products/pool/erasure_codec.hpp"
#include "sim/cluster_harness.hpp"

namespace tanada::test {

using namespace wire::pool;

namespace {

constexpr uint32_t link_number_base = 1'000;  // among the actor's links, above all partitions

uint64_t sum_of(std::span<const std::byte> bytes) {
  return pool::checksum_of(pool::checksum_kind::xxh3, bytes);
}

std::vector<std::byte> bytes_of(const poold::object &source) {
  std::vector<iovec> parts;
  source.append_parts(0, source.metadata.size, parts);
  std::vector<std::byte> bytes;
  for (const iovec &part : parts) {
    auto const *const begin = static_cast<const std::byte *>(part.iov_base);
    bytes.insert(bytes.end(), begin, begin + part.iov_len);
  }
  return bytes;
}

}  // namespace

// ---- clients

// Null: the server cannot be reached now.
cluster_run::link *cluster_run::fragment_link(size_t index, size_t to) {
  link &entry = actors_[index].links[link_number_base + uint32_t(to)];
  if (entry.channel != nullptr && !entry.channel->is_broken())
    return &entry;
  if (world_.now_ns() < entry.retry_ns)
    return nullptr;
  entry.channel.reset();
  entry.retry_ns = world_.now_ns() + world_.random.below(50 * ms);
  auto connection = dial(server_count_ + index, to);
  if (!connection.ok())
    return nullptr;
  auto opened =
      pool::channel::open(std::move(connection).value(),
                          fragment_space_name(space_of(index)),
                          nullptr,
                          seams::deadline_after(seams::monotonic_clock().now_ns(), 60'000'000'000));
  if (!opened.ok())
    return nullptr;
  entry.channel = std::move(opened).value();
  entry.epoch++;
  return &entry;
}

// Puts the fragments on random servers, different ones for each group.
void cluster_run::cut_fragments(striped_operation &operation) {
  stripe_manifest &manifest = operation.manifest;
  manifest.erasure = scheme_;
  for (size_t i = 0; i < server_count_; i++) {
    const server &candidate = *servers_[i];
    manifest.servers.push_back(
        {std::to_string(i), candidate.is_up ? candidate.node->changes().self().run : 0});
  }
  erasure_layout const layout = manifest.layout();
  pool::erasure_codec const codec{scheme_};
  std::vector<uint8_t> order(server_count_);
  std::iota(order.begin(), order.end(), uint8_t{0});
  for (uint64_t group = 0; group < layout.group_count(); group++) {
    for (size_t i = 0; i < scheme_.width(); i++)
      std::swap(order[i], order[i + world_.random.below(server_count_ - i)]);
    std::vector<pool::erasure_codec::fragment> data;
    for (uint32_t i = 0; i < scheme_.width(); i++) {
      uint64_t const number = group * scheme_.width() + i;
      uint64_t const offset = std::min(layout.offset_of(number), layout.size);
      auto const begin = operation.bytes.begin() + long(offset);
      std::vector<std::byte> bytes(layout.size_of(number));
      if (!layout.is_parity(number)) {
        std::copy_n(begin, bytes.size(), bytes.begin());
      } else {
        data.clear();
        for (uint32_t k = 0; k < scheme_.data_count; k++)
          data.push_back(operation.fragments[group * scheme_.width() + k]);
        codec.encode(data, i - scheme_.data_count, bytes);
      }
      manifest.places.push_back(order[i]);
      manifest.sums.push_back(sum_of(bytes));
      operation.fragments.push_back(std::move(bytes));
    }
  }
  open_fragments(operation);
}

void cluster_run::open_fragments(striped_operation &operation) {
  const stripe_manifest &manifest = operation.manifest;
  erasure_layout const layout = manifest.layout();
  operation.places.clear();
  for (uint8_t const place : manifest.places)
    operation.places.push_back(std::stoul(manifest.servers[place].address));
  operation.is_moved.assign(manifest.places.size(), 0);
  operation.epochs.assign(manifest.places.size(), 0);
  operation.fragments.resize(manifest.places.size());
  for (size_t i = 0; i < operation.fragments.size(); i++)
    operation.fragments[i].resize(layout.size_of(i));
}

// Moves the next fragments, and ends the operation after the last one. A get begins with the data
// fragments, and goes on with all others if one of them cannot be read.
void cluster_run::advance_fragments(size_t index, const striped_ptr &operation) {
  erasure_layout const layout = operation->manifest.layout();
  size_t const count = operation->places.size();
  bool const is_moving = operation->may_move && !operation->has_failed && !operation->has_ended;
  auto const is_wanted = [&](size_t number) {
    bool const is_of_use = operation->is_put || operation->is_located || !layout.is_parity(number);
    return layout.size_of(number) > 0 && operation->is_moved[number] == 0 && is_of_use;
  };
  while (is_moving && operation->next < count && !is_wanted(operation->next))
    operation->next++;
  if (is_moving && operation->next < count && operation->outstanding < cluster_outstanding_max) {
    size_t const number = operation->next++;
    link *const target = fragment_link(index, operation->places[number]);
    // Connecting takes time.
    if (target != nullptr && actors_[index].striped == operation)
      move_fragment(index, operation, number, *target);
    return;
  }
  bool const is_complete = is_moving && operation->next >= count && operation->outstanding == 0;
  if (is_complete && !operation->is_committed)
    finish_fragments(index, operation);
  bool const is_over = operation->has_failed || operation->has_ended;
  if (is_over && operation->outstanding == 0)
    end_striped(index);
}

void cluster_run::move_fragment(size_t index,
                                const striped_ptr &operation,
                                size_t number,
                                link &target) {
  std::vector<std::byte> &bytes = operation->fragments[number];
  iovec const part{bytes.data(), bytes.size()};
  operation->outstanding++;
  operation->epochs[number] = target.epoch;
  std::string const name = stripe_name(operation->manifest.id, number);
  if (operation->is_put) {
    put_request request;
    request.name = name;
    request.terms = {0, TND_POOL_CHECKSUM_XXH3, 1, operation->manifest.sums[number]};
    target.channel->post(
        kind::put, request, {part}, {}, [operation, number](const pool::reply &received) {
          operation->outstanding--;
          operation->is_moved[number] = received.code == status::ok;
        });
    return;
  }
  get_request request;
  request.name = name;
  request.capacity = bytes.size();
  target.channel->post(
      kind::get, request, {}, {part}, [this, operation, number](const pool::reply &received) {
        operation->outstanding--;
        const auto &read = operation->fragments[number];
        operation->is_moved[number] = received.code == status::ok &&
                                      received.data_size == read.size() &&
                                      sum_of(read) == operation->manifest.sums[number];
      });
  (void)index;
}

// All fragments that can be moved have been.
void cluster_run::finish_fragments(size_t index, const striped_ptr &operation) {
  if (operation->is_put) {
    // Not if a server may have been lost since it has got its fragments.
    if (has_lost_fragments(index, *operation))
      operation->has_failed = true;
    else
      commit_head(index, operation);
    return;
  }
  if (decode_fragments(*operation)) {
    operation->has_ended = true;
    history_.end_get(
        operation->id, world_.now_ns(), observation::value(value_of(operation->bytes)));
  } else if (!operation->is_located) {
    locate_fragments(index, operation);
  } else {
    operation->has_failed = true;
  }
}

bool cluster_run::has_lost_fragments(size_t index, const striped_operation &operation) const {
  erasure_layout const layout = operation.manifest.layout();
  auto const &links = actors_[index].links;
  for (size_t i = 0; i < operation.places.size(); i++) {
    auto const target = links.find(link_number_base + uint32_t(operation.places[i]));
    bool const is_there =
        layout.size_of(i) == 0 ||
        (operation.is_moved[i] != 0 && target != links.end() && target->second.channel != nullptr &&
         !target->second.channel->is_broken() && target->second.epoch == operation.epochs[i]);
    if (!is_there)
      return true;
  }
  return false;
}

// False: there are too few fragments.
bool cluster_run::decode_fragments(striped_operation &operation) const {
  erasure_layout const layout = operation.manifest.layout();
  pool::erasure_codec const codec{layout.scheme};
  for (uint64_t group = 0; group < layout.group_count(); group++) {
    uint64_t const first = group * layout.scheme.width();
    std::vector<pool::erasure_codec::source> sources;
    for (uint32_t i = 0; i < layout.scheme.width(); i++) {
      bool const is_there = layout.size_of(first + i) == 0 ? i < layout.scheme.data_count
                                                           : operation.is_moved[first + i] != 0;
      if (is_there && sources.size() < layout.scheme.data_count)
        sources.push_back({i, operation.fragments[first + i]});
    }
    for (uint32_t i = 0; i < layout.scheme.data_count; i++) {
      auto &bytes = operation.fragments[first + i];
      bool const is_known = bytes.empty() || operation.is_moved[first + i] != 0;
      if (!is_known && !codec.rebuild(sources, i, bytes))
        return false;
      std::copy(bytes.begin(),
                bytes.end(),
                operation.bytes.begin() +
                    long(std::min<uint64_t>(layout.offset_of(first + i), layout.size)));
    }
  }
  return true;
}

void cluster_run::locate_fragments(size_t index, const striped_ptr &operation) {
  operation->outstanding++;
  actors_[index].outstanding++;
  actors_[index].channel->post(
      kind::fragment_places,
      fragment_places_request{operation->manifest.id},
      {},
      {},
      [this, index, operation](const pool::reply &received) {
        operation->outstanding--;
        actors_[index].outstanding--;
        fragment_places_reply answer;
        bool const is_good =
            received.code == status::ok && wire::decode(received.body, answer) == status::ok;
        operation->has_failed |= !is_good;
        operation->is_located = true;
        operation->next = 0;
        for (size_t i = 0; i < answer.places.size() && i < operation->places.size(); i++)
          if (answer.places[i] < answer.servers.size())
            operation->places[i] = std::stoul(answer.servers[answer.places[i]].text);
      });
}

// ---- losses

// Objects that exist, or may exist, by any server. `is_served`: only those that certainly exist.
cluster_run::manifests cluster_run::fragmented_objects(bool is_served) const {
  manifests objects;
  for (auto const &candidate : servers_) {
    if (!candidate->is_up)
      continue;
    (void)candidate->objects->visit_objects(
        [&](const std::string &name) {
          return !is_hidden_namespace(name) &&
                 (!is_served || candidate->node->changes().check_serving(
                                    poold::partition_of(name)) == status::ok);
        },
        {},
        SIZE_MAX,
        [&](const poold::catalog::object_place &place, const poold::object_ref &object) {
          if (object->striped != nullptr && object->striped->layout.scheme.is_on())
            objects[{place.namespace_name, object->striped->id()}] =
                poold::catalog::manifest_of(*object).value();
          return true;
        });
  }
  for (size_t i = 0; i < actors_.size() && !is_served; i++) {
    const striped_ptr &operation = actors_[i].striped;
    bool const may_exist =
        operation != nullptr && operation->manifest.erasure.is_on() && operation->is_committed;
    if (may_exist)
      objects[{space_of(i), operation->manifest.id}] = operation->manifest;
  }
  return objects;
}

// Fragments that have the bytes that were put, and the number of servers that have them.
std::map<std::pair<poold::striped_key, uint64_t>, size_t> cluster_run::intact_fragments() const {
  std::map<std::pair<poold::striped_key, uint64_t>, size_t> fragments;
  auto const objects = fragmented_objects(false);
  for (auto const &candidate : servers_) {
    if (!candidate->is_up || candidate->stop_ns != 0)
      continue;
    (void)candidate->objects->visit_objects(
        is_fragment_space,
        {},
        SIZE_MAX,
        [&](const poold::catalog::object_place &place, const poold::object_ref &object) {
          poold::striped_key const key{hidden_space_owner(place.namespace_name).value(),
                                       stripe_name_parse(place.name).value()};
          uint64_t const number = stripe_index_parse(place.name).value();
          auto const known = objects.find(key);
          // The log has a checksum of what is only there.
          bool const is_intact =
              known != objects.end() &&
              (object->is_cold() || sum_of(bytes_of(*object)) == known->second.sums[number]);
          if (is_intact)
            fragments[{key, number}]++;
          return true;
        });
  }
  return fragments;
}

// The most fragments of a group that no server has.
size_t cluster_run::lost_fragment_count(bool is_served) const {
  auto const fragments = intact_fragments();
  size_t most = 0;
  for (auto const &[key, manifest] : fragmented_objects(is_served)) {
    erasure_layout const layout = manifest.layout();
    std::map<uint64_t, size_t> lost;  // by group
    for (uint64_t i = 0; i < layout.fragment_count(); i++)
      lost[layout.group_of(i)] += layout.size_of(i) > 0 && !fragments.contains({key, i});
    for (auto const &[group, count] : lost)
      most = std::max(most, count);
  }
  return most;
}

// Each server has at most one fragment of a group.
bool cluster_run::may_lose_fragments() const {
  return lost_fragment_count(false) < scheme_.parity_count;
}

// Changes a byte of a random fragment.
void cluster_run::damage_fragment() {
  server &victim = *servers_[world_.random.below(server_count_)];
  if (!victim.is_up || !may_lose_fragments())
    return;
  std::vector<poold::object_ref> targets;
  (void)victim.objects->visit_objects(
      is_fragment_space, {}, SIZE_MAX, [&](const auto &, const poold::object_ref &object) {
        if (!object->is_cold())
          targets.push_back(object);
        return true;
      });
  if (targets.empty())
    return;
  const poold::object &target = *targets[world_.random.below(targets.size())];
  std::vector<iovec> parts;
  target.append_parts(world_.random.below(target.metadata.size), 1, parts);
  *static_cast<std::byte *>(parts[0].iov_base) ^= std::byte{1};
}

// Empty: each fragment of each object is at one server.
std::string cluster_run::find_lost_fragments() const {
  auto const fragments = intact_fragments();
  for (auto const &[key, manifest] : fragmented_objects(false)) {
    erasure_layout const layout = manifest.layout();
    for (uint64_t i = 0; i < layout.fragment_count(); i++) {
      auto const known = fragments.find({key, i});
      size_t const count = known == fragments.end() ? 0 : known->second;
      if (layout.size_of(i) > 0 && count != 1)
        return "fragment " + std::to_string(i) + " of " + stripe_prefix(key.second) + " is at " +
               std::to_string(count) + " servers";
    }
  }
  return {};
}

}  // namespace tanada::test
