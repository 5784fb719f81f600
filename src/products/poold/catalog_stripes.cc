// The catalog's striped objects: their creation, and what their manifests say.
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

// The object's bytes. protocol: they are no manifest.
result<wire::pool::stripe_manifest> catalog::manifest_of(const object &source) {
  uint64_t const size = source.metadata.size;
  if (size > wire::pool::stripe_manifest_size_max || size > source.allocated_size())
    return status::protocol;
  std::vector<iovec> parts;
  source.append_parts(0, size, parts);
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  for (const iovec &part : parts) {
    auto const *const begin = static_cast<const std::byte *>(part.iov_base);
    bytes.insert(bytes.end(), begin, begin + part.iov_len);
  }
  wire::pool::stripe_manifest manifest;
  TND_TRY(wire::decode(bytes, manifest));
  if (!is_valid(manifest))
    return status::protocol;
  return manifest;
}

namespace {

constexpr uint64_t first_manifest_size = 4096;

// The object's own bytes are charged already.
void set_manifest(object &target, const wire::pool::stripe_manifest &manifest) {
  target.striped->size = manifest.size;
  target.striped->layout = manifest.layout();
  target.striped->checksum = manifest.checksum;
  target.striped->checksum_kind = manifest.checksum_kind;
  target.striped->charge(manifest.size - std::min(manifest.size, target.allocated_size()));
}

}  // namespace

result<object_ref> catalog::create_striped(uint64_t namespace_id,
                                           uint64_t size,
                                           uint32_t flags,
                                           const wire::pool::striped_id &id) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  TND_TRY(allocate_quota(state, size));
  std::vector<pool_extent> pieces;
  status code = allocate_or_evict(state, first_manifest_size, allocation::immediate, pieces);
  while (code == status::no_space && evict_heads(state, 1) > 0)
    code = allocate_or_evict(state, first_manifest_size, allocation::immediate, pieces);
  TND_TRY(code);
  auto created = make_object(state, std::move(pieces), (flags & flags_of_clients) | flag_striped);
  created->striped =
      std::make_unique<striped_head>(striped_, striped_key{state.name, id}, state.account);
  created->striped->charge(size - std::min(size, created->allocated_size()));
  return created;
}

status catalog::resize_striped(object &target, uint64_t size) {
  lock_guard lock{mutex_};
  TND_ASSERT(target.striped != nullptr);
  uint64_t const charge = size - std::min(size, target.allocated_size());
  uint64_t const before = target.striped->charged_size();
  if (charge > before)
    TND_TRY(allocate_quota(state_for(target.owner()), charge - before));
  target.striped->charge(charge);
  return status::ok;
}

status catalog::complete_striped(object &target) {
  TND_ASSERT(target.striped != nullptr);
  auto const manifest = manifest_of(target);
  if (!manifest.ok())
    return manifest.error();
  if (manifest.value().id != target.striped->id())
    return status::protocol;
  TND_TRY(resize_striped(target, manifest.value().size));
  set_manifest(target, manifest.value());
  return status::ok;
}

uint64_t catalog::evict_striped(uint64_t namespace_id, uint64_t size) {
  lock_guard lock{mutex_};
  return evict_heads(state_for(namespace_id), size);
}

// Returns the bytes of the evicted objects, at all servers.
uint64_t catalog::evict_heads(namespace_state &state, uint64_t size) {
  TND_ASSERT(mutex_.is_held());
  uint64_t evicted_size = 0;
  for (auto it = state.evictable.begin(); it != state.evictable.end() && evicted_size < size;) {
    entries::iterator const candidate = *it++;
    const object_ref &target = candidate->second.object;
    bool const is_usable =
        target->striped != nullptr && target.use_count() == 1 && target->is_discardable.load();
    if (!is_usable)
      continue;
    evicted_size += target->striped->size;
    evict(state, candidate);
  }
  return evicted_size;
}

void catalog::adopt_manifest(namespace_state &state, object &target) {
  TND_ASSERT(mutex_.is_held());
  bool const is_unknown = (target.flags & flag_striped) != 0 && target.striped == nullptr;
  if (!is_unknown || target.is_damaged)
    return;
  auto const manifest = manifest_of(target);
  if (!manifest.ok()) {
    target.is_damaged = true;
    return;
  }
  target.striped = std::make_unique<striped_head>(
      striped_, striped_key{state.name, manifest.value().id}, state.account);
  set_manifest(target, manifest.value());
}

std::vector<catalog::object_place> catalog::find_stripes(const striped_key &key) {
  lock_guard lock{mutex_};
  return find_stripes_locked(key);
}

std::vector<catalog::object_place> catalog::find_stripes_locked(const striped_key &key) const {
  TND_ASSERT(mutex_.is_held());
  std::string const prefix = wire::pool::stripe_prefix(key.second);
  std::vector<object_place> places;
  for (uint32_t i = 0; i <= wire::pool::stripe_partition_count; i++) {
    std::string const name = i == wire::pool::stripe_partition_count
                                 ? wire::pool::fragment_space_name(key.first)
                                 : wire::pool::stripe_space_name(key.first, i);
    auto const id = ids_.find(name);
    if (id == ids_.end())
      continue;
    auto const &objects = state_for(id->second).objects;
    for (auto it = objects.lower_bound(prefix);
         it != objects.end() && it->first.starts_with(prefix);
         ++it)
      places.push_back({name, it->first});
  }
  return places;
}

void catalog::remove_stripes(const striped_key &key) {
  lock_guard lock{mutex_};
  remove_stripes_locked(key);
}

// As evict(): without waiting for the journal, which has the removal of the object before.
void catalog::remove_stripes_locked(const striped_key &key) {
  TND_ASSERT(mutex_.is_held() && options_.has_all_stripes);
  for (const object_place &place : find_stripes_locked(key)) {
    namespace_state &state = state_for(ids_.find(place.namespace_name)->second);
    object_ref const removed = unbind(state, state.objects.find(place.name));
    append_changes({make_change(change::kind::remove, *removed, state.name, place.name)}, {}, {});
  }
}

object_ref catalog::stripe_of(const namespace_state &state,
                              const wire::pool::stripe_manifest &manifest,
                              size_t index) const {
  return find_locked({wire::pool::stripe_space_name(state.name, manifest.partitions[index]),
                      wire::pool::stripe_name(manifest.id, index)});
}

// Of a striped object whose stripes are all here, 0 for one that is missing; otherwise none.
std::vector<uint64_t> catalog::stripe_versions_of(const namespace_state &state,
                                                  const object &target) const {
  TND_ASSERT(mutex_.is_held());
  if (!options_.has_all_stripes || target.striped == nullptr)
    return {};
  auto const manifest = manifest_of(target);
  if (!manifest.ok())
    return {};
  std::vector<uint64_t> versions = manifest.value().versions();
  if (!versions.empty())
    return versions;
  for (size_t i = 0; i < manifest.value().partitions.size(); i++) {
    object_ref const stripe = stripe_of(state, manifest.value(), i);
    versions.push_back(stripe == nullptr ? 0 : stripe->metadata.version);
  }
  return versions;
}

bool catalog::has_stripes_of(const namespace_state &state,
                             const wire::pool::stripe_manifest &manifest) const {
  TND_ASSERT(mutex_.is_held());
  if (manifest.erasure.is_on())
    return false;
  std::vector<uint64_t> const &versions = manifest.versions();
  for (size_t i = 0; i < manifest.partitions.size(); i++) {
    object_ref const stripe = stripe_of(state, manifest, i);
    bool const is_there = stripe != nullptr && stripe->metadata.size == manifest.size_of(i) &&
                          (versions.empty() || stripe->metadata.version == versions[i]);
    if (!is_there)
      return false;
  }
  return true;
}

size_t catalog::set_aside_incomplete() {
  lock_guard lock{mutex_};
  size_t count = 0;
  for (auto const &[id, state] : namespaces_) {
    for (auto const &[name, named] : state->objects) {
      object &target = *named.object;
      if (target.striped == nullptr || target.is_damaged)
        continue;
      auto const manifest = manifest_of(target);
      if (manifest.ok() && has_stripes_of(*state, manifest.value()))
        continue;
      target.is_damaged = true;
      count++;
      log(log_level::error,
          "pool: {}/{}, version {}, {} bytes, lacks parts: it cannot be read any more",
          state->name,
          name,
          target.metadata.version,
          target.striped->size);
    }
  }
  return count;
}

}  // namespace tanada::poold
