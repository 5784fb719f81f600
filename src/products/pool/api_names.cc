// The calls of tanada/pool.h without handles: whole objects and names, and asynchronous requests.
#include "products/pool/api_calls.hpp"

using namespace tanada;
using namespace tanada::pool::api;

tnd_status tnd_pool_put(tnd_pool *pool,
                        const char *name,
                        const void *source,
                        uint64_t size,
                        uint32_t flags,
                        const tnd_pool_commit_options *options) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string checked_name;
    pool::memory_range range{};
    wire::pool::commit_terms terms;
    TND_TRY(check_name(name, "name", false, checked_name));
    TND_TRY(check_flags(flags, put_flags));
    TND_TRY(make_memory_range(source, size, TND_POOL_MEMORY_HOST, range));
    TND_TRY(make_commit_terms(flags, options, terms));
    return client.put(checked_name, source, size, terms);
  });
}

tnd_status tnd_pool_get(tnd_pool *pool,
                        const char *name,
                        void *target,
                        uint64_t capacity,
                        uint64_t *size,
                        uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string checked_name;
    pool::memory_range range{};
    TND_TRY(check_name(name, "name", false, checked_name));
    TND_TRY(check_flags(flags, TND_POOL_VERIFY));
    TND_TRY(make_memory_range(target, capacity, TND_POOL_MEMORY_HOST, range));
    wire::pool::info about;
    status const code =
        client.get(checked_name, target, capacity, about, (flags & TND_POOL_VERIFY) != 0);
    if (size != nullptr && (code == status::ok || code == status::range))
      *size = about.size;
    return code;
  });
}

tnd_status tnd_pool_stat(tnd_pool *pool,
                         const char *name,
                         uint64_t version,
                         tnd_pool_info *info) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string checked_name;
    wire::pool::info about;
    if (info == nullptr)
      return fail(status::invalid, "info is NULL");
    TND_TRY(check_name(name, "name", false, checked_name));
    TND_TRY(client.stat(checked_name, version, about));
    *info = info_of(about);
    return status::ok;
  });
}

tnd_status tnd_pool_list(tnd_pool *pool,
                         const char *prefix,
                         tnd_pool_list_entry entry,
                         void *context) noexcept {
  return tnd_pool_list_delimited(pool, prefix, "", entry, context);
}

tnd_status tnd_pool_list_delimited(tnd_pool *pool,
                                   const char *prefix,
                                   const char *delimiter,
                                   tnd_pool_list_entry entry,
                                   void *context) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (prefix == nullptr || delimiter == nullptr || entry == nullptr)
      return fail(status::invalid, "prefix, delimiter or entry is NULL");
    if (std::strlen(prefix) > TND_POOL_NAME_SIZE_MAX ||
        std::strlen(delimiter) > TND_POOL_NAME_SIZE_MAX)
      return status::name_too_long;
    for (wire::pool::list_request request{prefix, {}, delimiter};;) {
      wire::pool::list_reply page;
      TND_TRY(client.list_some(request, page));
      for (auto const &item : page.entries) {
        tnd_pool_info const about = info_of(item.object_info);
        if (entry(context, item.name.c_str(), item.is_prefix ? nullptr : &about) != 0)
          return status::ok;
      }
      if (!page.more || page.entries.empty())
        return status::ok;
      request.after = page.entries.back().name;
    }
  });
}

tnd_status tnd_pool_list_namespaces(tnd_pool *pool,
                                    const char *only,
                                    tnd_pool_namespace_entry entry,
                                    void *context) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (entry == nullptr)
      return fail(status::invalid, "entry is NULL");
    std::string checked_name;
    if (only != nullptr)
      TND_TRY(check_name(only, "only", false, checked_name));
    for (std::string after;;) {
      wire::pool::namespaces_reply page;
      TND_TRY(client.list_namespaces_some(checked_name, after, page));
      for (auto const &item : page.entries) {
        tnd_pool_namespace_info const about{sizeof about,
                                            0,
                                            item.object_count,
                                            item.used,
                                            item.owned,
                                            item.quota,
                                            item.segment_count};
        if (entry(context, item.namespace_name.c_str(), &about) != 0)
          return status::ok;
      }
      if (!page.more || page.entries.empty())
        return status::ok;
      after = page.entries.back().namespace_name;
    }
  });
}

tnd_status tnd_pool_rename(tnd_pool *pool,
                           const char *name,
                           const char *new_name,
                           uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string old_name, changed_name;
    TND_TRY(check_name(name, "name", false, old_name));
    TND_TRY(check_name(new_name, "new_name", false, changed_name));
    TND_TRY(check_flags(flags, TND_POOL_EXCLUSIVE | TND_POOL_DURABLE));
    return client.rename(old_name, changed_name, flags);
  });
}

tnd_status tnd_pool_remove(tnd_pool *pool, const char *name, uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string checked_name;
    TND_TRY(check_name(name, "name", false, checked_name));
    TND_TRY(check_flags(flags, TND_POOL_DURABLE));
    return client.remove(checked_name, flags);
  });
}

tnd_status tnd_pool_set_flags(tnd_pool *pool, const char *name, uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string checked_name;
    TND_TRY(check_name(name, "name", false, checked_name));
    TND_TRY(check_flags(flags, TND_POOL_EVICTABLE | TND_POOL_PINNED));
    return client.set_flags(checked_name, flags);
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
      return fail(status::invalid, "request of kind {}", request->kind);
    if (named)
      TND_TRY(check_name(request->name, "name", false, name));
    else if (request->object == nullptr || request->object->pool != pool)
      return fail(status::invalid, "object is NULL or another connection's");
    TND_TRY(check_flags(request->flags,
                        request->kind == TND_POOL_REQUEST_PUT      ? put_flags
                        : request->kind == TND_POOL_REQUEST_COMMIT ? commit_flags
                                                                   : 0));
    if (!pool::is_checksum_kind(request->checksum_kind))
      return fail(status::invalid, "checksum_kind is out of range");
    if (request->kind != TND_POOL_REQUEST_COMMIT)
      TND_TRY(make_memory_range(request->memory, request->size, TND_POOL_MEMORY_HOST, range));
    return client.post(*request, named ? nullptr : request->object->object);
  });
}

tnd_status tnd_pool_poll(tnd_pool *pool,
                         tnd_pool_completion *completions,
                         uint32_t capacity,
                         uint64_t timeout_ns,
                         uint32_t *count) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (completions == nullptr || capacity == 0 || count == nullptr)
      return fail(status::invalid, "completions or count is NULL, or capacity 0");
    client.poll({completions, capacity}, timeout_ns, *count);
    return status::ok;
  });
}
