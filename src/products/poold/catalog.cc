#include "products/poold/catalog.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace tanada::poold {

namespace {

uint64_t version_of(const object_ref &some) {
  return some != nullptr ? some->about.version : 0;
}

}  // namespace

catalog::catalog(space &memory, journal *durable, catalog_options options)
    : memory_{memory}, journal_{durable}, options_{std::move(options)} {}

void catalog::bump(space_state &in, const std::string &name) {
  if (in.counters != nullptr)
    in.counters->of[pool::name_counters::index(name)].fetch_add(1, std::memory_order_release);
}

// Where an evictable object stands in the order of dropping.
void catalog::place(space_state &in, entries::iterator which) {
  entry &one = which->second;
  unplace(in, one);
  uint32_t const flags = one.object->flags.load();
  if ((flags & flag_evictable) != 0 && (flags & flag_pinned) == 0) {
    one.place = in.droppable.insert(in.droppable.end(), which);
    one.used_tick = ++tick_;
    droppable_size_ += one.object->allocated_size();
  }
}

void catalog::unplace(space_state &in, entry &one) {
  if (!one.place)
    return;
  in.droppable.erase(*one.place);
  one.place.reset();
  droppable_size_ -= one.object->allocated_size();
}

void catalog::touch(space_state &in, entries::iterator which) {
  if (!which->second.place)
    return;
  in.droppable.splice(in.droppable.end(), in.droppable, *which->second.place);
  which->second.used_tick = ++tick_;
}

// Returns what had the name.
object_ref catalog::bind(space_state &in, const std::string &name, const object_ref &made) {
  auto const [which, is_new] = in.objects.try_emplace(name);
  unplace(in, which->second);
  object_ref before = std::move(which->second.object);
  which->second.object = made;
  place(in, which);
  bump(in, name);
  if (is_new)
    counted_.object_count++;
  return before;
}

object_ref catalog::unbind(space_state &in, entries::iterator which) {
  unplace(in, which->second);
  object_ref before = std::move(which->second.object);
  std::string const name = which->first;
  in.objects.erase(which);
  bump(in, name);
  counted_.object_count--;
  if (in.objects.empty())
    maybe_unused_.insert(in.account->id);
  return before;
}

void catalog::append(std::vector<change> changes, std::vector<object_ref> superseded,
                     journal_done done) {
  if (journal_ != nullptr)
    journal_->append(std::move(changes), std::move(superseded), std::move(done));
}

// The oldest object that nobody has open goes. False: there is none.
bool catalog::drop_one(space_state &preferred, bool only_there) {
  space_state *chosen = nullptr;
  std::list<entries::iterator>::iterator oldest;
  auto const look = [&](space_state &in) {
    for (auto at = in.droppable.begin(); at != in.droppable.end(); ++at) {
      object_ref const &candidate = (*at)->second.object;
      if (candidate.use_count() != 1 || !candidate->may_vanish.load())
        continue;
      if (chosen == nullptr || (*at)->second.used_tick < (*oldest)->second.used_tick) {
        chosen = &in;
        oldest = at;
      }
      return;
    }
  };
  look(preferred);
  if (chosen == nullptr && !only_there)
    for (auto &[id, one] : spaces_)
      look(*one);
  if (chosen == nullptr)
    return false;
  std::string const name = (*oldest)->first;
  object_ref const gone = unbind(*chosen, *oldest);
  // Its memory is free at once: should the journal never hear of it, what comes back is an
  // evictable object, whole or torn.
  append({change_of(change::kind::remove, *gone, chosen->name, name)}, {}, {});
  counted_.evictions++;
  return true;
}

status catalog::make_room(space_state &in, uint64_t size, std::vector<piece> &pieces) {
  while (in.quota != 0 && (size > in.quota || in.account->used.load() > in.quota - size)) {
    if (size <= in.quota && drop_one(in, true))
      continue;
    return fail(status::no_space, "namespace %s: %llu bytes more than its quota of %llu allows",
                in.name.c_str(), static_cast<unsigned long long>(size),
                static_cast<unsigned long long>(in.quota));
  }
  return make_memory_room(in, size, pieces);
}

status catalog::make_memory_room(space_state &in, uint64_t size, std::vector<piece> &pieces) {
  if (counted_.object_count >= options_.object_count_max) {
    return fail(status::no_space, "the pool has %llu objects already",
                static_cast<unsigned long long>(options_.object_count_max));
  }
  // Nothing is dropped for what would not fit even then.
  bool const could_fit =
      size <= memory_.capacity() &&
      memory_.used() - std::min(memory_.used(), droppable_size_) <= memory_.capacity() - size;
  for (;;) {
    auto got = memory_.allocate(in.account->id, size);
    if (got.ok()) {
      pieces = std::move(got).value();
      return status::ok;
    }
    if (could_fit && drop_one(in, false))
      continue;
    return fail_full(in, size);
  }
}

// What is missing, and what helps against it.
status catalog::fail_full(const space_state &in, uint64_t size) const {
  space_usage const all = memory_.usage();
  owner_usage const own = memory_.usage_of(in.account->id);
  auto const less = [](uint64_t value, uint64_t part) {
    return value - std::min(value, part);
  };
  uint64_t const own_unused = less(own.owned, in.account->used.load());
  uint64_t const bound = less(less(all.owned, all.used), own_unused);
  const char *const help = bound + own_unused + all.free() < size
                               ? "remove objects"
                               : "remove all objects of a namespace, which gives its memory back";
  return fail(status::no_space,
              "namespace %s: the pool has no room for %llu bytes: of its %llu bytes %llu are in "
              "use, %llu unused are bound to other namespaces, %llu to this one, %llu are free, "
              "%llu wait for transfers: %s, or start the daemon with a larger --size",
              in.name.c_str(), static_cast<unsigned long long>(size),
              static_cast<unsigned long long>(all.capacity),
              static_cast<unsigned long long>(all.used), static_cast<unsigned long long>(bound),
              static_cast<unsigned long long>(own_unused),
              static_cast<unsigned long long>(all.free()),
              static_cast<unsigned long long>(all.held_back), help);
}

result<object_ref> catalog::begin(uint64_t space_id, uint64_t size, uint32_t flags) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  std::vector<piece> pieces;
  TND_TRY(make_room(in, size, pieces));
  auto made = made_of(in, std::move(pieces), flags);
  made->about.size = size;
  return made;
}

object_ref catalog::made_of(space_state &in, std::vector<piece> pieces, uint32_t flags) {
  auto made = std::make_shared<object>(memory_, in.account);
  made->add(std::move(pieces));
  made->flags = flags & flags_of_objects;
  return made;
}

status catalog::grow(object &target, uint64_t size) {
  if (size <= target.allocated_size()) {
    if (size > target.about.size)
      target.about.size = size;
    return status::ok;
  }
  std::lock_guard lock{mutex_};
  // Writers that append come back: what they get grows with what they have, as far as there is
  // room.
  uint64_t const needed = size - target.allocated_size();
  uint64_t const wished = std::max(needed, std::min(target.allocated_size(), uint64_t{64} << 20));
  std::vector<piece> pieces;
  space_state &in = state_of(target.owner());
  auto got = in.quota == 0 ? memory_.allocate(in.account->id, wished)
                           : result<std::vector<piece>>{status::no_space};
  if (got.ok())
    pieces = std::move(got).value();
  else
    TND_TRY(make_room(in, needed, pieces));
  if (target.pieces().size() + pieces.size() > wire::pool::piece_count_max) {
    memory_.release(pieces);
    return fail(status::no_space, "an object grew in more than %zu steps: create it with its size",
                wire::pool::piece_count_max);
  }
  target.add(std::move(pieces));
  target.about.size = size;
  return status::ok;
}

// It gets its version, and the name; what had the name is superseded.
void catalog::publish(space_state &in, const std::string &name, const object_ref &made,
                      std::vector<change> &changes, std::vector<object_ref> &superseded) {
  made->about.version = ++last_version_;
  made->about.created_ns = options_.time->wall_ns();
  counted_.commits++;
  counted_.committed_size += made->about.size;
  object_ref before = bind(in, name, made);
  change put = change_of(change::kind::put, *made, in.name, name);
  put.object = made;
  put.before = version_of(before);
  put.flags = made->flags & flags_of_objects;
  changes.push_back(std::move(put));
  if (before != nullptr)
    superseded.push_back(std::move(before));
}

result<uint64_t> catalog::commit(const object_ref &made, const std::string &name, uint32_t flags,
                                 const done_maker &done_of) {
  std::vector<object_ref> superseded;
  std::lock_guard lock{mutex_};
  space_state &in = state_of(made->owner());
  if ((flags & flag_exclusive) != 0 && in.objects.contains(name))
    return status::exists;
  std::vector<change> changes;
  publish(in, name, made, changes, superseded);
  append(std::move(changes), superseded, done_of(made->described()));
  return made->about.version;
}

result<object_ref> catalog::open(uint64_t space_id, const std::string &name, uint64_t version,
                                 bool counts) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  auto const found = in.objects.find(name);
  if (found == in.objects.end())
    return status::no_entry;
  if (version != 0 && found->second.object->about.version != version)
    return status::no_entry;
  if (counts) {
    counted_.opens++;
    touch(in, found);
  }
  return found->second.object;
}

void catalog::list(uint64_t space_id, const std::string &prefix, const std::string &after,
                   const std::function<bool(const std::string &, const info &)> &take) {
  std::lock_guard lock{mutex_};
  auto const &objects = state_of(space_id).objects;
  for (auto at = after < prefix ? objects.lower_bound(prefix) : objects.upper_bound(after);
       at != objects.end() && at->first.starts_with(prefix); ++at) {
    if (!take(at->first, at->second.object->described()))
      return;
  }
}

status catalog::rename(uint64_t space_id, const std::string &name, const std::string &new_name,
                       uint32_t flags, journal_done done) {
  std::vector<object_ref> superseded;
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  auto const found = in.objects.find(name);
  if (found == in.objects.end())
    return status::no_entry;
  object_ref const moved = found->second.object;
  change renamed = change_of(change::kind::rename, *moved, in.name, new_name);
  renamed.old_name = name;
  if (name != new_name) {
    if ((flags & flag_exclusive) != 0 && in.objects.contains(new_name))
      return status::exists;
    (void)unbind(in, found);
    object_ref before = bind(in, new_name, moved);
    renamed.before = version_of(before);
    if (before != nullptr)
      superseded.push_back(std::move(before));
  }
  append({std::move(renamed)}, superseded, std::move(done));
  return status::ok;
}

status catalog::remove(uint64_t space_id, const std::string &name, journal_done done) {
  std::vector<object_ref> superseded;
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  auto const found = in.objects.find(name);
  if (found == in.objects.end())
    return status::no_entry;
  superseded.push_back(unbind(in, found));
  append({change_of(change::kind::remove, *superseded.front(), in.name, name)}, superseded,
         std::move(done));
  return status::ok;
}

status catalog::set_flags(uint64_t space_id, const std::string &name, uint32_t flags,
                          journal_done done) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  auto const found = in.objects.find(name);
  if (found == in.objects.end())
    return status::no_entry;
  std::atomic<uint32_t> &kept = found->second.object->flags;
  kept = (kept & ~flags_of_objects) | (flags & flags_of_objects);
  place(in, found);
  change changed = change_of(change::kind::set_flags, *found->second.object, in.name, name);
  changed.object = found->second.object;
  changed.flags = kept & flags_of_objects;
  append({std::move(changed)}, {}, std::move(done));
  return status::ok;
}

result<object_ref> catalog::begin_restored(uint64_t space_id, uint64_t size, uint32_t flags) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  std::vector<piece> pieces;
  TND_TRY(make_memory_room(in, size, pieces));
  return made_of(in, std::move(pieces), flags);
}

result<object_ref> catalog::begin_at(uint64_t space_id, uint64_t size, uint32_t flags,
                                     const std::vector<wire::pool::range> &places) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  std::vector<piece> pieces;
  for (const wire::pool::range &place : places)
    memory_.add_pieces_at(place.offset, place.size, pieces);
  TND_TRY(memory_.claim(in.account->id, pieces));
  auto made = made_of(in, std::move(pieces), flags);
  if (made->allocated_size() < size)
    return status::invalid;
  return made;
}

object_ref catalog::begin_damaged(uint64_t space_id, uint32_t flags,
                                  const std::vector<wire::pool::range> &places) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  std::vector<piece> pieces;
  for (const wire::pool::range &place : places)
    memory_.add_pieces_at(place.offset, place.size, pieces);
  if (memory_.claim(in.account->id, pieces) != status::ok)
    pieces.clear();
  auto made = made_of(in, std::move(pieces), flags);
  made->is_damaged = true;
  made->loss_is_told = true;
  return made;
}

void catalog::look_at_memory() {
  memory_.look();
  uint64_t const count = memory_.loss_count();
  if (told_loss_count_.exchange(count) != count)
    tell_losses();
}

void catalog::tell_losses() {
  std::lock_guard lock{mutex_};
  for (auto &[id, in] : spaces_) {
    for (auto &[name, one] : in->objects) {
      object &which = *one.object;
      if (which.loss_is_told || which.is_whole())
        continue;
      which.loss_is_told = true;
      log(log_level::error,
          "pool: %s/%s, version %llu, %llu bytes, has lost bytes: it cannot be read any more",
          in->name.c_str(), name.c_str(), static_cast<unsigned long long>(which.about.version),
          static_cast<unsigned long long>(which.about.size));
    }
  }
}

void catalog::restore(const std::string &name, const object_ref &found) {
  std::lock_guard lock{mutex_};
  (void)bind(state_of(found->owner()), name, found);
  last_version_ = std::max(last_version_, found->about.version);
}

void catalog::restore_version(uint64_t highest) {
  std::lock_guard lock{mutex_};
  last_version_ = std::max(last_version_, highest);
}

catalog_statistics catalog::statistics() const {
  std::lock_guard lock{mutex_};
  return counted_;
}

}  // namespace tanada::poold
