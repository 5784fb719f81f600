// The journal over the log: queueing of changes, and divergence after failures.
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

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/thread.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t journal_file_size = uint64_t{16} << 20,
                   journal_size = uint64_t{64} << 20;   // a record takes 4 KiB
constexpr uint64_t sync_size_max = uint64_t{16} << 20;  // of a group, unless one entry is larger

// A removal under a name that is free: the log may have stale objects under it.
bool is_void_change(const change &update) {
  return update.type == change::kind::remove && update.version == 0;
}

// The options of the log in options.folder, without its reserve.
pool::log_options log_options_for(const durable_options &options, const std::string &url) {
  pool::log_options settings;
  settings.url = url;
  settings.with_data = options.with_data;
  settings.gathers = options.with_data;  // otherwise the groups of the backing file are the log's
  settings.size_max = options.size_max;
  // Use several files, so that some can be removed while others are written.
  uint64_t const usable_size = std::min(options.size_max, pool::file_system_size(options.folder));
  settings.file_size =
      std::clamp(usable_size / 16, uint64_t{1} << 20, uint64_t{256} << 20) & ~uint64_t{4095};
  if (!options.with_data) {
    settings.file_size = std::min(settings.file_size, journal_file_size);
    settings.compact_above = journal_size;
  }
  settings.compact_above = std::min(settings.compact_above, options.size_max / 2);
  return settings;
}

}  // namespace

result<std::unique_ptr<durable_journal>> durable_journal::open(pool_memory &memory,
                                                               const durable_options &options) {
  std::unique_ptr<durable_journal> instance{
      new durable_journal{seams::monotonic_clock(), memory, options}};
  TND_TRY(instance->lock_folder());
  TND_TRY(instance->restrict_permissions());
  std::string const url = "file://" + options.folder + "/";
  auto store = instance->stores_.find(url);
  if (!store.ok())
    return store.error();
  pool::log_options settings = log_options_for(options, url);
  // Reserve space to compact a file whose objects are removed in part, and for the removals'
  // records.
  uint64_t const reserve_size = settings.file_size + settings.file_size / 2;
  instance->reserve_ = std::make_unique<pool::reserve_file>(options.folder, reserve_size);
  settings.reserve = instance->reserve_.get();
  TND_TRY(instance->open_log(*store.value(), std::move(settings)));
  return instance;
}

result<std::unique_ptr<durable_journal>> durable_journal::open_with(seams::store &store,
                                                                    seams::clock &clock,
                                                                    pool_memory &memory,
                                                                    const durable_options &options,
                                                                    pool::log_options settings) {
  std::unique_ptr<durable_journal> instance{new durable_journal{clock, memory, options}};
  TND_TRY(instance->open_log(store, std::move(settings)));
  return instance;
}

status durable_journal::open_log(seams::store &store, pool::log_options settings) {
  auto opened = pool::durable_log::open(store, clock_, std::move(settings));
  if (!opened.ok())
    return opened.error();
  log_ = std::move(opened).value();
  return status::ok;
}

durable_journal::~durable_journal() {
  stop(clock_.now_ns());
  TND_ASSERT(!thread_.joinable());
  end_work();
  log_.reset();
  if (lock_ >= 0)
    close(lock_);
}

status durable_journal::lock_folder() {
  const char *const folder = options_.folder.c_str();
  if (mkdir(folder, 0700) != 0 && errno != EEXIST)
    return fail(status(-errno), "{}: {}", folder, std::strerror(errno));
  lock_ = ::open((options_.folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0)
    return fail(status(-errno), "{}/lock: {}", folder, std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0)
    return status::ok;
  return fail(status::busy, "{} belongs to another daemon", folder);
}

// The log holds the bytes of every namespace, so only the owner may read its files. Earlier
// versions left their permissions to the umask.
status durable_journal::restrict_permissions() const {
  std::error_code error;
  for (auto const &file : std::filesystem::directory_iterator{options_.folder, error}) {
    if (!file.path().filename().string().starts_with("log-") || !file.is_regular_file(error))
      continue;
    const char *const path = file.path().c_str();
    if (chmod(path, 0600) != 0)
      return fail(status(-errno), "{}: {}", path, std::strerror(errno));
  }
  return error ? fail(status(-error.value()), "{}: {}", options_.folder, error.message())
               : status::ok;
}

void durable_journal::start() {
  TND_ASSERT(log_ != nullptr && !thread_.joinable());
  thread_ = std::thread{[this] {
    run();
  }};
}

void durable_journal::stop(uint64_t deadline_ns) {
  {
    lock_guard lock{mutex_};
    is_stopping_ = true;
    stop_deadline_ns_ = deadline_ns;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

bool durable_journal::is_congested() const {
  lock_guard lock{mutex_};
  return pending_size_ > options_.congestion_size || pending_count_ > 65536;
}

void durable_journal::append(std::vector<change> changes,
                             std::vector<object_ref> superseded,
                             journal_callback done) {
  // The log has its own copy of the bytes, so the memory may be reused at once.
  if (options_.with_data)
    superseded.clear();
  auto item =
      std::make_shared<entry>(entry{std::move(changes), std::move(superseded), std::move(done)});
  for (const change &update : item->changes) {
    if (update.type != change::kind::put)
      continue;
    TND_ASSERT(update.object != nullptr);
    item->size += update.object->metadata.size;
  }
  push(std::move(item));
}

void durable_journal::push(std::shared_ptr<entry> item) {
  TND_ASSERT(item != nullptr && item->order == 0);
  {
    lock_guard lock{mutex_};
    pending_size_ += item->size;
    pending_count_++;
    item->order = ++last_order_;
    queue_.push_back(std::move(item));
  }
  wake_.notify_one();
}

// Whether the log has completed the previous group, and the next one need not wait for more.
bool durable_journal::may_begin_group() {
  TND_ASSERT(pending_count_ >= queue_.size());
  if (pending_count_ > queue_.size())
    return false;
  return gate_.may_begin(clock_.now_ns(), queue_.size()) || is_stopping_;
}

// The entries at the front of the queue that share the next sync of the backing file. Empty: the
// first one was synced, or the group does not begin yet.
std::vector<std::shared_ptr<durable_journal::entry>> durable_journal::unsynced_entries() {
  std::vector<std::shared_ptr<entry>> entries;
  if (options_.with_data || queue_.front()->is_synced || !may_begin_group())
    return entries;
  uint64_t size = 0;
  for (auto const &item : queue_) {
    size += item->size;
    if (!entries.empty() && size > sync_size_max)
      break;
    entries.push_back(item);
  }
  gate_.begin(clock_.now_ns());
  return entries;
}

// Sync the bytes of all puts of these entries, before the log gets any of their names.
void durable_journal::sync_entries(const std::vector<std::shared_ptr<entry>> &entries) {
  std::vector<pool_memory::sync_request> requests(entries.size());
  for (size_t i = 0; i < entries.size(); i++) {
    for (const change &update : entries[i]->changes) {
      if (update.type != change::kind::put)
        continue;
      auto const &pieces = update.object->pieces();
      requests[i].pieces.insert(requests[i].pieces.end(), pieces.begin(), pieces.end());
    }
  }
  memory_.sync(requests);
  for (size_t i = 0; i < entries.size(); i++) {
    entries[i]->is_synced = true;
    entries[i]->sync_outcome = requests[i].outcome;
  }
}

bool durable_journal::progress() {
  bool const has_worked = run_work();
  unique_lock lock{mutex_};
  while (!queue_.empty()) {
    if (auto const group = unsynced_entries(); !group.empty()) {
      lock.unlock();
      sync_entries(group);
      lock.lock();
    }
    auto const item = queue_.front();
    if (!options_.with_data && !item->is_synced)
      break;
    if (has_to_wait(*item))
      break;
    lock.unlock();
    status const code = submit(item);
    lock.lock();
    if (code == status::again)
      break;
    TND_ASSERT(!queue_.empty() && queue_.front() == item);
    queue_.pop_front();
  }
  lock.unlock();
  return log_->poll() || has_worked;
}

status durable_journal::drain(uint64_t deadline_ns) {
  for (;;) {
    {
      lock_guard lock{mutex_};
      if (pending_count_ == 0 || clock_.now_ns() >= deadline_ns)
        break;
    }
    if (!progress())
      clock_.sleep_ns(idle_pause_ns);
  }
  status const code = log_->drain(deadline_ns);  // writes the record that everything is synced
  lock_guard lock{mutex_};
  return pending_count_ == 0 ? code : status::timed_out;
}

void durable_journal::run() {
  seams::thread_set_precise_sleep();
  unique_lock lock{mutex_};
  while (!is_stopping_) {
    lock.unlock();
    bool const moved = progress();
    bool const at_work = log_->next_wake_ns() == 0;
    lock.lock();
    if (moved)
      continue;
    // Poll the log periodically even when nothing is pending, because it compacts its files.
    if (pending_count_ > 0 || at_work)
      wake_.wait_for(lock, std::chrono::nanoseconds{idle_pause_ns});
    else
      wake_.wait_for(lock, std::chrono::milliseconds{100}, [&] {
        mutex_.assert_held();
        return is_stopping_ || !queue_.empty() || !work_.empty();
      });
  }
  uint64_t const deadline_ns = stop_deadline_ns_;
  lock.unlock();
  status const code = drain(deadline_ns);
  lock.lock();
  if (code != status::ok && pending_count_ > 0) {
    log(log_level::error,
        "pool: the last {} commits were not written before the daemon ended, and a restart may not "
        "find them: {}",
        pending_count_,
        tnd_status_name(tnd_status(code)));
  }
}

// Whether the entry has to wait for all that was submitted before: outstanding changes may still
// rename the objects of follow-up removals. What changes nothing is durable once the changes are
// that left it nothing.
bool durable_journal::has_to_wait(const entry &item) const {
  bool const is_void = std::all_of(item.changes.begin(), item.changes.end(), is_void_change);
  return (item.completed_order != 0 || is_void) && pending_count_ > queue_.size();
}

// again: the log is full, and the entry must be submitted again. Any other status completes it.
status durable_journal::submit(const std::shared_ptr<entry> &item) {
  if (item->completed_order != 0 && item->transaction.empty()) {
    divergence_.begin_follow_ups(item->changes, item->completed_order);
    if (item->changes.empty()) {
      complete(*item, status::ok);
      return status::ok;
    }
  }
  status code = item->sync_outcome;
  if (code == status::ok && item->transaction.empty())
    code = make_transaction(*item, item->transaction);
  if (code == status::ok && item->transaction.empty()) {
    // The names of these changes may be different in the log.
    complete(*item, item->changes.empty() ? unwritten_.condition().cause : status::ok);
    return status::ok;
  }
  if (code == status::ok)
    code =
        log_->append(item->transaction, [this, item](status outcome) { complete(*item, outcome); });
  if (code == status::ok)
    note_submitted(item->transaction);
  if (code != status::ok && code != status::again)
    complete(*item, code);
  return code;
}

status durable_journal::make_transaction(const entry &item, pool::transaction &changes) {
  TND_ASSERT(changes.empty());
  for (const change &source : item.changes) {
    if (is_void_change(source))
      continue;
    pool::change logged;
    switch (source.type) {
      case change::kind::put:
        TND_TRY(make_put(source, logged));
        break;
      case change::kind::remove:
        logged.kind = pool::change_kind::remove;
        break;
      case change::kind::rename:
        logged.kind = pool::change_kind::rename;
        logged.new_name = source.name;
        break;
      case change::kind::set_flags:
        logged.kind = pool::change_kind::flags;
        logged.meta.flags = source.flags;
        break;
    }
    logged.meta.version = aliases_.translate(
        source, [this](uint64_t version) { return is_logged(version); }, clock_.wall_ns());
    changes.push_back(std::move(logged));
  }
  return status::ok;
}

// Whether the log has records of this version, or gets them.
bool durable_journal::is_logged(uint64_t version) const {
  return submitted_versions_.contains(version) || log_->contains(version);
}

// ok: the log has the object's stripes, or gets them before the object. Otherwise a restart could
// find the object without them, instead of the version before. Else the status of a failure that
// kept one out.
status durable_journal::check_stripes(const change &put) const {
  bool const has_all = std::all_of(put.stripe_versions.begin(),
                                   put.stripe_versions.end(),
                                   [this](uint64_t version) { return is_logged(version); });
  if (has_all)
    return status::ok;
  status const cause = unwritten_.condition().cause;
  return cause == status::ok ? status::stale : cause;
}

// The versions of puts that a log has to write.
void durable_journal::note_submitted(const pool::transaction &changes) {
  for (const pool::change &update : changes)
    if (update.kind == pool::change_kind::put)
      submitted_versions_.insert(update.meta.version);
}

void durable_journal::note_completed(const pool::transaction &changes) {
  for (const pool::change &update : changes) {
    auto const it = submitted_versions_.find(update.meta.version);
    if (update.kind == pool::change_kind::put && it != submitted_versions_.end())
      submitted_versions_.erase(it);
  }
}

uint64_t version_aliases::translate(const change &update,
                                    const predicate &is_known,
                                    uint64_t wall_ns) {
  bool const is_rename = update.type == change::kind::rename;
  key const name{update.namespace_name, update.name};
  key const old_name = is_rename ? key{update.namespace_name, update.old_name} : name;
  auto const it = aliases_.find(old_name);
  bool const is_aliased = it != aliases_.end() && it->second.version == update.version;
  uint64_t logged = is_aliased ? it->second.logged : update.version;
  if (update.type == change::kind::set_flags || (is_rename && name == old_name))
    return logged;
  if (update.type == change::kind::put) {
    logged = update.version;
    uint64_t count = std::max(logged >> version_tag_bits, wall_ns >> version_tick_bits);
    uint64_t const tag = logged & ((uint64_t{1} << version_tag_bits) - 1);
    while (is_known(logged))
      logged = ++count << version_tag_bits | tag;
  }
  if (is_aliased)
    aliases_.erase(it);
  if (update.type == change::kind::put || is_rename)
    aliases_.erase(name);
  if (update.type != change::kind::remove && logged != update.version)
    aliases_[name] = {update.version, logged};
  return logged;
}

// Every logged object has a checksum, so that a restart can distinguish intact from torn objects.
status durable_journal::make_put(const change &source, pool::change &logged) {
  TND_ASSERT(source.object != nullptr);
  const object &stored_object = *source.object;
  TND_ASSERT(!stored_object.is_cold());
  TND_TRY(check_stripes(source));
  std::vector<iovec> parts;
  stored_object.append_parts(0, stored_object.metadata.size, parts);
  logged.meta = {source.namespace_name,
                 source.name,
                 stored_object.metadata.version,
                 stored_object.metadata.size,
                 stored_object.metadata.created_ns,
                 source.flags,
                 pool::checksum_kind(stored_object.metadata.checksum_kind),
                 stored_object.metadata.checksum};
  if (logged.meta.kind == pool::checksum_kind::none) {
    pool::checksum sum{pool::checksum_kind::crc32c};
    for (const iovec &part : parts)
      sum.add(part.iov_base, part.iov_len);
    logged.meta.kind = sum.kind();
    logged.meta.checksum = sum.value();
  }
  if (options_.with_data) {
    for (const iovec &part : parts)
      logged.data.emplace_back(static_cast<const std::byte *>(part.iov_base), part.iov_len);
    return status::ok;
  }
  add_extents(stored_object, logged);
  return status::ok;
}

// Log the ranges of an object's bytes in the backing file, where they were synced.
void durable_journal::add_extents(const object &source, pool::change &logged) const {
  uint64_t rest = source.metadata.size;
  for (const wire::pool::pool_extent &piece : source.pieces()) {
    uint64_t const size = std::min(rest, piece.size);
    if (size > 0)
      logged.extents.push_back({memory_.file_offset(piece), size});
    rest -= size;
  }
  TND_ASSERT(rest == 0);
}

void durable_journal::complete(entry &item, status code) {
  {
    lock_guard lock{mutex_};
    pending_peak_ = std::max(pending_peak_, pending_count_);
  }
  std::vector<change> follow_ups;
  bool const is_kept = code == status::ok;
  code = record_outcome(item, code, follow_ups);
  note_completed(item.transaction);
  note_outcome(item, is_kept);
  update_discardable(item, is_kept);
  hold_superseded(item, is_kept);
  // Stale objects that earlier failures left in the log are removed first, then the callback is
  // called.
  if (!follow_ups.empty()) {
    auto done = code == status::ok ? std::exchange(item.callback, {}) : journal_callback{};
    auto rest = std::make_shared<entry>(entry{std::move(follow_ups), {}, std::move(done)});
    rest->completed_order = item.order;
    push(std::move(rest));
  }
  if (item.callback)
    item.callback(code);
  lock_guard lock{mutex_};
  TND_ASSERT(pending_count_ > 0 && pending_size_ >= item.size);
  pending_size_ -= item.size;
  pending_count_--;
  if (pending_count_ == queue_.size())
    gate_.end(clock_.now_ns(), std::exchange(pending_peak_, 0));
}

// Returns the status for the callback.
status durable_journal::record_outcome(entry &item, status code, std::vector<change> &follow_ups) {
  journal_condition const before = unwritten_.condition();
  if (code == status::ok) {
    for (const change &update : item.changes)
      if (update.type == change::kind::put)
        update.object->flags.fetch_or(flag_durable);
    code = divergence_.record_logged(item.changes, item.order, follow_ups);
  } else {
    if (before.is_whole || item.callback.waits_for_disk())
      log(log_level::error,
          "pool: {} changes could not be made durable: {}",
          item.changes.size(),
          tnd_status_name(tnd_status(code)));
    divergence_.record_failed(item.changes, item.order, code);
  }
  if (code == status::ok)
    unwritten_.record_logged(item.changes, item.order, follow_ups);
  else
    unwritten_.record_failed(item.changes, item.order, code);
  log_condition(before);
  return code;
}

void durable_journal::log_condition(const journal_condition &before) {
  if (!before.is_whole && unwritten_.condition().is_whole)
    log(log_level::info, "pool: the log has all changes again that it had failed to write");
}

void unwritten_names::record_failed(const std::vector<change> &changes,
                                    uint64_t order,
                                    status cause) {
  lock_guard lock{mutex_};
  for (const change &update : changes) {
    orders_[{update.namespace_name, update.name}] = order;
    if (update.type == change::kind::rename)
      orders_[{update.namespace_name, update.old_name}] = order;
    cause_ = cause;
  }
}

// A put and a removal make a name what it is in the catalog. An object that is renamed keeps what
// it lacks.
void unwritten_names::record_logged(const std::vector<change> &changes,
                                    uint64_t order,
                                    const std::vector<change> &follow_ups) {
  lock_guard lock{mutex_};
  if (orders_.empty())
    return;
  auto const has_follow_up = [&](const object_place &place) {
    return std::any_of(follow_ups.begin(), follow_ups.end(), [&](const change &removal) {
      return removal.namespace_name == place.namespace_name && removal.name == place.name;
    });
  };
  for (const change &update : changes) {
    object_place const place{update.namespace_name, update.name};
    bool const is_rename = update.type == change::kind::rename;
    if (is_rename && orders_.contains({update.namespace_name, update.old_name}))
      orders_[place] = order;
    bool const is_complete =
        update.type == change::kind::put || update.type == change::kind::remove;
    auto const it = orders_.find(place);
    if (is_complete && it != orders_.end() && it->second <= order && !has_follow_up(place))
      orders_.erase(it);
  }
}

journal_condition unwritten_names::condition() const {
  lock_guard lock{mutex_};
  return {orders_.empty(), orders_.empty() ? status::ok : cause_};
}

std::vector<object_place> unwritten_names::places(size_t count_max) const {
  lock_guard lock{mutex_};
  std::vector<object_place> places;
  for (auto const &[place, order] : orders_) {
    if (places.size() == count_max)
      break;
    places.push_back(place);
  }
  return places;
}

// The flags in the journal of a file decide whether an object's memory may be reused before the
// journal has its removal. A restart may still find changes that failed: a put with its flags, and
// flags that make an object not evictable.
void durable_journal::update_discardable(const entry &item, bool is_kept) const {
  if (options_.with_data)
    return;
  for (size_t i = 0; i < item.changes.size() && i < item.transaction.size(); i++) {
    const change &update = item.changes[i];
    if (update.type == change::kind::put)
      update.object->is_discardable = is_evictable(item.transaction[i].meta.flags);
    if (update.type != change::kind::set_flags)
      continue;
    TND_ASSERT(update.object != nullptr);
    bool const is_evictable_now = is_kept || update.object->is_discardable;
    update.object->is_discardable = is_evictable_now && is_evictable(update.flags);
  }
}

// Called before the callback, so that a client that waited for a removal finds its memory free.
// Objects that the log still has keep their memory, even if the transaction is in the log: the
// rename of an object that is missing from the log supersedes nothing there. A failure may be
// reported before the outcome of an earlier put. Therefore only a later logged transaction releases
// those objects.
void durable_journal::hold_superseded(entry &item, bool is_kept) {
  for (object_ref &object : item.superseded)
    held_objects_.push_back({std::move(object), item.order});
  item.superseded.clear();
  if (!is_kept || item.transaction.empty())
    return;
  std::erase_if(held_objects_, [&](const held_object &held) {
    return held.order <= item.order && !log_->find(held.object->metadata.version);
  });
}

void log_divergence::record_failed(const std::vector<change> &changes,
                                   uint64_t order,
                                   status cause) {
  for (const change &update : changes) {
    bool const is_renamed = update.type == change::kind::rename && update.name != update.old_name;
    if (update.type == change::kind::put)
      (void)erase_stale({update.namespace_name, update.name}, update.version);
    if (update.type == change::kind::put || is_renamed)
      record_unlogged(update, order, cause);
    if (update.type == change::kind::remove)
      record_failed_removal(update, order);
  }
}

// Record that a version has its name only in the catalog.
void log_divergence::record_unlogged(const change &update, uint64_t order, status cause) {
  TND_ASSERT(cause != status::ok);
  std::string logged_name =
      update.type == change::kind::rename ? rename_unlogged(update, order) : std::string{};
  divergence &target = divergences_[{update.namespace_name, update.name}];
  // An object that was not in the log before cannot be stale there.
  if (update.replaced_version != 0 && update.replaced_version != target.unlogged_version)
    target.stale_versions[update.replaced_version] = order;
  if (order >= target.order) {
    target.unlogged_version = update.version;
    target.order = order;
    target.cause = cause;
    target.logged_name = std::move(logged_name);
  }
}

// Record a failed rename under the previous name. Returns the name under which the log may have the
// object.
std::string log_divergence::rename_unlogged(const change &update, uint64_t order) {
  divergence &old = divergences_[{update.namespace_name, update.old_name}];
  if (old.unlogged_version == update.version)
    return old.logged_name;
  old.stale_versions[update.version] = order;
  return update.old_name;
}

void log_divergence::record_failed_removal(const change &update, uint64_t order) {
  key const name{update.namespace_name, update.name};
  divergence &target = divergences_[name];
  if (target.unlogged_version != update.version)
    target.stale_versions[update.version] = order;
  else
    target.unlogged_version = 0;
  if (target.stale_versions.empty())
    divergences_.erase(name);
}

// False: the version is not recorded as stale under the name.
bool log_divergence::erase_stale(const key &name, uint64_t version) {
  auto const it = divergences_.find(name);
  if (it == divergences_.end() || it->second.stale_versions.erase(version) == 0)
    return false;
  if (it->second.unlogged_version == 0 && it->second.stale_versions.empty())
    divergences_.erase(it);
  return true;
}

// Record that the log has this version under the name. It is stale if a later change failed.
void log_divergence::mark_logged(const key &name, uint64_t order, uint64_t version) {
  auto const it = divergences_.find(name);
  if (it == divergences_.end())
    return;
  divergence &target = it->second;
  std::erase_if(target.stale_versions, [&](auto const &ghost) { return ghost.second <= order; });
  if (order < target.order)
    target.stale_versions[version] = target.order;
  else
    target.unlogged_version = 0;
  if (target.unlogged_version == 0 && target.stale_versions.empty())
    divergences_.erase(it);
}

void log_divergence::add_follow_ups(const key &name,
                                    uint64_t order,
                                    std::vector<change> &follow_ups) {
  auto const it = divergences_.find(name);
  if (it == divergences_.end())
    return;
  divergence &target = it->second;
  for (auto const &[version, failed_order] : target.stale_versions) {
    if (failed_order > order)
      continue;
    change &removal = follow_ups.emplace_back();
    removal.type = change::kind::remove;
    removal.version = version;
    removal.namespace_name = name.first;
    removal.name = name.second;
  }
  if (order >= target.order)
    target.unlogged_version = 0;
  if (target.unlogged_version == 0 && target.stale_versions.empty())
    divergences_.erase(it);
}

void log_divergence::begin_follow_ups(std::vector<change> &removals, uint64_t order) {
  std::erase_if(removals, [&](const change &removal) {
    TND_ASSERT(removal.type == change::kind::remove);
    auto const it = divergences_.find({removal.namespace_name, removal.name});
    if (it == divergences_.end())
      return true;
    auto const ghost = it->second.stale_versions.find(removal.version);
    if (ghost == it->second.stale_versions.end() || ghost->second > order)
      return true;
    (void)erase_stale(it->first, removal.version);
    return false;
  });
}

status log_divergence::record_logged(const std::vector<change> &changes,
                                     uint64_t order,
                                     std::vector<change> &follow_ups) {
  if (divergences_.empty())
    return status::ok;
  status code = status::ok;
  for (const change &update : changes) {
    key const name{update.namespace_name, update.name},
        old_name{update.namespace_name, update.old_name};
    auto const it = divergences_.find(update.type == change::kind::rename ? old_name : name);
    bool const missing = it != divergences_.end() && it->second.unlogged_version == update.version;
    status const cause = missing ? it->second.cause : status::ok;
    switch (update.type) {
      case change::kind::put:
        mark_logged(name, order, update.version);
        break;
      case change::kind::remove:
        add_follow_ups(name, order, follow_ups);
        break;
      case change::kind::set_flags:
        if (missing)
          code = cause;
        break;
      case change::kind::rename:
        // The log may have renamed the object from another name.
        if (missing &&
            !erase_stale({update.namespace_name, it->second.logged_name}, update.version)) {
          code = cause;
          record_failed({update}, order, code);
        } else {
          mark_logged(name, order, update.version);
          if (name != old_name)
            add_follow_ups(old_name, order, follow_ups);
        }
    }
  }
  return code;
}

}  // namespace tanada::poold
