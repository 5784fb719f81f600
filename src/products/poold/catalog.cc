// The catalog's objects: creation, commit, lookup, eviction and restore.
#include "products/poold/catalog.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {

namespace {

uint64_t version_or_zero(const object_ref &object) {
  return object != nullptr ? object->metadata.version : 0;
}

}  // namespace

catalog::catalog(pool_memory &memory, journal *durable, catalog_options options)
    : memory_{memory}, journal_{durable}, options_{std::move(options)} {}

void catalog::bump_counter(namespace_state &state, const std::string &name) {
  if (state.counters != nullptr)
    state.counters->values[pool::name_counters::index(name)].fetch_add(1,
                                                                       std::memory_order_release);
}

// Move an object to the end of the eviction order, or take it out if it may not be evicted.
void catalog::update_eviction(namespace_state &state, entries::iterator it) {
  entry &target = it->second;
  TND_ASSERT(mutex_.is_held());
  remove_eviction(state, target);
  uint32_t const flags = target.object->flags.load();
  if ((flags & flag_evictable) != 0 && (flags & flag_pinned) == 0) {
    auto const position = state.evictable.insert(state.evictable.end(), it);
    target.added_places().evictable = eviction{position, ++tick_};
    evictable_size_ += size_to_evict(*target.object);
  }
}

// In a cluster, the bytes of a striped object are at other servers: here its eviction frees hardly
// anything.
uint64_t catalog::size_to_evict(const object &target) const {
  if (!is_striped(target))
    return target.stored_size();
  return options_.has_all_stripes && target.striped != nullptr ? target.striped->size : 0;
}

void catalog::remove_eviction(namespace_state &state, entry &target) {
  if (!target.is_evictable())
    return;
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(!state.evictable.empty() && evictable_size_ >= size_to_evict(*target.object));
  state.evictable.erase(target.places->evictable->position);
  target.places->evictable.reset();
  target.drop_unused_places();
  evictable_size_ -= size_to_evict(*target.object);
}

void catalog::mark_used(namespace_state &state, entries::iterator it) {
  TND_ASSERT(mutex_.is_held());
  const entry &used = it->second;
  if (used.is_resident())
    residents_.splice(residents_.end(), residents_, *used.places->resident);
  if (!used.is_evictable())
    return;
  eviction &target = *used.places->evictable;
  state.evictable.splice(state.evictable.end(), state.evictable, target.position);
  target.last_use_tick = ++tick_;
}

// Returns the object that had the name before.
object_ref catalog::bind(namespace_state &state,
                         const std::string &name,
                         const object_ref &object) {
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(object != nullptr && object->owner() == state.account->id);
  auto const [it, is_new] = state.objects.try_emplace(name);
  remove_eviction(state, it->second);
  remove_residence(it->second);
  object_ref previous = std::move(it->second.object);
  if (previous != nullptr)
    count_cold(*previous, false);
  it->second.object = object;
  count_cold(*object, true);
  update_eviction(state, it);
  update_residence(state, it);
  bump_counter(state, name);
  if (is_new)
    statistics_.object_count++;
  return previous;
}

object_ref catalog::unbind(namespace_state &state, entries::iterator it) {
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(it != state.objects.end() && statistics_.object_count > 0);
  remove_eviction(state, it->second);
  remove_residence(it->second);
  object_ref previous = std::move(it->second.object);
  count_cold(*previous, false);
  std::string const name = it->first;
  state.objects.erase(it);
  bump_counter(state, name);
  statistics_.object_count--;
  if (state.objects.empty())
    maybe_unused_.insert(state.account->id);
  return previous;
}

void catalog::append_changes(std::vector<change> changes,
                             std::vector<object_ref> superseded,
                             journal_callback done) {
  TND_ASSERT(mutex_.is_held());
  if (journal_ != nullptr)
    journal_->append(std::move(changes), std::move(superseded), std::move(done));
}

// Whether the object, which may be evicted, is not in use, and its eviction of use.
bool catalog::is_victim(const entry &candidate, eviction_scope scope) const {
  const object_ref &target = candidate.object;
  bool const is_unused = target.use_count() == 1 && target->is_discardable.load();
  bool const frees_memory = !is_tiered() || candidate.is_resident();
  bool const is_of_use = scope.only_there || options_.has_all_stripes || !is_striped(*target);
  return is_unused && is_of_use && (!scope.only_resident || frees_memory);
}

// Evict the least recently used object that is not open. Striped ones of a cluster only for a
// quota. False: no object can be evicted.
bool catalog::evict_one(namespace_state &preferred, eviction_scope scope) {
  TND_ASSERT(mutex_.is_held());
  namespace_state *chosen = nullptr;
  std::list<entries::iterator>::iterator oldest;
  auto const last_use_tick = [](const entries::value_type &candidate) {
    return candidate.second.places->evictable->last_use_tick;
  };
  auto const look = [&](namespace_state &state) {
    for (auto it = state.evictable.begin(); it != state.evictable.end(); ++it) {
      if (!is_victim((*it)->second, scope))
        continue;
      bool const is_older = chosen == nullptr || last_use_tick(**it) < last_use_tick(**oldest);
      if (is_older) {
        chosen = &state;
        oldest = it;
      }
      return;
    }
  };
  look(preferred);
  if (chosen == nullptr && !scope.only_there)
    for (auto &[id, other_state] : namespaces_)
      look(*other_state);
  if (chosen == nullptr)
    return false;
  evict(*chosen, *oldest);
  return true;
}

// Free the memory without waiting for the journal. If the removal never becomes durable, a restart
// finds an evictable object, intact or torn.
void catalog::evict(namespace_state &state, entries::iterator it) {
  TND_ASSERT(mutex_.is_held());
  std::string const name = it->first;
  object_ref const evicted = unbind(state, it);
  append_changes({make_change(change::kind::remove, *evicted, state.name, name)}, {}, {});
  if (options_.has_all_stripes && evicted->striped != nullptr)
    remove_stripes_locked({state.name, evicted->striped->id()});
  statistics_.evictions++;
}

// Evict the namespace's own objects until its quota has space.
status catalog::allocate_quota(namespace_state &state, uint64_t size) {
  TND_ASSERT(mutex_.is_held());
  while (state.quota != 0 &&
         (size > state.quota || state.account->used.load() > state.quota - size)) {
    if (size <= state.quota && evict_one(state, {.only_there = true}))
      continue;
    return fail(status::no_space,
                "namespace {}: {} more bytes exceed its quota of {} bytes: remove objects, or "
                "raise the quota",
                state.user_name(),
                size,
                state.quota);
  }
  return status::ok;
}

status catalog::allocate_in_quota(namespace_state &state,
                                  uint64_t size,
                                  allocation mode,
                                  std::vector<pool_extent> &pieces) {
  TND_TRY(allocate_quota(state, size));
  return allocate_or_evict(state, size, mode, pieces);
}

status catalog::allocate_or_evict(namespace_state &state,
                                  uint64_t size,
                                  allocation mode,
                                  std::vector<pool_extent> &pieces) {
  TND_ASSERT(mutex_.is_held());
  if (statistics_.object_count >= options_.object_count_max) {
    return fail(status::no_space,
                "the pool has {} objects, the maximum: remove some",
                options_.object_count_max);
  }
  TND_TRY(allocate_stored(state, size));
  return allocate_memory(state, size, mode, pieces);
}

// Whether memory suffices once everything that may leave it has left it.
bool catalog::could_fit(uint64_t size) const {
  TND_ASSERT(mutex_.is_held());
  uint64_t const used = memory_.used();
  uint64_t const movable = is_tiered() ? residents_size_ : evictable_size_;
  return size <= memory_.capacity() && used - std::min(used, movable) <= memory_.capacity() - size;
}

status catalog::allocate_memory(namespace_state &state,
                                uint64_t size,
                                allocation mode,
                                std::vector<pool_extent> &pieces) {
  // Evict nothing for an object that would not fit even then.
  bool const may_move = could_fit(size);
  for (;;) {
    auto got = memory_.allocate(state.account->id, size);
    if (got.ok()) {
      pieces = std::move(got).value();
      return status::ok;
    }
    if (mode == allocation::only_free)
      return status::no_space;
    if (got.error() == status::again)
      return mode == allocation::may_wait ? status::again : fail_held();
    demotion_obstacles obstacles;
    if (may_move && demote_one(obstacles))
      continue;
    bool const may_wait = may_move && mode == allocation::may_wait;
    if (may_wait && obstacles.has_writes)
      return status::again;
    if (may_wait && obstacles.has_users)
      return status::busy;
    if (may_move && evict_one(state, {.only_resident = true}))
      continue;
    return fail_no_space(state, size);
  }
}

status catalog::fail_held() const {
  return fail(status::no_space,
              "clients of a previous daemon have the pool's memory mapped, and may still write to "
              "it: end them, or let them connect again");
}

// Report why memory is insufficient, and the remedy.
status catalog::fail_no_space(const namespace_state &state, uint64_t size) const {
  memory_usage const usage = memory_.usage();
  owner_usage const own_usage = memory_.usage_of(state.account->id);
  auto const less = [](uint64_t value, uint64_t part) {
    return value - std::min(value, part);
  };
  uint64_t const own_unused = less(own_usage.owned, state.account->used.load());
  uint64_t const bound = less(less(usage.owned, usage.used), own_unused);
  if (is_tiered() && size > usage.capacity)
    return fail(status::no_space,
                "namespace {}: an object of {} bytes does not fit into the pool's memory of {} "
                "bytes, in which it is written: start the daemon with a larger --size",
                state.user_name(),
                size,
                usage.capacity);
  const char *const help = bound + own_unused + usage.free() < size
                               ? "remove objects"
                               : "remove all objects of a namespace, which gives its memory back";
  return fail(status::no_space,
              "namespace {}: the pool has no space for {} bytes: of its {} bytes {} are in use, {} "
              "unused are bound to other namespaces, {} to this one, {} are free, {} wait for "
              "transfers: {}, or start the daemon with a larger --size",
              state.user_name(),
              size,
              usage.capacity,
              usage.used,
              bound,
              own_unused,
              usage.free(),
              usage.quarantined,
              help);
}

result<object_ref> catalog::create_object(uint64_t namespace_id,
                                          uint64_t size,
                                          uint32_t flags,
                                          allocation mode) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  std::vector<pool_extent> pieces;
  TND_TRY(allocate_in_quota(state, size, mode, pieces));
  auto object = make_object(state, std::move(pieces), flags);
  object->metadata.size = size;
  return object;
}

object_ref catalog::make_object(namespace_state &state,
                                std::vector<pool_extent> pieces,
                                uint32_t flags) {
  auto created = std::make_shared<object>(state.account);
  created->add_pieces(std::move(pieces));
  created->flags = flags & flags_of_objects;
  return created;
}

status catalog::grow(object &target, uint64_t size, allocation mode) {
  if (size <= target.allocated_size()) {
    if (size > target.metadata.size)
      target.metadata.size = size;
    return status::ok;
  }
  lock_guard lock{mutex_};
  // Writers often append repeatedly, so grow in proportion to the object's size while memory lasts.
  uint64_t const needed = size - target.allocated_size();
  uint64_t const wished = std::max(needed, std::min(target.allocated_size(), uint64_t{64} << 20));
  std::vector<pool_extent> pieces;
  namespace_state &state = state_for(target.owner());
  auto got = state.quota == 0 ? memory_.allocate(state.account->id, wished)
                              : result<std::vector<pool_extent>>{status::no_space};
  if (got.ok())
    pieces = std::move(got).value();
  else
    TND_TRY(allocate_in_quota(state, needed, mode, pieces));
  if (target.pieces().size() + pieces.size() > wire::pool::extent_count_max) {
    memory_.release(pieces);
    return fail(status::no_space,
                "an object has more than {} pieces: create it with its final size",
                wire::pool::extent_count_max);
  }
  target.add_pieces(std::move(pieces));
  target.metadata.size = size;
  return status::ok;
}

// In a cluster a version is a count, which is not below the clock's, and a tag. A server that takes
// over may lack the last versions of the one before, and its clock is past their times. A tick of
// the clock is 262 us, so that versions take less than 63 bits until 2116.
uint64_t catalog::next_version(const namespace_state &state, uint64_t wall_ns) {
  TND_ASSERT(mutex_.is_held());
  if (!options_.version_tag)
    return ++last_version_;
  uint64_t const tag = options_.version_tag(state.name);
  TND_ASSERT(tag >> version_tag_bits == 0);
  uint64_t const count =
      std::max((last_version_ >> version_tag_bits) + 1, wall_ns >> version_tick_bits);
  last_version_ = count << version_tag_bits | tag;
  return last_version_;
}

// Assign a version and bind the name. The object that had the name is superseded.
void catalog::commit_locked(namespace_state &state,
                            const std::string &name,
                            const object_ref &object,
                            std::vector<change> &changes,
                            std::vector<object_ref> &superseded) {
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(object->metadata.size <= object->allocated_size());
  object->metadata.created_ns = options_.clock->wall_ns();
  object->metadata.version = next_version(state, object->metadata.created_ns);
  statistics_.commits++;
  statistics_.committed_size += object->metadata.size;
  object_ref previous = bind(state, name, object);
  change put = make_change(change::kind::put, *object, state.name, name);
  put.object = object;
  put.replaced_version = version_or_zero(previous);
  put.flags = object->flags & flags_of_objects;
  put.stripe_versions = stripe_versions_of(state, *object);
  changes.push_back(std::move(put));
  if (previous != nullptr)
    superseded.push_back(std::move(previous));
}

result<uint64_t> catalog::commit(const object_ref &object,
                                 const std::string &name,
                                 uint32_t flags,
                                 const callback_maker &make_callback) {
  std::vector<object_ref> superseded;
  lock_guard lock{mutex_};
  namespace_state &state = state_for(object->owner());
  if ((flags & flag_exclusive) != 0 && state.objects.contains(name))
    return status::exists;
  std::vector<change> changes;
  commit_locked(state, name, object, changes, superseded);
  append_changes(std::move(changes), superseded, make_callback(object->client_metadata()));
  return object->metadata.version;
}

result<object_ref> catalog::open(uint64_t namespace_id,
                                 const std::string &name,
                                 uint64_t version,
                                 bool count_open) {
  lock_guard lock{mutex_};
  return open_locked(namespace_id, name, version, count_open);
}

result<object_ref> catalog::open_locked(uint64_t namespace_id,
                                        const std::string &name,
                                        uint64_t version,
                                        bool count_open) {
  namespace_state &state = state_for(namespace_id);
  auto const match = find_version(state, name, version);
  if (!match.ok())
    return match.error();
  auto const it = match.value();
  if (count_open) {
    statistics_.opens++;
    mark_used(state, it);
  }
  return it->second.object;
}

namespace {

// The name up to the first delimiter after the prefix, with it. Empty without a delimiter there.
std::string common_prefix(const std::string &name, const list_request &request) {
  if (request.delimiter.empty() || !name.starts_with(request.prefix))
    return {};
  size_t const position = name.find(request.delimiter, request.prefix.size());
  return position == std::string::npos ? "" : name.substr(0, position + request.delimiter.size());
}

// The first name after all that begin with the prefix.
auto after_prefix(const auto &objects, std::string prefix) {
  while (!prefix.empty() && uint8_t(prefix.back()) == UINT8_MAX)
    prefix.pop_back();
  if (prefix.empty())
    return objects.end();
  prefix.back() = char(uint8_t(prefix.back()) + 1);
  return objects.lower_bound(prefix);
}

auto first_listed(const auto &objects, const list_request &request) {
  if (request.after < request.prefix)
    return objects.lower_bound(request.prefix);
  std::string const listed_prefix = common_prefix(request.after, request);
  return listed_prefix.empty() ? objects.upper_bound(request.after)
                               : after_prefix(objects, listed_prefix);
}

}  // namespace

void catalog::list(uint64_t namespace_id,
                   const list_request &request,
                   const list_visitor &visitor) {
  lock_guard lock{mutex_};
  auto const &objects = state_for(namespace_id).objects;
  for (auto it = first_listed(objects, request);
       it != objects.end() && it->first.starts_with(request.prefix);) {
    std::string const common = common_prefix(it->first, request);
    if (common.empty()) {
      info const metadata = it->second.object->client_metadata();
      if (!visitor(it->first, &metadata))
        return;
      ++it;
    } else {
      if (!visitor(common, nullptr))
        return;
      it = after_prefix(objects, common);
    }
  }
}

status catalog::rename(uint64_t namespace_id,
                       const std::string &name,
                       const std::string &new_name,
                       uint32_t flags,
                       journal_callback done) {
  std::vector<object_ref> superseded;
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  auto const it = state.objects.find(name);
  if (it == state.objects.end())
    return status::no_entry;
  object_ref const moved = it->second.object;
  change renamed = make_change(change::kind::rename, *moved, state.name, new_name);
  renamed.old_name = name;
  renamed.object = moved;
  renamed.reader = reader_of(*moved);
  if (name != new_name) {
    if ((flags & flag_exclusive) != 0 && state.objects.contains(new_name))
      return status::exists;
    (void)unbind(state, it);
    object_ref previous = bind(state, new_name, moved);
    renamed.replaced_version = version_or_zero(previous);
    if (previous != nullptr)
      superseded.push_back(std::move(previous));
  }
  append_changes({std::move(renamed)}, superseded, std::move(done));
  return status::ok;
}

status catalog::remove(uint64_t namespace_id, const std::string &name, journal_callback done) {
  std::vector<object_ref> superseded;
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  auto const it = state.objects.find(name);
  if (it == state.objects.end())
    return status::no_entry;
  superseded.push_back(unbind(state, it));
  append_changes({make_change(change::kind::remove, *superseded.front(), state.name, name)},
                 superseded,
                 std::move(done));
  return status::ok;
}

status catalog::set_flags(uint64_t namespace_id,
                          const std::string &name,
                          uint32_t flags,
                          journal_callback done) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  auto const it = state.objects.find(name);
  if (it == state.objects.end())
    return status::no_entry;
  std::atomic<uint32_t> &object_flags = it->second.object->flags;
  object_flags = (object_flags & ~flags_of_clients) | (flags & flags_of_clients);
  update_eviction(state, it);
  update_residence(state, it);
  change changed = make_change(change::kind::set_flags, *it->second.object, state.name, name);
  changed.object = it->second.object;
  changed.flags = object_flags & flags_of_objects;
  append_changes({std::move(changed)}, {}, std::move(done));
  return status::ok;
}

result<object_ref> catalog::create_restored(uint64_t namespace_id,
                                            uint64_t size,
                                            uint32_t flags,
                                            allocation mode) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  std::vector<pool_extent> pieces;
  TND_TRY(allocate_or_evict(state, size, mode, pieces));
  return make_object(state, std::move(pieces), flags);
}

result<object_ref> catalog::create_at(uint64_t namespace_id,
                                      uint64_t size,
                                      uint32_t flags,
                                      const std::vector<wire::pool::range> &places) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  std::vector<pool_extent> pieces;
  for (const wire::pool::range &place : places)
    memory_.add_pieces_at(place.offset, place.size, pieces);
  TND_TRY(memory_.claim(state.account->id, pieces));
  auto object = make_object(state, std::move(pieces), flags);
  if (object->allocated_size() < size)
    return status::invalid;
  return object;
}

object_ref catalog::create_damaged(uint64_t namespace_id,
                                   uint32_t flags,
                                   const std::vector<wire::pool::range> &places) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  std::vector<pool_extent> pieces;
  for (const wire::pool::range &place : places)
    memory_.add_pieces_at(place.offset, place.size, pieces);
  if (memory_.claim(state.account->id, pieces) != status::ok)
    pieces.clear();
  auto object = make_object(state, std::move(pieces), flags);
  object->is_damaged = true;
  object->is_loss_logged = true;
  return object;
}

void catalog::check_memory() {
  memory_.check_losses();
  uint64_t const count = memory_.loss_count();
  if (logged_loss_count_.exchange(count) != count)
    log_losses();
}

void catalog::log_losses() {
  lock_guard lock{mutex_};
  for (auto &[id, state] : namespaces_) {
    for (auto &[name, named] : state->objects) {
      object &lossy = *named.object;
      if (lossy.is_loss_logged || lossy.is_intact())
        continue;
      lossy.is_loss_logged = true;
      log(log_level::error,
          "pool: {}/{}, version {}, {} bytes, has lost bytes: it cannot be read any more",
          state->name,
          name,
          lossy.metadata.version,
          lossy.metadata.size);
    }
  }
}

void catalog::restore(const std::string &name, const object_ref &object) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(object->owner());
  adopt_manifest(state, *object);
  (void)bind(state, name, object);
  last_version_ = std::max(last_version_, object->metadata.version);
}

void catalog::raise_version(uint64_t highest) {
  lock_guard lock{mutex_};
  last_version_ = std::max(last_version_, highest);
}

catalog_statistics catalog::statistics() const {
  lock_guard lock{mutex_};
  return statistics_;
}

}  // namespace tanada::poold
