// The journal's restore: a restart's objects, read from the log or claimed in the backing file.
#include <tanada/status.h>

#include <algorithm>
#include <tuple>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/durable.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t read_part_max = uint64_t{64} << 20;
constexpr uint64_t check_part_size = uint64_t{4} << 20;
constexpr uint64_t large_object_size = uint64_t{64} << 10;  // smaller ones are not page-aligned
constexpr uint64_t window_size_max = uint64_t{1} << 20, window_gap_max = uint64_t{64} << 10;

std::vector<wire::pool::range> ranges_of(const pool::live_object &object) {
  std::vector<wire::pool::range> places;
  for (const pool::extent &place : object.extents)
    places.push_back({place.offset, place.size});
  return places;
}

bool is_large(const pool::live_object &object) {
  return object.meta.size >= large_object_size;
}

pool::checksum checksum_of(pool::checksum_kind kind, const std::vector<iovec> &parts) {
  pool::checksum sum{kind};
  for (const iovec &part : parts)
    sum.add(part.iov_base, part.iov_len);
  return sum;
}

info metadata_of(const pool::object_meta &meta) {
  return {meta.size, meta.version, meta.created_ns, meta.checksum, uint32_t(meta.kind), 0};
}

}  // namespace

status durable_journal::restore(catalog &target) {
  TND_TRY(check_size());
  std::vector<placed_object> const objects = objects_by_place();
  restored_objects restored;
  auto const reserved = options_.with_data ? reserve(target) : std::vector<uint64_t>{};
  if (options_.with_data)
    restore_large(target, objects, restored);
  log_window window;
  for (size_t i = 0; i < objects.size(); i++)
    TND_TRY(restore_first(target, std::span{objects}.subspan(i), window, restored));
  for (uint64_t const namespace_id : reserved)
    target.close_namespace(namespace_id, false, 0);
  memory_.end_reservations();
  size_t const cold_count = restore_all_cold(target, restored);
  // All intact objects have their memory now.
  size_t const kept_count = keep_all_damaged(target, restored.damaged);
  has_damaged_ = kept_count > 0;
  target.raise_version(log_->highest_version());
  log(kept_count == 0 ? log_level::info : log_level::error,
      "pool: {} durable objects are restored, {} are damaged and kept aside, {} were dropped",
      restored.count,
      kept_count,
      objects.size() + cold_count - restored.count - kept_count);
  return status::ok;
}

bool durable_journal::is_restored_cold(const pool::live_object &source) const {
  bool const stays = (source.meta.flags & (flag_pinned | flag_striped)) != 0;
  return options_.is_tiered && source.meta.size > 0 && !stays;
}

// Restore the names of the objects that stay in the log. Returns the number of all of these.
size_t durable_journal::restore_all_cold(catalog &target, restored_objects &restored) {
  std::vector<pool::live_object> objects;
  log_->visit([&](const pool::live_object &source) {
    if (is_restored_cold(source))
      objects.push_back(source);
  });
  for (const pool::live_object &source : objects) {
    if (options_.checks_cold)
      if (status const code = check_logged(source); code != status::ok) {
        restored.damaged.emplace_back(source, code);
        continue;
      }
    uint64_t const owner = target.open_restored_namespace(source.meta.namespace_name);
    object_ref const cold =
        target.create_cold(owner, metadata_of(source.meta), source.meta.flags, source.meta.version);
    cold->flags.fetch_or(flag_durable);
    target.restore(source.meta.name, cold);
    restored.count++;
  }
  return objects.size();
}

// Reads an object's bytes, without memory for all of them, and compares their checksum.
status durable_journal::check_logged(const pool::live_object &source) {
  std::vector<std::byte> buffer(std::min(check_part_size, source.meta.size));
  pool::checksum sum{source.meta.kind};
  for (uint64_t offset = 0; offset < source.meta.size; offset += buffer.size()) {
    uint64_t const size = std::min<uint64_t>(buffer.size(), source.meta.size - offset);
    TND_TRY(wait_for_read([&](pool::durable_log &source_log, std::function<void(status)> done) {
      return source_log.read(source.meta.version, offset, {{buffer.data(), size}}, std::move(done));
    }));
    sum.add(buffer.data(), size);
  }
  return sum.value() == source.meta.checksum ? status::ok : status::corrupt;
}

// Restore the first of these objects. Returns an error if the restore has to end.
status durable_journal::restore_first(catalog &target,
                                      std::span<const placed_object> objects,
                                      log_window &window,
                                      restored_objects &restored) {
  auto const logged = log_->find(objects.front().version);
  if (!logged)
    return status::ok;  // compaction found its bytes damaged, dropped the object and logged it
  auto const known = restored.large.extract(logged->meta.version);
  if (!known && options_.with_data && !is_large(*logged))
    read_window(*logged, objects, window);
  auto outcome = known ? std::move(known.mapped()) : restore_object(target, *logged, window);
  if (!outcome.ok())
    return record_damaged(*logged, outcome.error(), restored.damaged);
  bind_restored(target, *logged, outcome.value());
  restored.count++;
  return status::ok;
}

// The objects whose bytes are restored, in the order of their bytes, which a disk reads fastest,
// and which leaves the fewest free ranges of a backing file meanwhile.
std::vector<durable_journal::placed_object> durable_journal::objects_by_place() const {
  std::vector<placed_object> objects;
  log_->visit([&](const pool::live_object &object) {
    if (is_restored_cold(object))
      return;
    uint64_t const offset = object.extents.empty() ? object.offset : object.extents[0].offset;
    objects.push_back({options_.with_data ? object.file_sequence : 0,
                       offset,
                       object.meta.size,
                       object.meta.version});
  });
  std::sort(objects.begin(), objects.end(), [](const placed_object &lhs, const placed_object &rhs) {
    return std::tie(lhs.file_sequence, lhs.offset) < std::tie(rhs.file_sequence, rhs.offset);
  });
  return objects;
}

// Read the part of the log that begins with this object, with the small ones that follow it, unless
// the window has it. `objects` begins with it. Its bytes stay missing after an error, which a read
// of the object reports.
void durable_journal::read_window(const pool::live_object &source,
                                  std::span<const placed_object> objects,
                                  log_window &window) {
  if (window.contains(source) || source.meta.size == 0)
    return;
  const placed_object &first = objects.front();
  uint64_t end = first.offset + first.size;
  for (const placed_object &next : objects) {
    bool const is_near = next.file_sequence == first.file_sequence &&
                         next.offset <= end + window_gap_max && next.size < large_object_size &&
                         next.offset + next.size - first.offset <= window_size_max;
    if (!is_near)
      break;
    end = std::max(end, next.offset + next.size);
  }
  window.file_sequence = first.file_sequence;
  window.offset = first.offset;
  window.bytes.resize(end - first.offset);
  status const code =
      wait_for_read([&](pool::durable_log &source_log, std::function<void(status)> done) {
        return source_log.read_file(window.file_sequence,
                                    window.offset,
                                    {{window.bytes.data(), window.bytes.size()}},
                                    std::move(done));
      });
  if (code != status::ok)
    window.bytes.clear();
}

void durable_journal::bind_restored(catalog &target,
                                    const pool::live_object &source,
                                    const object_ref &restored) {
  restored->flags.fetch_or(flag_durable);
  if (options_.is_tiered)
    restored->logged_version = source.meta.version;
  restored->is_discardable = options_.with_data || is_evictable(source.meta.flags);
  target.restore(source.meta.name, restored);
}

// Record an object that cannot be restored. Returns an error if that is not due to damage, and the
// restore has to end.
status durable_journal::record_damaged(const pool::live_object &source,
                                       status cause,
                                       damaged_objects &damaged) const {
  TND_ASSERT(cause != status::ok);
  // Otherwise compaction found its bytes damaged in the meantime, dropped the object and logged it.
  if (log_->find(source.meta.version))
    damaged.emplace_back(source, cause);
  if (cause != status::no_space && cause != status::no_memory && cause != status::timed_out)
    return status::ok;
  return fail(cause,
              "{}/{} of {} bytes cannot be restored ({}) and nothing was dropped: start with the "
              "--size it was written with",
              source.meta.namespace_name,
              source.meta.name,
              source.meta.size,
              tnd_status_name(tnd_status(cause)));
}

// Reserve memory for exactly the objects of each namespace: in a full pool, memory that one
// namespace does not need is missing in another. Returns the namespaces that it has entered.
std::vector<uint64_t> durable_journal::reserve(catalog &target) {
  std::map<std::string, uint64_t> sizes;
  log_->visit([&](const pool::live_object &object) {
    if (is_restored_cold(object))
      return;
    sizes[object.meta.namespace_name] += pool_memory::allocated_size(object.meta.size);
  });
  std::vector<uint64_t> entered;
  for (auto const &[name, size] : sizes) {
    auto namespace_id = target.open_namespace(name, false);
    if (!namespace_id.ok())
      continue;
    entered.push_back(namespace_id.value());
    memory_.reserve(namespace_id.value(), size);
  }
  return entered;
}

// Restore large objects first, because small ones fit into what they leave: a full pool may not fit
// in another order. Objects without space are left out here. They are tried again later, when
// evictable objects may make space.
void durable_journal::restore_large(catalog &target,
                                    std::span<const placed_object> objects,
                                    restored_objects &restored) {
  std::vector<placed_object> by_size;
  for (const placed_object &object : objects) {
    if (object.size >= large_object_size)
      by_size.push_back(object);
  }
  std::stable_sort(by_size.begin(), by_size.end(), [](const auto &lhs, const auto &rhs) {
    return lhs.size > rhs.size;
  });
  for (const placed_object &object : by_size) {
    auto const logged = log_->find(object.version);
    if (!logged)
      continue;
    auto outcome = restore_object(target, *logged, {});
    if (outcome.error() != status::no_space)
      restored.large.emplace(object.version, std::move(outcome));
  }
}

// Check that the backing file is large enough for all its objects.
status durable_journal::check_size() const {
  uint64_t needed_size = 0;
  log_->visit([&](const pool::live_object &object) {
    for (const pool::extent &place : object.extents)
      needed_size = std::max(needed_size, place.offset + place.size);
  });
  if (options_.with_data || needed_size <= memory_.capacity())
    return status::ok;
  return fail(status::no_space,
              "the pool's file has objects up to byte {}, and its size is given as {}: start with "
              "--size {} or more",
              needed_size,
              memory_.capacity(),
              needed_size);
}

result<object_ref> durable_journal::restore_object(catalog &target,
                                                   const pool::live_object &source,
                                                   const log_window &window) {
  const pool::object_meta &meta = source.meta;
  uint64_t const owner = target.open_restored_namespace(meta.namespace_name);
  auto restored = options_.with_data
                      ? target.create_restored(owner, meta.size, meta.flags)
                      : target.create_at(owner, meta.size, meta.flags, ranges_of(source));
  if (!restored.ok())
    return restored.error();
  restored.value()->metadata = metadata_of(meta);
  TND_TRY(check_bytes(source, window, *restored.value()));
  return restored;
}

status durable_journal::check_bytes(const pool::live_object &source,
                                    const log_window &window,
                                    object &target) {
  std::vector<iovec> parts;
  target.append_parts(0, source.meta.size, parts);
  if (window.contains(source))
    window.copy_to(source, parts);
  else if (options_.with_data)
    TND_TRY(read_back(source, target));
  bool const is_intact = checksum_of(source.meta.kind, parts).value() == source.meta.checksum;
  return is_intact ? status::ok : status::corrupt;
}

// Returns the number of objects that are kept.
size_t durable_journal::keep_all_damaged(catalog &target, const damaged_objects &damaged) {
  size_t kept_count = 0;
  for (auto const &[object, cause] : damaged)
    kept_count += keep_damaged(target, object, cause);
  return kept_count;
}

// Keep a damaged object, because a later start or the operator may be able to read it. Returns
// whether it is kept. An evictable object is dropped: its memory may have been reused before its
// removal was logged, so no data are lost.
bool durable_journal::keep_damaged(catalog &target, const pool::live_object &source, status cause) {
  const pool::object_meta &meta = source.meta;
  bool const is_cached_copy =
      is_evictable(meta.flags) && (cause == status::corrupt || cause == status::busy);
  log(is_cached_copy ? log_level::warning : log_level::error,
      "pool: {}/{}, version {}, {} bytes, is damaged ({}): {}",
      meta.namespace_name,
      meta.name,
      meta.version,
      meta.size,
      tnd_status_name(tnd_status(cause)),
      is_cached_copy ? "dropped, since it is evictable"
                     : "kept aside; reading it is EIO until it is replaced or removed");
  if (is_cached_copy) {
    pool::change removal;
    removal.kind = pool::change_kind::remove;
    removal.meta.version = meta.version;
    (void)log_->append({removal}, [](status) {});
    return false;
  }
  uint64_t const owner = target.open_restored_namespace(meta.namespace_name);
  object_ref const damaged = target.create_damaged(owner, meta.flags, ranges_of(source));
  damaged->metadata = metadata_of(meta);
  damaged->flags.fetch_or(flag_durable);
  target.restore(meta.name, damaged);
  return true;
}

status durable_journal::read_back(const pool::live_object &source, object &target) {
  for (uint64_t offset = 0; offset < source.meta.size;) {
    uint64_t const size = std::min(read_part_max, source.meta.size - offset);
    std::vector<iovec> parts;
    target.append_parts(offset, size, parts);
    std::vector<seams::store_buffer> buffers;
    for (const iovec &part : parts)
      buffers.push_back({static_cast<std::byte *>(part.iov_base), part.iov_len});
    TND_TRY(wait_for_read([&](pool::durable_log &source_log, std::function<void(status)> done) {
      return source_log.read(source.meta.version, offset, std::move(buffers), std::move(done));
    }));
    offset += size;
  }
  return status::ok;
}

// Start a read of the log and wait for it.
status durable_journal::wait_for_read(const read_starter &start_read) {
  status code = status::ok;
  bool is_done = false;
  TND_TRY(start_read(*log_, [&](status outcome) {
    code = outcome;
    is_done = true;
  }));
  while (!is_done) {
    if (!log_->poll())
      clock_.sleep_ns(idle_pause_ns);
  }
  return code;
}

bool durable_journal::log_window::contains(const pool::live_object &source) const {
  return source.file_sequence == file_sequence && source.offset >= offset &&
         range_fits(source.offset - offset, source.meta.size, bytes.size());
}

void durable_journal::log_window::copy_to(const pool::live_object &source,
                                          std::span<const iovec> parts) const {
  TND_ASSERT(contains(source));
  const std::byte *position = bytes.data() + (source.offset - offset);
  for (const iovec &part : parts) {
    std::copy_n(position, part.iov_len, static_cast<std::byte *>(part.iov_base));
    position += part.iov_len;
  }
}

}  // namespace tanada::poold
