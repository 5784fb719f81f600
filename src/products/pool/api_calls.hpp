// products/pool/api_calls.hpp: helpers that the calls of tanada/pool.h share: the objects that
// handles point to, and checks of arguments.
#pragma once

#include <tanada/pool.h>

#include <cstring>
#include <new>
#include <string>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/pool/checksum.hpp"
#include "products/pool/client/client.hpp"

// An object keeps a pointer to its `tnd_pool`, so the client stays alive for objects that are
// closed after tnd_pool_disconnect().
struct tnd_pool {
  explicit tnd_pool(std::unique_ptr<tanada::pool::client> connected)
      : client{std::move(connected)} {
    TND_ASSERT(client != nullptr);
  }

  tanada::mutex mutex;
  std::unique_ptr<tanada::pool::client> const client TND_PT_GUARDED_BY(mutex);
  uint64_t handles TND_GUARDED_BY(mutex) = 0;
  bool disconnected TND_GUARDED_BY(mutex) = false;
};

struct tnd_pool_object {
  tnd_pool *pool;
  std::shared_ptr<tanada::pool::open_object> object;  // requests in flight hold it, too
};

namespace tanada::pool::api {

static_assert(uint32_t(checksum_kind::none) == TND_POOL_CHECKSUM_NONE);
static_assert(uint32_t(checksum_kind::crc32c) == TND_POOL_CHECKSUM_CRC32C);
static_assert(uint32_t(checksum_kind::xxh3) == TND_POOL_CHECKSUM_XXH3);

inline constexpr uint32_t commit_flags = TND_POOL_DURABLE | TND_POOL_VERIFY;
inline constexpr uint32_t put_flags =
    TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE | commit_flags;

template <class Function>
tnd_status catch_errors(Function function) noexcept {
  try {
    return tnd_status(function());
  } catch (const std::bad_alloc &) {
    return tnd_status(status::no_memory);
  } catch (const std::exception &error) {
    return tnd_status(fail(status::io, "{}", error.what()));
  }
}

template <class Function>
tnd_status on_client(tnd_pool *pool, Function function) noexcept {
  return catch_errors([&] {
    if (pool == nullptr)
      return fail(status::invalid, "pool is NULL");
    lock_guard const lock{pool->mutex};
    return function(*pool->client);
  });
}

template <class Function>
tnd_status on_object(tnd_pool_object *object, Function function) noexcept {
  return catch_errors([&] {
    if (object == nullptr)
      return fail(status::invalid, "object is NULL");
    lock_guard const lock{object->pool->mutex};
    if (object->pool->disconnected)
      return fail(status::stale, "the connection has been closed");
    return function(*object->pool->client, *object->object);
  });
}

inline status check_flags(uint32_t flags, uint32_t allowed) {
  return (flags & ~allowed) == 0
             ? status::ok
             : fail(status::invalid, "flags {:#x} are not allowed for this call", flags & ~allowed);
}

// NULL stands for no name, where that is allowed.
inline status check_name(const char *text,
                         const char *argument,
                         bool may_be_null,
                         std::string &name) {
  if (text == nullptr && may_be_null)
    return status::ok;
  if (text == nullptr || *text == 0)
    return fail(status::invalid, "{} is missing", argument);
  name = text;
  if (name.size() <= TND_POOL_NAME_SIZE_MAX)
    return status::ok;
  return fail(status::name_too_long,
              "{} has {} bytes, {} are allowed",
              argument,
              name.size(),
              TND_POOL_NAME_SIZE_MAX);
}

inline status make_commit_terms(uint32_t flags,
                                const tnd_pool_commit_options *options,
                                wire::pool::commit_terms &terms) {
  tnd_pool_commit_options const defaults = TND_POOL_COMMIT_OPTIONS_INIT;
  const tnd_pool_commit_options &chosen = options != nullptr ? *options : defaults;
  if (chosen.struct_size != sizeof chosen)
    return fail(status::invalid, "tnd_pool_commit_options has struct_size {}", chosen.struct_size);
  TND_TRY(check_flags(chosen.flags, commit_flags));
  if (!pool::is_checksum_kind(chosen.checksum_kind) || chosen.has_checksum > 1)
    return fail(status::invalid, "checksum_kind or has_checksum is out of range");
  terms.flags = flags | chosen.flags;
  terms.checksum_kind = chosen.checksum_kind;
  terms.has_checksum = uint8_t(chosen.has_checksum);
  terms.checksum = chosen.checksum;
  return status::ok;
}

inline tnd_pool_info info_of(const wire::pool::info &about) {
  return {about.size,
          about.version,
          about.created_ns,
          about.checksum,
          about.checksum_kind,
          about.flags & ~wire::pool::flag_striped};
}

// Checks a memory range of the caller: NULL is allowed only for size 0.
inline status make_memory_range(const void *addr,
                                uint64_t size,
                                uint32_t memory,
                                pool::memory_range &range) {
  if (memory > TND_POOL_MEMORY_DEVICE)
    return fail(status::invalid, "memory {}: neither host nor device", memory);
  if (addr == nullptr && size > 0)
    return fail(status::invalid, "{} bytes at NULL", size);
  range = {const_cast<void *>(addr), memory == TND_POOL_MEMORY_DEVICE};
  return status::ok;
}

}  // namespace tanada::pool::api
