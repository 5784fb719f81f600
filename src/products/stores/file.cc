// products/stores/file.cc: the C calls of tanada/store.h on open files.
#include <tanada/store.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/registry/store_registry.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/stores/guarded.hpp"
#include "seams/clock/clock.hpp"

// A file with the store that has it, and a queue of its own.
struct tnd_store_file {
  std::string url;
  uint64_t timeout_ns = 0;
  tanada::backends::store_registry stores;
  std::unique_ptr<tanada::seams::store_queue> queue;  // destroyed before its store
  tanada::seams::store_file id = tanada::seams::no_store_file;
  tanada::mutex mutex;  // one operation at a time
};

namespace tanada::stores {
namespace {

using seams::store_completion;
using seams::store_op;
using seams::store_op_kind;

constexpr uint32_t queue_depth = 4;
constexpr uint64_t transfer_size_max = 64 << 20;  // bytes of one operation
constexpr uint64_t poll_interval_min_ns = 1'000;
constexpr uint64_t poll_interval_max_ns = 200'000;
constexpr uint32_t known_flags =
    TND_STORE_READ | TND_STORE_WRITE | TND_STORE_CREATE | TND_STORE_EXCLUSIVE | TND_STORE_TRUNCATE;

// Perform one operation. The store ends it at its deadline.
result<store_completion> perform(tnd_store_file &file, store_op operation) {
  lock_guard const lock{file.mutex};
  seams::clock &time = seams::monotonic_clock();
  operation.file = file.id;
  operation.deadline_ns = seams::deadline_after(time.now_ns(), file.timeout_ns);
  store_completion done;
  if (!file.queue->try_perform(operation, done)) {
    TND_TRY(file.queue->post(std::move(operation)));
    uint64_t interval_ns = poll_interval_min_ns;
    while (file.queue->poll({&done, 1}) == 0) {
      time.sleep_ns(interval_ns);
      interval_ns = std::min(2 * interval_ns, poll_interval_max_ns);
    }
  }
  if (done.code != status::ok)
    return done.code;
  return done;
}

status check_flags(const char *url, uint32_t flags) {
  bool const is_valid =
      (flags & ~known_flags) == 0 && (flags & (TND_STORE_READ | TND_STORE_WRITE)) != 0 &&
      ((flags & (TND_STORE_CREATE | TND_STORE_TRUNCATE)) == 0 || (flags & TND_STORE_WRITE) != 0) &&
      ((flags & TND_STORE_EXCLUSIVE) == 0 || (flags & TND_STORE_CREATE) != 0);
  if (is_valid)
    return status::ok;
  return fail(status::invalid, "tnd_store_open: {}: flags {:#x} are invalid together", url, flags);
}

seams::store_open_flags open_flags_of(uint32_t flags) {
  seams::store_open_flags result;
  result.read = (flags & TND_STORE_READ) != 0;
  result.write = (flags & TND_STORE_WRITE) != 0;
  result.create = (flags & TND_STORE_CREATE) != 0;
  result.exclusive = (flags & TND_STORE_EXCLUSIVE) != 0;
  result.truncate = (flags & TND_STORE_TRUNCATE) != 0;
  return result;
}

status open(const char *url, uint32_t flags, uint64_t timeout_ns, tnd_store_file **file) {
  if (url == nullptr || *url == 0 || file == nullptr || timeout_ns == 0)
    return fail(status::invalid, "tnd_store_open: NULL, an empty URL, or a timeout of 0");
  TND_TRY(check_flags(url, flags));
  auto opened = std::make_unique<tnd_store_file>();
  opened->url = url;
  opened->timeout_ns = timeout_ns;
  auto const store = opened->stores.find(opened->url);
  if (!store.ok())
    return store.error();
  auto queue = store.value()->queue_create(queue_depth);
  if (!queue.ok())
    return queue.error();
  opened->queue = std::move(queue).value();
  store_op operation;
  operation.kind = store_op_kind::open;
  operation.url = opened->url;
  operation.open_flags = open_flags_of(flags);
  auto const done = perform(*opened, std::move(operation));
  if (!done.ok())
    return done.error();
  opened->id = done.value().file;
  *file = opened.release();
  return status::ok;
}

store_op transfer(store_op_kind kind, void *memory, uint64_t offset, uint64_t size) {
  store_op operation;
  operation.kind = kind;
  operation.offset = offset;
  operation.buffers = {{static_cast<std::byte *>(memory), std::min(size, transfer_size_max)}};
  return operation;
}

status read(tnd_store_file *file, uint64_t offset, void *target, uint64_t size, uint64_t *count) {
  if (file == nullptr || count == nullptr || (target == nullptr && size != 0))
    return fail(status::invalid, "tnd_store_read: NULL");
  uint64_t total = 0;
  while (total < size) {
    auto const done = perform(*file,
                              transfer(store_op_kind::read,
                                       static_cast<std::byte *>(target) + total,
                                       offset + total,
                                       size - total));
    if (!done.ok())
      return done.error();
    total += done.value().size;
    if (done.value().size < std::min(size - total + done.value().size, transfer_size_max))
      break;  // the end of the file
  }
  *count = total;
  return status::ok;
}

status write(tnd_store_file *file, uint64_t offset, const void *source, uint64_t size) {
  if (file == nullptr || (source == nullptr && size != 0))
    return fail(status::invalid, "tnd_store_write: NULL");
  auto *const bytes = const_cast<std::byte *>(static_cast<const std::byte *>(source));
  for (uint64_t total = 0; total < size;) {
    auto const done =
        perform(*file, transfer(store_op_kind::write, bytes + total, offset + total, size - total));
    if (!done.ok())
      return done.error();
    if (done.value().size == 0)
      return fail(status::io, "{}: no bytes were written at {}", file->url, offset + total);
    total += done.value().size;
  }
  return status::ok;
}

status simple(tnd_store_file *file, store_op_kind kind, uint64_t size = 0) {
  if (file == nullptr)
    return fail(status::invalid, "tanada/store.h: the file is NULL");
  store_op operation;
  operation.kind = kind;
  operation.size = size;
  return perform(*file, std::move(operation)).error();
}

status get_size(tnd_store_file *file, uint64_t *size) {
  if (file == nullptr || size == nullptr)
    return fail(status::invalid, "tnd_store_get_size: NULL");
  store_op operation;
  operation.kind = store_op_kind::stat;
  auto const done = perform(*file, std::move(operation));
  if (!done.ok())
    return done.error();
  *size = done.value().stat.size;
  return status::ok;
}

status close(tnd_store_file *file) {
  std::unique_ptr<tnd_store_file> const closed{file};
  return file == nullptr ? status::ok : simple(file, store_op_kind::close);
}

}  // namespace
}  // namespace tanada::stores

tnd_status tnd_store_open(const char *url,
                          uint32_t flags,
                          uint64_t timeout_ns,
                          tnd_store_file **file) noexcept {
  return tanada::stores::guarded(
      [&] { return tanada::stores::open(url, flags, timeout_ns, file); });
}

tnd_status tnd_store_read(tnd_store_file *file,
                          uint64_t offset,
                          void *target,
                          uint64_t size,
                          uint64_t *read_size) noexcept {
  return tanada::stores::guarded(
      [&] { return tanada::stores::read(file, offset, target, size, read_size); });
}

tnd_status tnd_store_write(tnd_store_file *file,
                           uint64_t offset,
                           const void *source,
                           uint64_t size) noexcept {
  return tanada::stores::guarded([&] { return tanada::stores::write(file, offset, source, size); });
}

tnd_status tnd_store_get_size(tnd_store_file *file, uint64_t *size) noexcept {
  return tanada::stores::guarded([&] { return tanada::stores::get_size(file, size); });
}

tnd_status tnd_store_truncate(tnd_store_file *file, uint64_t size) noexcept {
  return tanada::stores::guarded(
      [&] { return tanada::stores::simple(file, tanada::seams::store_op_kind::truncate, size); });
}

tnd_status tnd_store_sync(tnd_store_file *file) noexcept {
  return tanada::stores::guarded(
      [&] { return tanada::stores::simple(file, tanada::seams::store_op_kind::sync); });
}

tnd_status tnd_store_close(tnd_store_file *file) noexcept {
  return tanada::stores::guarded([&] { return tanada::stores::close(file); });
}
