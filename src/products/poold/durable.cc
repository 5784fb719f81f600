#include "products/poold/durable.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tanada/status.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "core/base/log.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t idle_pause_ns = 50'000;  // between two looks at the log while it is at work
constexpr uint64_t journal_file_size = uint64_t{16} << 20,
                   journal_size = uint64_t{64} << 20;  // a record takes 4 KiB
constexpr uint64_t read_part_max = uint64_t{64} << 20;
constexpr uint64_t large_object_size = uint64_t{64} << 10;  // smaller ones need no whole pages

std::vector<wire::pool::range> places_of(const pool::live_object &found) {
  std::vector<wire::pool::range> places;
  for (const pool::extent &place : found.extents)
    places.push_back({place.offset, place.size});
  return places;
}

bool is_evictable(uint32_t flags) {
  return (flags & flag_evictable) != 0 && (flags & flag_pinned) == 0;
}

info about_of(const pool::object_meta &meta) {
  return {meta.size, meta.version, meta.created_ns, meta.checksum, uint32_t(meta.kind), 0};
}

}  // namespace

result<std::unique_ptr<durable_journal>> durable_journal::open(space &memory,
                                                               const durable_options &options) {
  std::unique_ptr<durable_journal> made{
      new durable_journal{port::monotonic_clock(), memory, options}};
  TND_TRY(made->lock_folder());
  TND_TRY(made->close_to_others());
  std::string const url = "file://" + options.folder + "/";
  auto found = made->stores_.find(url);
  if (!found.ok())
    return found.error();
  pool::log_options settings;
  settings.url = url;
  settings.with_data = options.with_data;
  settings.size_max = options.size_max;
  // Several files, so that some can go while others are written.
  uint64_t const room = std::min(options.size_max, pool::file_system_size(options.folder));
  settings.file_size =
      std::clamp(room / 16, uint64_t{1} << 20, uint64_t{256} << 20) & ~uint64_t{4095};
  if (!options.with_data) {
    settings.file_size = std::min(settings.file_size, journal_file_size);
    settings.compact_above = journal_size;
  }
  settings.compact_above = std::min(settings.compact_above, options.size_max / 2);
  // Room to move a file whose objects are removed in part, and for the removals' records.
  uint64_t const reserve_size = settings.file_size + settings.file_size / 2;
  made->reserve_ = std::make_unique<pool::reserve_file>(options.folder, reserve_size);
  settings.reserve = made->reserve_.get();
  TND_TRY(made->open_log(*found.value(), std::move(settings)));
  return made;
}

result<std::unique_ptr<durable_journal>> durable_journal::open_on(port::store &store,
                                                                  port::clock &clock, space &memory,
                                                                  const durable_options &options,
                                                                  pool::log_options settings) {
  std::unique_ptr<durable_journal> made{new durable_journal{clock, memory, options}};
  TND_TRY(made->open_log(store, std::move(settings)));
  return made;
}

status durable_journal::open_log(port::store &store, pool::log_options settings) {
  auto opened = pool::durable_log::open(store, clock_, std::move(settings));
  if (!opened.ok())
    return opened.error();
  log_ = std::move(opened).value();
  return status::ok;
}

durable_journal::~durable_journal() {
  stop(clock_.now_ns());
  log_.reset();
  if (lock_ >= 0)
    close(lock_);
}

status durable_journal::lock_folder() {
  const char *const folder = options_.folder.c_str();
  if (mkdir(folder, 0700) != 0 && errno != EEXIST)
    return fail(status(-errno), "%s: %s", folder, std::strerror(errno));
  lock_ = ::open((options_.folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0)
    return fail(status(-errno), "%s/lock: %s", folder, std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0)
    return status::ok;
  return fail(status::busy, "%s belongs to another daemon", folder);
}

// The log holds the bytes of every namespace. Its files are made for the owner alone now; earlier
// versions left that to the umask.
status durable_journal::close_to_others() const {
  std::error_code error;
  for (auto const &file : std::filesystem::directory_iterator{options_.folder, error}) {
    if (!file.path().filename().string().starts_with("log-") || !file.is_regular_file(error))
      continue;
    const char *const path = file.path().c_str();
    if (chmod(path, 0600) != 0)
      return fail(status(-errno), "%s: %s", path, std::strerror(errno));
  }
  return error ? fail(status(-error.value()), "%s: %s", options_.folder.c_str(),
                      error.message().c_str())
               : status::ok;
}

void durable_journal::start() {
  thread_ = std::thread{[this] {
    run();
  }};
}

void durable_journal::stop(uint64_t deadline_ns) {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
    stop_deadline_ns_ = deadline_ns;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

bool durable_journal::is_behind() const {
  std::lock_guard lock{mutex_};
  return waiting_size_ > options_.behind_size || unfinished_ > 65536;
}

void durable_journal::append(std::vector<change> changes, std::vector<object_ref> superseded,
                             journal_done done) {
  // The log has bytes of its own: nobody misses the memory.
  if (options_.with_data)
    superseded.clear();
  auto one =
      std::make_shared<entry>(entry{std::move(changes), std::move(superseded), std::move(done)});
  for (const change &each : one->changes)
    if (each.what == change::kind::put)
      one->size += each.object->about.size;
  push(std::move(one));
}

void durable_journal::push(std::shared_ptr<entry> one) {
  {
    std::lock_guard lock{mutex_};
    waiting_size_ += one->size;
    unfinished_++;
    one->order = ++last_order_;
    waiting_.push_back(std::move(one));
  }
  wake_.notify_one();
}

bool durable_journal::turn() {
  std::unique_lock lock{mutex_};
  while (!waiting_.empty()) {
    auto const one = waiting_.front();
    // What such removals name may still move by what the log has in hand.
    if (one->follows != 0 && unfinished_ > waiting_.size())
      break;
    lock.unlock();
    status const code = submit(one);
    lock.lock();
    if (code == status::again)
      break;
    waiting_.pop_front();
  }
  lock.unlock();
  return log_->poll();
}

status durable_journal::drain(uint64_t deadline_ns) {
  for (;;) {
    {
      std::lock_guard lock{mutex_};
      if (unfinished_ == 0 || clock_.now_ns() >= deadline_ns)
        break;
    }
    if (!turn())
      clock_.sleep_ns(idle_pause_ns);
  }
  status const code = log_->drain(deadline_ns);  // its last record says that all was synced
  std::lock_guard lock{mutex_};
  return unfinished_ == 0 ? code : status::timed_out;
}

void durable_journal::run() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    lock.unlock();
    bool const moved = turn();
    bool const at_work = log_->next_wake_ns() == 0;
    lock.lock();
    if (moved)
      continue;
    // The log is looked at now and then even when nothing is to be written: it has housekeeping of
    // its own.
    if (unfinished_ > 0 || at_work)
      wake_.wait_for(lock, std::chrono::nanoseconds{idle_pause_ns});
    else
      wake_.wait_for(lock, std::chrono::milliseconds{100},
                     [&] { return stopping_ || !waiting_.empty(); });
  }
  uint64_t const deadline_ns = stop_deadline_ns_;
  lock.unlock();
  status const code = drain(deadline_ns);
  lock.lock();
  if (code != status::ok && unfinished_ > 0) {
    log(log_level::error,
        "pool: the last %zu commits were not written before the daemon ended, and a restart may "
        "not find them: %s",
        unfinished_, tnd_status_name(tnd_status(code)));
  }
}

// again: the log is full; everything else is the end of it.
status durable_journal::submit(const std::shared_ptr<entry> &one) {
  if (one->follows != 0 && one->made.empty()) {
    gaps_.begin_following(one->changes, one->follows);
    if (one->changes.empty()) {
      finished(*one, status::ok);
      return status::ok;
    }
  }
  status code = one->made.empty() ? transaction_of(*one, one->made) : status::ok;
  if (code == status::ok)
    code = log_->append(one->made, [this, one](status outcome) { finished(*one, outcome); });
  if (code != status::ok && code != status::again)
    finished(*one, code);
  return code;
}

status durable_journal::transaction_of(const entry &one, pool::transaction &changes) {
  for (const change &from : one.changes) {
    pool::change to;
    to.meta.version = from.version;
    switch (from.what) {
      case change::kind::put: TND_TRY(put_of(from, to)); break;
      case change::kind::remove: to.kind = pool::change_kind::remove; break;
      case change::kind::rename:
        to.kind = pool::change_kind::rename;
        to.new_name = from.name;
        break;
      case change::kind::set_flags:
        to.kind = pool::change_kind::flags;
        to.meta.flags = from.flags;
        break;
    }
    changes.push_back(std::move(to));
  }
  return status::ok;
}

// Whatever is kept has a checksum, so that a restart can tell a whole object from a torn one.
status durable_journal::put_of(const change &from, pool::change &to) {
  const object &kept = *from.object;
  std::vector<iovec> parts;
  kept.parts_of(0, kept.about.size, parts);
  to.meta = {from.space,
             from.name,
             kept.about.version,
             kept.about.size,
             kept.about.created_ns,
             from.flags,
             pool::checksum_kind(kept.about.checksum_kind),
             kept.about.checksum};
  if (to.meta.kind == pool::checksum_kind::none) {
    pool::checksum sum{pool::checksum_kind::crc32c};
    for (const iovec &one : parts)
      sum.add(one.iov_base, one.iov_len);
    to.meta.kind = sum.kind();
    to.meta.checksum = sum.value();
  }
  if (options_.with_data) {
    for (const iovec &one : parts)
      to.data.emplace_back(static_cast<const std::byte *>(one.iov_base), one.iov_len);
    return status::ok;
  }
  TND_TRY(memory_.sync(kept.pieces()));
  uint64_t rest = kept.about.size;
  for (const piece &one : kept.pieces()) {
    uint64_t const size = std::min(rest, one.size);
    if (size > 0)
      to.extents.push_back({memory_.file_offset(one), size});
    rest -= size;
  }
  return status::ok;
}

void durable_journal::finished(entry &one, status code) {
  std::vector<change> to_follow;
  bool const is_kept = code == status::ok;
  if (!is_kept) {
    log(log_level::error, "pool: %zu changes could not be made durable: %s", one.changes.size(),
        tnd_status_name(tnd_status(code)));
    gaps_.failed(one.changes, one.order, code);
  } else {
    for (const change &each : one.changes)
      if (each.what == change::kind::put)
        each.object->flags.fetch_or(flag_durable);
    code = gaps_.kept(one.changes, one.order, to_follow);
  }
  note_flags(one, is_kept);
  hold_superseded(one, is_kept);
  // What the log keeps because it failed before goes first; then the answer.
  if (!to_follow.empty()) {
    auto done = code == status::ok ? std::exchange(one.done, {}) : journal_done{};
    auto rest = std::make_shared<entry>(entry{std::move(to_follow), {}, std::move(done)});
    rest->follows = one.order;
    push(std::move(rest));
  }
  if (one.done)
    one.done(code);
  std::lock_guard lock{mutex_};
  waiting_size_ -= one.size;
  unfinished_--;
}

// What the journal of a file says of an object decides whether its memory may be used again at
// once. What failed may still be found by a restart: a put with its flags, and flags that end an
// object's being evictable.
void durable_journal::note_flags(const entry &one, bool is_kept) const {
  if (options_.with_data)
    return;
  for (size_t i = 0; i < one.changes.size() && i < one.made.size(); i++) {
    const change &each = one.changes[i];
    if (each.what == change::kind::put)
      each.object->may_vanish = is_evictable(one.made[i].meta.flags);
    if (each.what != change::kind::set_flags)
      continue;
    bool const is_evictable_now = is_kept || each.object->may_vanish;
    each.object->may_vanish = is_evictable_now && is_evictable(each.flags);
  }
}

// Before the answer: whoever waited for a removal finds its memory free. What the log still has
// keeps its memory, also where the transaction is in the log: a rename of an object that is not
// there supersedes nothing in it. A failure may be reported before the outcome of an earlier put,
// so that only a later transaction that is in the log can release what it left.
void durable_journal::hold_superseded(entry &one, bool is_kept) {
  for (object_ref &each : one.superseded)
    held_.push_back({std::move(each), one.order});
  one.superseded.clear();
  if (!is_kept || one.made.empty())
    return;
  std::erase_if(held_, [&](const held_object &each) {
    return each.order <= one.order && log_->find(each.object->about.version) == nullptr;
  });
}

void gaps::failed(const std::vector<change> &changes, uint64_t order, status why) {
  for (const change &each : changes) {
    key const name{each.space, each.name}, old_name{each.space, each.old_name};
    bool const renamed = each.what == change::kind::rename && name != old_name;
    if (each.what == change::kind::put)
      (void)take_ghost(name, each.version);
    if (each.what == change::kind::put || renamed) {
      std::string logged_as;
      if (renamed) {
        gap &old = all_[old_name];
        if (old.unlogged != each.version)
          old.ghosts[each.version] = order;
        logged_as = old.unlogged != each.version ? each.old_name : old.logged_as;
      }
      gap &of = all_[name];
      // What was not in the log before is no ghost.
      if (each.before != 0 && each.before != of.unlogged)
        of.ghosts[each.before] = order;
      if (order >= of.order) {
        of.unlogged = each.version;
        of.order = order;
        of.why = why;
        of.logged_as = std::move(logged_as);
      }
    }
    if (each.what == change::kind::remove) {
      gap &of = all_[name];
      if (of.unlogged != each.version)
        of.ghosts[each.version] = order;
      else
        of.unlogged = 0;
      if (of.ghosts.empty())
        all_.erase(name);
    }
  }
}

// False: the log has that version not under the name.
bool gaps::take_ghost(const key &of, uint64_t version) {
  auto const found = all_.find(of);
  if (found == all_.end() || found->second.ghosts.erase(version) == 0)
    return false;
  if (found->second.unlogged == 0 && found->second.ghosts.empty())
    all_.erase(found);
  return true;
}

// The log has that version under the name. It is in the way of a later one that failed.
void gaps::close(const key &of, uint64_t order, uint64_t version) {
  auto const found = all_.find(of);
  if (found == all_.end())
    return;
  gap &at = found->second;
  std::erase_if(at.ghosts, [&](auto const &ghost) { return ghost.second <= order; });
  if (order < at.order)
    at.ghosts[version] = at.order;
  else
    at.unlogged = 0;
  if (at.unlogged == 0 && at.ghosts.empty())
    all_.erase(found);
}

void gaps::follow(const key &of, uint64_t order, std::vector<change> &to_follow) {
  auto const found = all_.find(of);
  if (found == all_.end())
    return;
  gap &at = found->second;
  for (auto const &[version, failed_order] : at.ghosts) {
    if (failed_order > order)
      continue;
    change &gone = to_follow.emplace_back();
    gone.what = change::kind::remove;
    gone.version = version;
    gone.space = of.first;
    gone.name = of.second;
  }
  if (order >= at.order)
    at.unlogged = 0;
  if (at.unlogged == 0 && at.ghosts.empty())
    all_.erase(found);
}

void gaps::begin_following(std::vector<change> &removals, uint64_t order) {
  std::erase_if(removals, [&](const change &each) {
    auto const found = all_.find({each.space, each.name});
    if (found == all_.end())
      return true;
    auto const ghost = found->second.ghosts.find(each.version);
    if (ghost == found->second.ghosts.end() || ghost->second > order)
      return true;
    (void)take_ghost(found->first, each.version);
    return false;
  });
}

status gaps::kept(const std::vector<change> &changes, uint64_t order,
                  std::vector<change> &to_follow) {
  if (all_.empty())
    return status::ok;
  status code = status::ok;
  for (const change &each : changes) {
    key const name{each.space, each.name}, old_name{each.space, each.old_name};
    auto const at = all_.find(each.what == change::kind::rename ? old_name : name);
    bool const missing = at != all_.end() && at->second.unlogged == each.version;
    status const why = missing ? at->second.why : status::ok;
    switch (each.what) {
      case change::kind::put: close(name, order, each.version); break;
      case change::kind::remove: follow(name, order, to_follow); break;
      case change::kind::set_flags:
        if (missing)
          code = why;
        break;
      case change::kind::rename:
        // The log may have moved it from another name.
        if (missing && !take_ghost({each.space, at->second.logged_as}, each.version)) {
          code = why;
          failed({each}, order, code);
        } else {
          close(name, order, each.version);
          if (name != old_name)
            follow(old_name, order, to_follow);
        }
    }
  }
  return code;
}

status durable_journal::restore(catalog &into) {
  std::vector<pool::live_object> found;
  log_->visit([&](const pool::live_object &each) { found.push_back(each); });
  TND_TRY(check_size(found));
  std::vector<std::pair<const pool::live_object *, status>> damaged;
  size_t restored_count = 0, kept_count = 0;
  auto const reserved = options_.with_data ? reserve(into, found) : std::vector<uint64_t>{};
  auto large = options_.with_data ? restore_large(into, found) : objects_by_version{};
  for (const pool::live_object &each : found) {
    auto const known = large.extract(each.meta.version);
    auto restored = known ? std::move(known.mapped()) : restore_object(into, each);
    if (restored.ok()) {
      restored.value()->flags.fetch_or(flag_durable);
      restored.value()->may_vanish = options_.with_data || is_evictable(each.meta.flags);
      into.restore(each.meta.name, restored.value());
      restored_count++;
      continue;
    }
    status const why = restored.error();
    // Otherwise the log moved it meanwhile, found its bytes damaged, dropped it and reported that.
    if (log_->find(each.meta.version) != nullptr)
      damaged.emplace_back(&each, why);
    if (why != status::no_space && why != status::no_memory && why != status::timed_out)
      continue;
    return fail(why,
                "%s/%s of %llu bytes cannot be brought back (%s) and nothing was dropped: start "
                "with the --size it was written with",
                each.meta.space.c_str(), each.meta.name.c_str(),
                static_cast<unsigned long long>(each.meta.size), tnd_status_name(tnd_status(why)));
  }
  for (uint64_t const space_id : reserved)
    into.leave(space_id, false, 0);
  memory_.end_reservations();
  // Now the memory of all others is taken.
  for (auto const &[each, why] : damaged)
    kept_count += set_aside(into, *each, why);
  into.restore_version(log_->highest_version());
  log(kept_count == 0 ? log_level::info : log_level::error,
      "pool: %zu durable objects are back, %zu are damaged and kept aside, %zu were dropped",
      restored_count, kept_count, found.size() - restored_count - kept_count);
  return status::ok;
}

// Each namespace gets memory for all its objects first, and no more: in a full pool, what one gets
// beyond its need is missing to another. Returns the namespaces, which it has entered.
std::vector<uint64_t> durable_journal::reserve(catalog &into,
                                               const std::vector<pool::live_object> &found) {
  std::map<std::string, uint64_t> sizes;
  for (const pool::live_object &each : found) {
    sizes[each.meta.space] += space::allocated_size(each.meta.size);
  }
  std::vector<uint64_t> entered;
  for (auto const &[name, size] : sizes) {
    auto space_id = into.enter(name, false);
    if (!space_id.ok())
      continue;
    entered.push_back(space_id.value());
    memory_.reserve(space_id.value(), size);
  }
  return entered;
}

// Small objects fit into what large ones leave: a full pool may not come back in another order.
// What has no room is left out: it may take the place of evictable objects.
durable_journal::objects_by_version durable_journal::restore_large(
    catalog &into, const std::vector<pool::live_object> &found) {
  std::vector<const pool::live_object *> by_size;
  for (const pool::live_object &each : found) {
    if (each.meta.size >= large_object_size)
      by_size.push_back(&each);
  }
  std::stable_sort(by_size.begin(), by_size.end(), [](auto const *left, auto const *right) {
    return left->meta.size > right->meta.size;
  });
  objects_by_version restored;
  for (const pool::live_object *each : by_size) {
    auto made = restore_object(into, *each);
    if (made.error() != status::no_space)
      restored.emplace(each->meta.version, std::move(made));
  }
  return restored;
}

// Of a backing file: all that its objects need is there.
status durable_journal::check_size(const std::vector<pool::live_object> &found) const {
  uint64_t needed_size = 0;
  for (const pool::live_object &each : found) {
    for (const pool::extent &place : each.extents)
      needed_size = std::max(needed_size, place.offset + place.size);
  }
  if (options_.with_data || needed_size <= memory_.capacity())
    return status::ok;
  return fail(status::no_space,
              "the pool's file has objects up to byte %llu, and its size is given as %llu: start "
              "with --size %llu or more",
              static_cast<unsigned long long>(needed_size),
              static_cast<unsigned long long>(memory_.capacity()),
              static_cast<unsigned long long>(needed_size));
}

result<object_ref> durable_journal::restore_object(catalog &into, const pool::live_object &found) {
  const pool::object_meta &meta = found.meta;
  uint64_t const owner = into.enter_restored(meta.space);
  auto made = options_.with_data ? into.begin_restored(owner, meta.size, meta.flags)
                                 : into.begin_at(owner, meta.size, meta.flags, places_of(found));
  if (!made.ok())
    return made.error();
  made.value()->about = about_of(meta);
  TND_TRY(check_bytes(found, *made.value()));
  return made;
}

status durable_journal::check_bytes(const pool::live_object &found, object &target) {
  if (options_.with_data)
    TND_TRY(read_back(found, target));
  pool::checksum sum{found.meta.kind};
  std::vector<iovec> parts;
  target.parts_of(0, found.meta.size, parts);
  for (const iovec &part : parts)
    sum.add(part.iov_base, part.iov_len);
  return sum.value() == found.meta.checksum ? status::ok : status::corrupt;
}

// What cannot be read now may be read by a later start, or be of use to the operator. Returns
// whether it is kept. An evictable object's memory may have been used again before the log was
// written, so that its loss is none.
bool durable_journal::set_aside(catalog &into, const pool::live_object &found, status why) {
  const pool::object_meta &meta = found.meta;
  bool const is_cached_copy =
      is_evictable(meta.flags) && (why == status::corrupt || why == status::busy);
  log(is_cached_copy ? log_level::warning : log_level::error,
      "pool: %s/%s, version %llu, %llu bytes, is damaged (%s): %s", meta.space.c_str(),
      meta.name.c_str(), static_cast<unsigned long long>(meta.version),
      static_cast<unsigned long long>(meta.size), tnd_status_name(tnd_status(why)),
      is_cached_copy ? "dropped, since it is evictable"
                     : "kept aside; reading it is EIO until it is replaced or removed");
  if (is_cached_copy) {
    pool::change gone;
    gone.kind = pool::change_kind::remove;
    gone.meta.version = meta.version;
    (void)log_->append({gone}, [](status) {});
    return false;
  }
  uint64_t const owner = into.enter_restored(meta.space);
  object_ref const damaged = into.begin_damaged(owner, meta.flags, places_of(found));
  damaged->about = about_of(meta);
  damaged->flags.fetch_or(flag_durable);
  into.restore(meta.name, damaged);
  return true;
}

status durable_journal::read_back(const pool::live_object &found, object &into) {
  for (uint64_t at = 0; at < found.meta.size;) {
    uint64_t const size = std::min(read_part_max, found.meta.size - at);
    std::vector<iovec> parts;
    into.parts_of(at, size, parts);
    std::vector<port::store_buffer> buffers;
    for (const iovec &one : parts)
      buffers.push_back({static_cast<std::byte *>(one.iov_base), one.iov_len});
    status code = status::ok;
    bool done = false;
    TND_TRY(log_->read(found.meta.version, at, std::move(buffers), [&](status outcome) {
      code = outcome;
      done = true;
    }));
    while (!done)
      if (!log_->poll())
        clock_.sleep_ns(idle_pause_ns);
    TND_TRY(code);
    at += size;
  }
  return status::ok;
}

}  // namespace tanada::poold
