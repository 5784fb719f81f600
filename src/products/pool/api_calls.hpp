// products/pool/api_calls.hpp: what the calls of tanada/pool.h share: the objects behind its
// handles, and checks of what callers give.
#pragma once

#include <tanada/pool.h>

#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "core/base/log.hpp"
#include "products/pool/checksum.hpp"
#include "products/pool/client/client.hpp"

// `of` keeps the client alive for objects that are closed after tnd_pool_disconnect().
struct tnd_pool {
  std::mutex mutex;
  std::unique_ptr<tanada::pool::client> client;
  uint64_t handles = 0;
  bool disconnected = false;
};

struct tnd_pool_object {
  tnd_pool *of;
  std::shared_ptr<tanada::pool::open_object> object;  // requests under way have it, too
};

namespace tanada::pool::api {

inline constexpr uint32_t commit_flags = TND_POOL_DURABLE | TND_POOL_VERIFY;
inline constexpr uint32_t put_flags =
    TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE | commit_flags;

template <class Function>
tnd_status fenced(Function function) noexcept {
  try {
    return tnd_status(function());
  } catch (const std::bad_alloc &) {
    return tnd_status(status::no_memory);
  } catch (const std::exception &error) {
    return tnd_status(fail(status::io, "%s", error.what()));
  }
}

template <class Function>
tnd_status on_client(tnd_pool *pool, Function function) noexcept {
  return fenced([&] {
    if (pool == nullptr)
      return fail(status::invalid, "pool is NULL");
    std::lock_guard lock{pool->mutex};
    return function(*pool->client);
  });
}

template <class Function>
tnd_status on_object(tnd_pool_object *object, Function function) noexcept {
  return fenced([&] {
    if (object == nullptr)
      return fail(status::invalid, "object is NULL");
    std::lock_guard lock{object->of->mutex};
    if (object->of->disconnected)
      return fail(status::stale, "the connection has been closed");
    return function(*object->of->client, *object->object);
  });
}

inline status flags_ok(uint32_t flags, uint32_t allowed) {
  return (flags & ~allowed) == 0
             ? status::ok
             : fail(status::invalid, "flags %#x: unknown here", flags & ~allowed);
}

// NULL is none, where that is allowed.
inline status name_of(const char *text, const char *what, bool may_be_none, std::string &name) {
  if (text == nullptr && may_be_none)
    return status::ok;
  if (text == nullptr || *text == 0)
    return fail(status::invalid, "%s is missing", what);
  name = text;
  if (name.size() <= TND_POOL_NAME_SIZE_MAX)
    return status::ok;
  return fail(status::name_too_long, "%s has %zu bytes, %d are allowed", what, name.size(),
              TND_POOL_NAME_SIZE_MAX);
}

inline status terms_of(uint32_t flags, const tnd_pool_commit_options *options,
                       wire::pool::commit_terms &terms) {
  tnd_pool_commit_options const none = TND_POOL_COMMIT_OPTIONS_INIT;
  const tnd_pool_commit_options &wanted = options != nullptr ? *options : none;
  if (wanted.struct_size != sizeof wanted)
    return fail(status::invalid, "tnd_pool_commit_options has struct_size %u", wanted.struct_size);
  TND_TRY(flags_ok(wanted.flags, commit_flags));
  if (!pool::is_checksum_kind(wanted.checksum_kind) || wanted.has_checksum > 1)
    return fail(status::invalid, "no such checksum");
  terms.flags = flags | wanted.flags;
  terms.checksum_kind = wanted.checksum_kind;
  terms.has_checksum = uint8_t(wanted.has_checksum);
  terms.checksum = wanted.checksum;
  return status::ok;
}

inline tnd_pool_info info_of(const wire::pool::info &about) {
  return {about.size,     about.version,       about.created_ns,
          about.checksum, about.checksum_kind, about.flags};
}

// A range of the caller's: NULL only where nothing is to be moved.
inline status memory_of(const void *addr, uint64_t size, uint32_t memory,
                        pool::memory_range &range) {
  if (memory > TND_POOL_MEMORY_DEVICE)
    return fail(status::invalid, "memory %u: neither host nor device", memory);
  if (addr == nullptr && size > 0)
    return fail(status::invalid, "%llu bytes at NULL", static_cast<unsigned long long>(size));
  range = {const_cast<void *>(addr), memory == TND_POOL_MEMORY_DEVICE};
  return status::ok;
}

}  // namespace tanada::pool::api
