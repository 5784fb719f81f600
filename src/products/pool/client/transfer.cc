// products/pool/client/transfer.cc: a client's reads and writes.
#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "products/pool/bulk.hpp"
#include "products/pool/client/box.hpp"
#include "products/pool/client/client.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/bulk_copy.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr uint64_t inline_size_max =
    64 << 10;  // For larger objects a round trip to share their memory is worthwhile.
constexpr uint64_t cached_object_size_max = 1 << 20;
constexpr uint64_t cached_size_max = 64 << 20;
constexpr size_t cached_count_max = 1024;
constexpr size_t device_row_count_max = 1024;
constexpr size_t device_stage_size = size_t{8} << 20;
constexpr uint64_t serve_ns =
    200'000;  // between two polls of the stream while a fabric transfer is in progress

constexpr uint32_t create_flags = TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE;

tnd_pool_box whole(uint64_t size) {
  return row_box(0, size);
}

}  // namespace

status client::write(open_object &object, const tnd_pool_box &requested, memory_range source) {
  TND_TRY(check_usable(object));
  if (!object.is_writer)
    return status::bad_file;
  auto end = end_of(requested);
  if (!end.ok())
    return end.error();
  if (end.value() == 0)
    return status::ok;
  if (object.striped == nullptr && end.value() > object.about.size && is_striped_size(end.value()))
    TND_TRY(convert_to_striped(object, end.value()));
  if (object.striped != nullptr)
    return write_striped(object, requested, source);
  tnd_pool_box const box = joined(requested);
  if (end.value() > object.about.size && shared_)
    TND_TRY(resize(object, end.value()));
  object.about.size = std::max(object.about.size, end.value());
  return move(object, box, source, true);
}

status client::read(open_object &object, const tnd_pool_box &requested, memory_range target) {
  if (object.striped == nullptr)
    return retry_read(object, [&] { return read_once(object, requested, target); });
  TND_TRY(check_range(object, requested));
  return read_striped(object, requested, target);
}

status client::check_range(const open_object &object, const tnd_pool_box &requested) const {
  auto const end = end_of(requested);
  if (!end.ok())
    return end.error();
  if (end.value() <= object.about.size)
    return status::ok;
  set_last_message(space_url(daemon_) + "/" + object.name + ": the object has " +
                   std::to_string(object.about.size) + " bytes, the read ends at " +
                   std::to_string(end.value()));
  return status::range;
}

status client::read_once(open_object &object, const tnd_pool_box &requested, memory_range target) {
  TND_TRY(check_usable(object));
  TND_TRY(report_written(object));
  TND_TRY(check_range(object, requested));
  if (end_of(requested).value() == 0)
    return status::ok;
  tnd_pool_box const box = joined(requested);
  return move(object, box, target, false);
}

status client::move(open_object &object,
                    const tnd_pool_box &box,
                    memory_range memory,
                    bool to_pool) {
  // The daemon must provide bytes that nobody has written yet.
  bool const is_plain = to_pool || !object.is_writer;
  if (is_plain && uses_fabric(box, memory)) {
    status const code = move_fabric(object, box, memory, to_pool);
    if (code != status::not_supported || !memory.on_device)
      return code;
  }
  if (memory.on_device)
    TND_TRY(ensure_device());
  uint64_t const size = box.size * box.count[0] * box.count[1];
  auto *const addr = static_cast<std::byte *>(memory.addr);
  if (is_plain && shared_) {
    bool is_staged = false;
    status const code = memory.on_device ? move_shared_device(object, box, addr, to_pool, is_staged)
                                         : move_shared(object, box, addr, to_pool);
    segments_.unmap_lasting();
    if (code == status::ok)
      count_mapped(mapping_path(memory.on_device, is_staged), size, to_pool);
    if (code != status::not_supported || !memory.on_device)
      return code;
  }
  TND_TRY(memory.on_device ? move_device(object, box, addr, to_pool)
                           : move_staged(object, box, addr, to_pool));
  traffic_.add({stream_path(), memory.on_device}, size, to_pool);
  return status::ok;
}

status client::read_some(
    open_object &object, uint64_t offset, uint64_t size, memory_range target, uint64_t &read_size) {
  uint64_t const whole = object.about.size;
  read_size = offset >= whole ? 0 : std::min(size, whole - offset);
  return read(object,
              {.offset = offset,
               .size = read_size,
               .count = {1, 1},
               .object_stride = {},
               .memory_stride = {}},
              target);
}

uint64_t client::sum_of(uint32_t kind, const void *bytes, uint64_t size) {
  if (checksum_kind(kind) == checksum_kind::xxh3)
    return checksum_of(checksum_kind::xxh3, bytes, size);
  checksum sum{checksum_kind(kind)};
  iovec const range{const_cast<void *>(bytes), size};
  add_bulk(helpers_, {&range, 1}, sum);
  return sum.value();
}

// Copies between the pool's parts, one after the other, and memory. `sum` is of the copied bytes.
void client::copy_parts(std::span<const iovec> parts,
                        std::byte *memory,
                        bool to_pool,
                        checksum &sum) {
  auto const copy_of = [to_pool, &memory](const iovec &part) {
    auto *const shared = static_cast<std::byte *>(part.iov_base);
    auto *const private_part = std::exchange(memory, memory + part.iov_len);
    return to_pool ? copy_part{shared, private_part, part.iov_len}
                   : copy_part{private_part, shared, part.iov_len};
  };
  first_reader const reader = to_pool ? first_reader::others : first_reader::caller;
  if (parts.size() == 1) {
    copy_part const only = copy_of(parts[0]);
    copy_bulk(helpers_, {&only, 1}, reader, sum);
    return;
  }
  std::vector<copy_part> copies;
  for (const iovec &part : parts)
    copies.push_back(copy_of(part));
  copy_bulk(helpers_, copies, reader, sum);
}

// One copy, by this process.
status client::move_shared(open_object &object,
                           const tnd_pool_box &box,
                           std::byte *memory,
                           bool to_pool) {
  std::vector<iovec> parts;
  return each_row(box, [&](uint64_t offset, uint64_t memory_offset) {
    parts.clear();
    TND_TRY(segments_.parts_of(object.pieces, offset, box.size, parts));
    checksum no_sum{checksum_kind::none};
    copy_parts(parts, memory + memory_offset, to_pool, no_sum);
    return to_pool ? note_written(object, offset, box.size) : status::ok;
  });
}

status client::copy_rows(open_object &object, device_rows &rows, bool to_pool, bool &is_staged) {
  TND_ASSERT(device_ != nullptr && rows.parts.size() >= rows.ranges.size());
  bool is_copy_staged = false;
  auto const direction = to_pool ? copy_direction::to_host : copy_direction::to_device;
  TND_TRY(device_->copy(rows.parts, direction, helpers_, is_copy_staged));
  is_staged = is_staged || is_copy_staged;
  for (const range &row : rows.ranges) {
    if (to_pool)
      TND_TRY(note_written(object, row.offset, row.size));
  }
  rows.parts.clear();
  rows.ranges.clear();
  return status::ok;
}

// Copies by the GPU, with enough rows at a time to keep its copy engines busy.
status client::move_shared_device(open_object &object,
                                  const tnd_pool_box &box,
                                  std::byte *memory,
                                  bool to_pool,
                                  bool &is_staged) {
  std::vector<device_range> ranges;
  device_rows rows;
  status const code = each_row(box, [&](uint64_t offset, uint64_t memory_offset) {
    ranges.clear();
    TND_TRY(segments_.device_ranges_of(object.pieces, offset, box.size, ranges));
    std::byte *device = memory + memory_offset;
    for (const device_range &range : ranges) {
      device_->add(range.mapping);
      rows.parts.push_back({range.mapping.get(), range.offset, device, range.size});
      device += range.size;
    }
    rows.ranges.push_back({offset, box.size});
    return rows.ranges.size() < device_row_count_max ? status::ok
                                                     : copy_rows(object, rows, to_pool, is_staged);
  });
  TND_TRY(code == status::ok ? copy_rows(object, rows, to_pool, is_staged) : code);
  if (to_pool)
    note_reserved_used(object.pieces);
  return status::ok;
}

status client::note_written(open_object &object, uint64_t offset, uint64_t size) {
  TND_ASSERT(object.is_writer);
  auto &written = object.written;
  if (!written.empty() && written.back().offset + written.back().size == offset)
    written.back().size += size;
  else
    written.push_back({offset, size});
  if (offset <= object.covered_size)
    object.covered_size = std::max(object.covered_size, offset + size);
  return written.size() < range_count_max ? status::ok : report_written(object);
}

// The daemon computes checksums in one thread, between other work. Bytes that were not written here
// must be cleared by the daemon first.
status client::sum_written(open_object &object, commit_terms &terms) {
  bool const is_requested =
      terms.checksum_kind == uint32_t(checksum_kind::crc32c) && terms.has_checksum == 0;
  uint64_t const size = object.about.size;
  if (!is_requested || !shared_ || size <= inline_size_max || object.covered_size < size)
    return status::ok;
  checksum sum{checksum_kind::crc32c};
  std::vector<iovec> parts;
  std::vector<device_range> ranges;
  status const code = device_ != nullptr
                          ? segments_.device_ranges_of(object.pieces, 0, size, ranges)
                          : status::not_supported;
  if (code == status::not_supported)
    TND_TRY(segments_.parts_of(object.pieces, 0, size, parts));
  else
    TND_TRY(code);
  for (const device_range &range : ranges)
    parts.push_back({range.mapping->addr() + range.offset, range.size});
  add_bulk(device_ != nullptr ? device_->helpers() : helpers_, parts, sum);
  segments_.unmap_lasting();
  terms.checksum = sum.value();
  terms.has_checksum = 1;
  return status::ok;
}

status client::move_rows(open_object &object,
                         std::vector<range> ranges,
                         std::vector<iovec> memory,
                         bool to_pool) {
  empty_message answer;
  ranges_request request{object.handle, std::move(ranges)};
  if (to_pool)
    return with_url(call(kind::write, request, answer, std::move(memory)), object.name);
  uint64_t size = 0, wanted = 0;
  for (const range &row : request.ranges)
    wanted += row.size;
  TND_TRY(with_url(call(kind::read, request, answer, {}, std::move(memory), &size), object.name));
  return size == wanted ? status::ok : status::protocol;
}

status client::move_staged(open_object &object,
                           const tnd_pool_box &box,
                           std::byte *memory,
                           bool to_pool) {
  std::vector<range> ranges;
  std::vector<iovec> parts;
  status const code = each_row(box, [&](uint64_t offset, uint64_t memory_offset) {
    ranges.push_back({offset, box.size});
    parts.push_back({memory + memory_offset, box.size});
    if (ranges.size() < range_count_max)
      return status::ok;
    return move_rows(object, std::exchange(ranges, {}), std::exchange(parts, {}), to_pool);
  });
  return code != status::ok || ranges.empty()
             ? code
             : move_rows(object, std::move(ranges), std::move(parts), to_pool);
}

bool client::uses_fabric(const tnd_pool_box &box, memory_range memory) const {
  bool const is_row = box.count[0] == 1 && box.count[1] == 1 && box.size > 0;
  if (fabric_ == nullptr || !is_row || (memory.on_device && !fabric_->reaches_devices()))
    return false;
  // Otherwise a processor would copy, on its way to memory that a card reaches.
  bool const is_reached = fabric_path() == TND_POOL_PATH_RDMA &&
                          fabric_->is_registered(static_cast<std::byte *>(memory.addr), box.size);
  return box.size > inline_size_max || is_reached;
}

// The daemon moves the bytes. This side drives the fabric and waits for the reply.
status client::move_fabric(open_object &object,
                           const tnd_pool_box &box,
                           memory_range memory,
                           bool to_pool) {
  TND_ASSERT(fabric_ != nullptr);
  auto acquired = fabric_->acquire_region(
      static_cast<std::byte *>(memory.addr), box.size, memory.on_device, to_pool);
  if (!acquired.ok())
    return acquired.error();
  auto const &region = acquired.value();
  rma_request const request{object.handle,
                            box.offset,
                            box.size,
                            region.remote.base,
                            region.remote.key,
                            region.remote.size,
                            region.offset};
  status code = status::ok;
  bool done = false;
  uint64_t const tag = channel_->post(
      to_pool ? kind::rma_write : kind::rma_read, request, {}, {}, [&](const reply &received) {
        code = received.code;
        done = true;
      });
  status const waited = await_fabric(tag, done, static_cast<std::byte *>(memory.addr), box.size);
  if (waited != status::ok)
    code = waited;
  fabric_->release_region(region);
  bool const is_direct = memory.on_device && fabric_path() == TND_POOL_PATH_RDMA;
  if (code == status::ok)
    traffic_.add({is_direct ? TND_POOL_PATH_GPU_DIRECT : fabric_path()}, box.size, to_pool);
  return code;
}

// Drives the fabric until `done`, which the reply's handler sets.
status client::await_fabric(uint64_t tag, const bool &done, std::byte *memory, uint64_t size) {
  uint64_t const deadline_ns = deadline();
  while (!done) {
    uint64_t const now_ns = clock().now_ns();
    if (channel_->progress(0) != status::ok || done)
      continue;
    if (now_ns >= deadline_ns) {
      // The daemon may still be transferring. Once the region is closed, it cannot access the
      // caller's memory any more.
      channel_->abandon(tag);
      channel_->end(status::timed_out);
      fabric_->unregister_containing(memory);
      return fail(status::timed_out, "a transfer of {} bytes over the fabric", size);
    }
    fabric_->serve(now_ns + serve_ns);
  }
  // The daemon may not have noticed yet that the connection has ended.
  if (channel_->is_broken())
    fabric_->unregister_containing(memory);
  return status::ok;
}

status client::ensure_device_stage() {
  if (device_stage_ != nullptr)
    return status::ok;
  auto created = pinned_buffer::create(device_, device_stage_size);
  if (!created.ok())
    return created.error();
  device_stage_ = std::move(created).value();
  return status::ok;
}

status client::stage_row(
    open_object &object, staged_rows &rows, range row, std::byte *memory, bool to_pool) {
  std::byte *const stage = device_stage_->data();
  for (uint64_t done = 0; done < row.size;) {
    TND_ASSERT(rows.size < device_stage_size && rows.ranges.size() == rows.addresses.size());
    uint64_t const size = std::min(row.size - done, device_stage_size - rows.size);
    if (to_pool)
      TND_TRY(device_->gpu().copy_to_host(stage + rows.size, memory + done, size));
    rows.ranges.push_back({row.offset + done, size});
    rows.addresses.push_back(memory + done);
    rows.size += size;
    done += size;
    if (rows.size == device_stage_size || rows.ranges.size() == range_count_max)
      TND_TRY(flush_staged(object, rows, to_pool));
  }
  return status::ok;
}

status client::flush_staged(open_object &object, staged_rows &rows, bool to_pool) {
  if (rows.ranges.empty())
    return status::ok;
  std::byte *const stage = device_stage_->data();
  auto const flushed = rows.ranges;
  TND_TRY(move_rows(object, std::exchange(rows.ranges, {}), {{stage, rows.size}}, to_pool));
  uint64_t stage_offset = 0;
  for (size_t i = 0; !to_pool && i < flushed.size(); stage_offset += flushed[i++].size) {
    TND_TRY(
        device_->gpu().copy_to_device(rows.addresses[i], stage + stage_offset, flushed[i].size));
  }
  rows.addresses.clear();
  rows.size = 0;
  return status::ok;
}

// Copies through pinned memory, with packed rows.
status client::move_device(open_object &object,
                           const tnd_pool_box &box,
                           std::byte *memory,
                           bool to_pool) {
  TND_TRY(ensure_device_stage());
  staged_rows rows;
  status const code = each_row(box, [&](uint64_t offset, uint64_t memory_offset) {
    return stage_row(object, rows, {offset, box.size}, memory + memory_offset, to_pool);
  });
  return code == status::ok ? flush_staged(object, rows, to_pool) : code;
}

status client::put(const std::string &name, const void *source, uint64_t size, commit_terms terms) {
  TND_TRY(ensure_connected(false));
  uint64_t version = 0;
  if (is_striped_size(size))
    return put_striped(name, source, size, terms, version);
  bool const is_large = size > inline_size_max && (shared_ || fabric_ != nullptr);
  if (!is_large)
    return put_inline(name, source, size, terms, version);
  status const code =
      shared_ ? put_shared(name, source, size, terms) : put_fabric(name, source, size, terms);
  // The caller's open objects may use all handles of the connection. An inline request needs no
  // handle.
  return code == status::too_many_files ? put_inline(name, source, size, terms, version) : code;
}

status client::put_inline(const std::string &name,
                          const void *source,
                          uint64_t size,
                          commit_terms terms,
                          uint64_t &version) {
  if (terms.checksum_kind != 0 && !terms.has_checksum) {
    terms.checksum = sum_of(terms.checksum_kind, source, size);
    terms.has_checksum = 1;
  }
  info_reply answer;
  std::vector<iovec> data;
  if (size > 0)
    data.push_back({const_cast<void *>(source), size});
  put_request request;
  request.name = name;
  request.terms = terms;
  TND_TRY(call(kind::put, request, answer, std::move(data)));
  version = answer.object_info.version;
  traffic_.add({stream_path()}, size, true);
  return status::ok;
}

status client::put_shared(const std::string &name,
                          const void *source,
                          uint64_t size,
                          commit_terms &terms) {
  open_object created;
  TND_TRY(create(name, size, terms.flags & create_flags, {}, created));
  terms.flags &= ~create_flags;
  std::vector<iovec> parts;
  status code = segments_.parts_of(created.pieces, 0, size, parts);
  bool const sums = terms.checksum_kind != 0 && !terms.has_checksum;
  checksum sum{sums ? checksum_kind(terms.checksum_kind) : checksum_kind::none};
  if (code == status::ok)
    copy_parts(parts, static_cast<std::byte *>(const_cast<void *>(source)), true, sum);
  segments_.unmap_lasting();
  if (sums) {
    terms.checksum = sum.value();
    terms.has_checksum = 1;
  }
  created.written.push_back({0, size});
  uint64_t version = 0;
  if (code == status::ok)
    code = commit(created, terms, version);
  if (code == status::ok)
    count_mapped(mapping_path(false, false), size, true);
  close(created);
  return code;
}

status client::get(
    const std::string &name, void *target, uint64_t capacity, info &about, bool verify) {
  TND_TRY(ensure_connected(true));
  bool const is_large = shared_ || (fabric_ != nullptr && capacity > inline_size_max);
  if (!is_large)
    return get_inline(name, target, capacity, about, verify);
  status const code = shared_ ? get_shared(name, target, capacity, about, verify)
                              : get_fabric(name, target, capacity, about, verify);
  return code == status::too_many_files ? get_inline(name, target, capacity, about, verify) : code;
}

status client::size_error(const std::string &name, uint64_t size, uint64_t capacity) const {
  set_last_message(space_url(daemon_) + "/" + name + ": the object has " + std::to_string(size) +
                   " bytes, the buffer " + std::to_string(capacity));
  return status::range;
}

status client::get_inline(
    const std::string &name, void *target, uint64_t capacity, info &about, bool verify) {
  info_reply answer;
  get_request request;
  request.name = name;
  request.capacity = capacity;
  uint64_t size = 0;
  std::vector<iovec> targets;
  if (capacity > 0)
    targets.push_back({target, capacity});
  TND_TRY(call(kind::get, request, answer, {}, std::move(targets), &size));
  about = answer.object_info;
  if (about.size > capacity)
    return size_error(name, about.size, capacity);
  if ((about.flags & flag_striped) != 0)
    return get_striped(name, target, capacity, about, verify);
  if (size != about.size)
    return status::protocol;
  traffic_.add({stream_path()}, size, false);
  bool const is_match = !verify || sum_of(about.checksum_kind, target, size) == about.checksum;
  return is_match ? status::ok
                  : fail(status::corrupt, "{}: the bytes do not have their checksum", name);
}

status client::put_fabric(const std::string &name,
                          const void *source,
                          uint64_t size,
                          commit_terms &terms) {
  open_object created;
  TND_TRY(create(name, size, terms.flags & create_flags, {}, created));
  terms.flags &= ~create_flags;
  if (terms.checksum_kind != 0 && !terms.has_checksum) {
    terms.checksum = sum_of(terms.checksum_kind, source, size);
    terms.has_checksum = 1;
  }
  uint64_t version = 0;
  status code = move_fabric(created, whole(size), {const_cast<void *>(source), false}, true);
  if (code == status::ok)
    code = commit(created, terms, version);
  close(created);
  return code;
}

status client::get_fabric(
    const std::string &name, void *target, uint64_t capacity, info &about, bool verify) {
  open_object opened;
  TND_TRY(open(name, 0, opened));
  about = opened.about;
  status code = status::ok;
  if (about.size <= capacity)
    code = read(opened, whole(about.size), {target, false});
  else
    code = size_error(name, about.size, capacity);
  bool const sums = code == status::ok && verify;
  if (sums && sum_of(about.checksum_kind, target, about.size) != about.checksum) {
    code = fail(status::corrupt, "{}: the bytes do not have their checksum", name);
  }
  close(opened);
  return code;
}

client::cached_object *client::find_cached(const std::string &name) {
  TND_ASSERT(counters_ != nullptr && cached_.size() == cache_.size());
  auto const it = cached_.find(name);
  if (it == cached_.end())
    return nullptr;
  auto const entry = it->second;
  if (counters_->values[name_counters::index(name)].load(std::memory_order_acquire) ==
      entry->counter) {
    cache_.splice(cache_.begin(), cache_, entry);
    return &*entry;
  }
  evict_cached(entry);
  return nullptr;
}

void client::evict_cached(std::list<cached_object>::iterator entry) {
  close(entry->object);
  TND_ASSERT(cached_size_ >= entry->object.about.size);
  cached_size_ -= entry->object.about.size;
  cached_.erase(entry->name);
  cache_.erase(entry);
}

void client::cache_object(const std::string &name, open_object object, uint64_t counter) {
  cached_size_ += object.about.size;
  cache_.push_front({name, std::move(object), counter});
  cached_[name] = cache_.begin();
  while (cache_.size() > cached_count_max || cached_size_ > cached_size_max)
    evict_cached(std::prev(cache_.end()));
}

status client::copy_out(open_object &object, void *target, bool verify) {
  std::vector<iovec> parts;
  TND_TRY(segments_.parts_of(object.pieces, 0, object.about.size, parts));
  checksum sum{verify ? checksum_kind(object.about.checksum_kind) : checksum_kind::none};
  if (parts.size() == 1 && object.about.size <= inline_size_max)
    seams::fetch_from_other_processor(parts[0].iov_base, parts[0].iov_len);
  copy_parts(parts, static_cast<std::byte *>(target), false, sum);
  segments_.unmap_lasting();
  count_mapped(mapping_path(false, false), object.about.size, false);
  if (verify && sum.kind() != checksum_kind::none && sum.value() != object.about.checksum) {
    return fail(status::corrupt, "the bytes do not have their checksum");
  }
  return status::ok;
}

// Copies an object that was read before without a request, if its name still refers to the same
// object. The counters are in the daemon's memory and do not change after it has ended. The system
// closes the daemon's end of the connection with the process. So an open connection shows that the
// counters were current when they were read.
status client::get_shared(
    const std::string &name, void *target, uint64_t capacity, info &about, bool verify) {
  if (cached_object *const cached = find_cached(name)) {
    if (status const code = channel_->check(); code != status::ok) {
      return fail(code, "pool at {}: the connection has ended", daemon_.host);
    }
    about = cached->object.about;
    if (about.size > capacity)
      return size_error(name, about.size, capacity);
    return copy_out(cached->object, target, verify);
  }
  uint64_t const counter =
      counters_->values[name_counters::index(name)].load(std::memory_order_acquire);
  open_object opened;
  TND_TRY(open(name, 0, opened));
  if (opened.striped != nullptr)
    return get_opened(opened, target, capacity, about, verify);
  about = opened.about;
  status const code = about.size <= capacity ? copy_out(opened, target, verify)
                                             : size_error(name, about.size, capacity);
  if (code == status::ok && about.size <= cached_object_size_max)
    cache_object(name, std::move(opened), counter);
  else
    close(opened);
  return code;
}

}  // namespace tanada::pool
