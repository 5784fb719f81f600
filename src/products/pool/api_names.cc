// tanada/pool.h without handles: whole objects by their names, and names; requests that complete
// later.
#include "products/pool/api_calls.hpp"

using namespace tanada;
using namespace tanada::pool::api;

tnd_status tnd_pool_put(tnd_pool *pool, const char *name, const void *source, uint64_t size,
                        uint32_t flags, const tnd_pool_commit_options *options) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    pool::memory_range range{};
    wire::pool::commit_terms terms;
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(flags_ok(flags, put_flags));
    TND_TRY(memory_of(source, size, TND_POOL_MEMORY_HOST, range));
    TND_TRY(terms_of(flags, options, terms));
    return client.put(wanted, source, size, terms);
  });
}

tnd_status tnd_pool_get(tnd_pool *pool, const char *name, void *target, uint64_t capacity,
                        uint64_t *size, uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    pool::memory_range range{};
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(flags_ok(flags, TND_POOL_VERIFY));
    TND_TRY(memory_of(target, capacity, TND_POOL_MEMORY_HOST, range));
    wire::pool::info about;
    status const code = client.get(wanted, target, capacity, about, (flags & TND_POOL_VERIFY) != 0);
    if (size != nullptr && (code == status::ok || code == status::range))
      *size = about.size;
    return code;
  });
}

tnd_status tnd_pool_stat(tnd_pool *pool, const char *name, uint64_t version,
                         tnd_pool_info *info) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    wire::pool::info about;
    if (info == nullptr)
      return fail(status::invalid, "info is NULL");
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(client.stat(wanted, version, about));
    *info = info_of(about);
    return status::ok;
  });
}

tnd_status tnd_pool_list(tnd_pool *pool, const char *prefix, tnd_pool_list_entry entry,
                         void *context) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (prefix == nullptr || entry == nullptr)
      return fail(status::invalid, "prefix or entry is NULL");
    if (std::strlen(prefix) > TND_POOL_NAME_SIZE_MAX)
      return status::name_too_long;
    for (std::string after;;) {
      wire::pool::list_reply found;
      TND_TRY(client.list_some(prefix, after, found));
      for (auto const &one : found.entries) {
        tnd_pool_info const about = info_of(one.about);
        if (entry(context, one.name.c_str(), &about) != 0)
          return status::ok;
      }
      if (!found.more || found.entries.empty())
        return status::ok;
      after = found.entries.back().name;
    }
  });
}

tnd_status tnd_pool_list_namespaces(tnd_pool *pool, const char *only,
                                    tnd_pool_namespace_entry entry, void *context) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (entry == nullptr)
      return fail(status::invalid, "entry is NULL");
    std::string wanted;
    if (only != nullptr)
      TND_TRY(name_of(only, "only", false, wanted));
    for (std::string after;;) {
      wire::pool::spaces_reply found;
      TND_TRY(client.spaces_some(wanted, after, found));
      for (auto const &one : found.entries) {
        tnd_pool_namespace_info const about{sizeof about, 0,         one.object_count, one.used,
                                            one.owned,    one.quota, one.segment_count};
        if (entry(context, one.space.c_str(), &about) != 0)
          return status::ok;
      }
      if (!found.more || found.entries.empty())
        return status::ok;
      after = found.entries.back().space;
    }
  });
}

tnd_status tnd_pool_rename(tnd_pool *pool, const char *name, const char *new_name,
                           uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string from, to;
    TND_TRY(name_of(name, "name", false, from));
    TND_TRY(name_of(new_name, "new_name", false, to));
    TND_TRY(flags_ok(flags, TND_POOL_EXCLUSIVE | TND_POOL_DURABLE));
    return client.rename(from, to, flags);
  });
}

tnd_status tnd_pool_remove(tnd_pool *pool, const char *name, uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(flags_ok(flags, TND_POOL_DURABLE));
    return client.remove(wanted, flags);
  });
}

tnd_status tnd_pool_set_flags(tnd_pool *pool, const char *name, uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(flags_ok(flags, TND_POOL_EVICTABLE | TND_POOL_PINNED));
    return client.set_flags(wanted, flags);
  });
}

tnd_status tnd_pool_post(tnd_pool *pool, const tnd_pool_request *request) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (request == nullptr || request->struct_size != sizeof *request)
      return fail(status::invalid, "request is NULL or of another size");
    bool const named =
        request->kind == TND_POOL_REQUEST_PUT || request->kind == TND_POOL_REQUEST_GET;
    std::string name;
    pool::memory_range range{};
    if (request->kind > TND_POOL_REQUEST_COMMIT)
      return fail(status::invalid, "request of kind %u", request->kind);
    if (named)
      TND_TRY(name_of(request->name, "name", false, name));
    else if (request->object == nullptr || request->object->of != pool)
      return fail(status::invalid, "object is NULL or another connection's");
    TND_TRY(flags_ok(request->flags, request->kind == TND_POOL_REQUEST_PUT      ? put_flags
                                     : request->kind == TND_POOL_REQUEST_COMMIT ? commit_flags
                                                                                : 0));
    if (!pool::is_checksum_kind(request->checksum_kind))
      return fail(status::invalid, "no such checksum");
    if (request->kind != TND_POOL_REQUEST_COMMIT)
      TND_TRY(memory_of(request->memory, request->size, TND_POOL_MEMORY_HOST, range));
    return client.post(*request, named ? nullptr : request->object->object);
  });
}

tnd_status tnd_pool_poll(tnd_pool *pool, tnd_pool_completion *completions, uint32_t capacity,
                         uint64_t timeout_ns, uint32_t *count) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (completions == nullptr || capacity == 0 || count == nullptr)
      return fail(status::invalid, "completions or count is NULL, or capacity 0");
    client.poll({completions, capacity}, timeout_ns, *count);
    return status::ok;
  });
}
