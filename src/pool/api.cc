// pool/api.cc: tanada/pool.h over the client.
#include <tanada/pool.h>

#include <cstring>
#include <mutex>
#include <new>

#include "base/config.hpp"
#include "base/log.hpp"
#include "pool/checksum.hpp"
#include "pool/client/client.hpp"

using namespace tanada;
using pool::open_object;

// `of` keeps the client alive for objects that are closed after tnd_pool_disconnect().
struct tnd_pool {
  std::mutex mutex;
  std::unique_ptr<pool::client> client;
  uint64_t handles = 0;
  bool disconnected = false;
};

struct tnd_pool_object {
  tnd_pool *of;
  std::shared_ptr<open_object> object;  // requests under way have it, too
};

namespace {

constexpr uint32_t create_flags = TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE | TND_POOL_KEEP;
constexpr uint32_t commit_flags = TND_POOL_DURABLE | TND_POOL_VERIFY;
constexpr uint32_t put_flags = TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE | commit_flags;

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
    if (pool == nullptr) return fail(status::invalid, "pool is NULL");
    std::lock_guard lock{pool->mutex};
    return function(*pool->client);
  });
}

template <class Function>
tnd_status on_object(tnd_pool_object *object, Function function) noexcept {
  return fenced([&] {
    if (object == nullptr) return fail(status::invalid, "object is NULL");
    std::lock_guard lock{object->of->mutex};
    if (object->of->disconnected) return fail(status::stale, "the connection has been closed");
    return function(*object->of->client, *object->object);
  });
}

status flags_ok(uint32_t flags, uint32_t allowed) {
  return (flags & ~allowed) == 0 ? status::ok : fail(status::invalid, "flags %#x: unknown here", flags & ~allowed);
}

// NULL is none, where that is allowed.
status name_of(const char *text, const char *what, bool may_be_none, std::string &name) {
  if (text == nullptr && may_be_none) return status::ok;
  if (text == nullptr || *text == 0) return fail(status::invalid, "%s is missing", what);
  name = text;
  if (name.size() <= TND_POOL_NAME_SIZE_MAX) return status::ok;
  return fail(status::name_too_long, "%s has %zu bytes, %d are allowed", what, name.size(), TND_POOL_NAME_SIZE_MAX);
}

status settings_of(const tnd_pool_config *given, pool::client_settings &settings) {
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  if (given != nullptr) {
    if (given->struct_size != sizeof config) return fail(status::invalid, "tnd_pool_config has struct_size %u", given->struct_size);
    config = *given;
  }
  TND_TRY(flags_ok(config.flags, 0));
  if (config.shared_memory > 1) return fail(status::invalid, "shared_memory is 0 or 1");
  TND_TRY(environment_duration_ns("TND_POOL_TIMEOUT", config.timeout_ns));
  TND_TRY(environment_count("TND_POOL_SHARED_MEMORY", 0, 1, config.shared_memory));
  TND_TRY(environment_count("TND_POOL_DEVICE_INDEX", 0, 1024, config.device_index));
  const char *key_file = std::getenv("TND_POOL_KEY_FILE");
  if (key_file == nullptr || *key_file == 0) key_file = config.key_file;
  if (key_file != nullptr) {
    auto keys = pool::keys_read(key_file);
    if (!keys.ok()) return keys.error();
    if (keys.value().size() != 1) return fail(status::invalid, "key file %s: a client has one key", key_file);
    settings.with = std::move(keys.value().front());
  }
  const char *fabric = std::getenv("TND_POOL_FABRIC");
  if (fabric == nullptr || *fabric == 0) fabric = config.fabric;
  if (fabric != nullptr) settings.fabric = fabric;
  settings.timeout_ns = config.timeout_ns;
  settings.shared_memory = config.shared_memory != 0;
  settings.device_index = config.device_index;
  return status::ok;
}

status terms_of(uint32_t flags, const tnd_pool_commit_options *options, wire::pool::commit_terms &terms) {
  tnd_pool_commit_options const none = TND_POOL_COMMIT_OPTIONS_INIT;
  const tnd_pool_commit_options &wanted = options != nullptr ? *options : none;
  if (wanted.struct_size != sizeof wanted) return fail(status::invalid, "tnd_pool_commit_options has struct_size %u", wanted.struct_size);
  TND_TRY(flags_ok(wanted.flags, commit_flags));
  if (!pool::is_checksum_kind(wanted.checksum_kind) || wanted.has_checksum > 1) return fail(status::invalid, "no such checksum");
  terms.flags = flags | wanted.flags;
  terms.checksum_kind = wanted.checksum_kind;
  terms.has_checksum = uint8_t(wanted.has_checksum), terms.checksum = wanted.checksum;
  return status::ok;
}

tnd_pool_info info_of(const wire::pool::info &about) {
  return {about.size, about.version, about.created_ns, about.checksum, about.checksum_kind, about.flags};
}

tnd_pool_box row(uint64_t offset, uint64_t size) { return {offset, size, {1, 1}, {0, 0}, {0, 0}}; }

// A range of the caller's: NULL only where nothing is to be moved.
status memory_of(const void *addr, uint64_t size, uint32_t memory, pool::memory_range &range) {
  if (memory > TND_POOL_MEMORY_DEVICE) return fail(status::invalid, "memory %u: neither host nor device", memory);
  if (addr == nullptr && size > 0) return fail(status::invalid, "%llu bytes at NULL", static_cast<unsigned long long>(size));
  range = {const_cast<void *>(addr), memory == TND_POOL_MEMORY_DEVICE};
  return status::ok;
}

// Copy as much of a structure as the caller's has room for.
template <class T>
status fill(T *target, const T &source, size_t smallest) {
  if (target == nullptr || target->struct_size < smallest) return fail(status::invalid, "struct_size is too small");
  uint32_t const size = target->struct_size < sizeof(T) ? target->struct_size : uint32_t(sizeof(T));
  std::memcpy(target, &source, size);
  target->struct_size = size;
  return status::ok;
}

tnd_status give(tnd_pool *pool, tnd_pool_object **object, open_object &&made) {
  *object = new tnd_pool_object{pool, std::make_shared<open_object>(std::move(made))};
  pool->handles++;
  return TND_OK;
}

}  // namespace

tnd_status tnd_pool_connect(const char *url, const tnd_pool_config *config, tnd_pool **made) noexcept {
  return fenced([&] {
    if (url == nullptr || made == nullptr) return fail(status::invalid, "url or pool is NULL");
    auto where = pool::address_parse(url);
    if (!where.ok()) return where.error();
    pool::client_settings settings;
    TND_TRY(settings_of(config, settings));
    auto client = pool::client::connect(where.value(), std::move(settings));
    if (!client.ok()) return client.error();
    *made = new tnd_pool{};
    (*made)->client = std::move(client).value();
    return status::ok;
  });
}

void tnd_pool_disconnect(tnd_pool *pool) noexcept {
  if (pool == nullptr) return;
  bool last = false;
  (void)on_client(pool, [&](pool::client &client) {
    pool->disconnected = true;
    last = pool->handles == 0;
    client.disconnect();
    return status::ok;
  });
  if (last) delete pool;
}

tnd_status tnd_pool_get_connection(tnd_pool *pool, tnd_pool_connection *connection) noexcept {
  return on_client(pool, [&](pool::client &client) {
    tnd_pool_connection all{};
    all.struct_size = sizeof all;
    TND_TRY(client.ready());
    all.path = client.path();
    all.can_write = client.terms().can_write, all.is_durable = client.terms().is_durable;
    all.sent_size = client.moved().written_size(), all.received_size = client.moved().read_size();
    std::strncpy(all.reason, client.reason().c_str(), sizeof all.reason - 1);
    return fill(connection, all, sizeof all);
  });
}

tnd_status tnd_pool_get_traffic(tnd_pool *pool, tnd_pool_traffic *traffic) noexcept {
  return on_client(pool, [&](pool::client &client) { return fill(traffic, client.moved().all(), sizeof *traffic); });
}

tnd_status tnd_pool_register(tnd_pool *pool, void *addr, uint64_t size, uint32_t memory) noexcept {
  return on_client(pool, [&](pool::client &client) {
    pool::memory_range range{};
    TND_TRY(memory_of(addr, size, memory, range));
    if (size == 0) return fail(status::invalid, "no memory");
    return client.keep_registered(addr, size, range.on_device);
  });
}

tnd_status tnd_pool_unregister(tnd_pool *pool, void *addr) noexcept {
  return on_client(pool, [&](pool::client &client) { return client.forget_registered(addr); });
}

tnd_status tnd_pool_get_statistics(tnd_pool *pool, tnd_pool_statistics *statistics) noexcept {
  return on_client(pool, [&](pool::client &client) {
    wire::pool::statistics_reply in;
    TND_TRY(client.statistics(in));
    tnd_pool_statistics const all{sizeof all, uint32_t(in.client_count), in.capacity, in.used, in.object_count, in.space_used,
                                  in.space_object_count, in.space_quota, in.written_size, in.read_size, in.commits, in.opens,
                                  in.evictions, in.errors, in.uptime_ns};
    return fill(statistics, all, sizeof all);
  });
}

tnd_status tnd_pool_create(tnd_pool *pool, const char *name, uint64_t size, uint32_t flags, const char *set,
                           tnd_pool_object **object) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted, in_set;
    if (object == nullptr) return fail(status::invalid, "object is NULL");
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(name_of(set, "set", true, in_set));
    TND_TRY(flags_ok(flags, create_flags));
    open_object made;
    TND_TRY(client.create(wanted, size, flags, in_set, made));
    return status(give(pool, object, std::move(made)));
  });
}

tnd_status tnd_pool_open(tnd_pool *pool, const char *name, uint64_t version, tnd_pool_object **object) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    if (object == nullptr) return fail(status::invalid, "object is NULL");
    TND_TRY(name_of(name, "name", false, wanted));
    open_object made;
    TND_TRY(client.open(wanted, version, made));
    return status(give(pool, object, std::move(made)));
  });
}

void tnd_pool_close(tnd_pool_object *object) noexcept {
  if (object == nullptr) return;
  tnd_pool *const pool = object->of;
  bool last = false;
  (void)on_client(pool, [&](pool::client &client) {
    last = --pool->handles == 0 && pool->disconnected;
    client.close(*object->object);
    return status::ok;
  });
  delete object;
  if (last) delete pool;
}

tnd_status tnd_pool_get_info(tnd_pool_object *object, tnd_pool_info *info) noexcept {
  return on_object(object, [&](pool::client &, open_object &which) {
    if (info == nullptr) return fail(status::invalid, "info is NULL");
    *info = info_of(which.about);
    return status::ok;
  });
}

tnd_status tnd_pool_write(tnd_pool_object *object, uint64_t offset, const void *source, uint64_t size, uint32_t memory) noexcept {
  tnd_pool_box const box = row(offset, size);
  return tnd_pool_write_box(object, &box, source, memory);
}

tnd_status tnd_pool_write_box(tnd_pool_object *object, const tnd_pool_box *box, const void *source, uint32_t memory) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    pool::memory_range range{};
    if (box == nullptr) return fail(status::invalid, "box is NULL");
    TND_TRY(memory_of(source, box->size, memory, range));
    return client.write(which, *box, range);
  });
}

tnd_status tnd_pool_read(tnd_pool_object *object, uint64_t offset, void *target, uint64_t size, uint32_t memory,
                         uint64_t *read_size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    pool::memory_range range{};
    uint64_t moved = 0;
    TND_TRY(memory_of(target, size, memory, range));
    TND_TRY(client.read_some(which, offset, size, range, moved));
    if (read_size != nullptr) *read_size = moved;
    return read_size != nullptr || moved == size ? status::ok : status::range;
  });
}

tnd_status tnd_pool_read_box(tnd_pool_object *object, const tnd_pool_box *box, void *target, uint32_t memory) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    pool::memory_range range{};
    if (box == nullptr) return fail(status::invalid, "box is NULL");
    TND_TRY(memory_of(target, box->size, memory, range));
    return client.read(which, *box, range);
  });
}

tnd_status tnd_pool_resize(tnd_pool_object *object, uint64_t size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) { return client.resize(which, size); });
}

tnd_status tnd_pool_map(tnd_pool_object *object, const void **addr, uint64_t *size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    if (addr == nullptr || size == nullptr) return fail(status::invalid, "addr or size is NULL");
    return client.map(which, *addr, *size);
  });
}

tnd_status tnd_pool_commit(tnd_pool_object *object, const tnd_pool_commit_options *options, uint64_t *version) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    wire::pool::commit_terms terms;
    uint64_t made = 0;
    TND_TRY(terms_of(0, options, terms));
    TND_TRY(client.commit(which, terms, made));
    if (version != nullptr) *version = made;
    return status::ok;
  });
}

tnd_status tnd_pool_set_commit(tnd_pool *pool, const char *set, uint64_t count, uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string name;
    TND_TRY(name_of(set, "set", false, name));
    TND_TRY(flags_ok(flags, TND_POOL_DURABLE));
    return client.set_commit(name, count, flags);
  });
}

tnd_status tnd_pool_put(tnd_pool *pool, const char *name, const void *source, uint64_t size, uint32_t flags,
                        const tnd_pool_commit_options *options) noexcept {
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

tnd_status tnd_pool_get(tnd_pool *pool, const char *name, void *target, uint64_t capacity, uint64_t *size,
                        uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    pool::memory_range range{};
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(flags_ok(flags, TND_POOL_VERIFY));
    TND_TRY(memory_of(target, capacity, TND_POOL_MEMORY_HOST, range));
    wire::pool::info about;
    status const code = client.get(wanted, target, capacity, about, (flags & TND_POOL_VERIFY) != 0);
    if (size != nullptr && (code == status::ok || code == status::range)) *size = about.size;
    return code;
  });
}

tnd_status tnd_pool_stat(tnd_pool *pool, const char *name, uint64_t version, tnd_pool_info *info) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    wire::pool::info about;
    if (info == nullptr) return fail(status::invalid, "info is NULL");
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(client.stat(wanted, version, about));
    *info = info_of(about);
    return status::ok;
  });
}

tnd_status tnd_pool_list(tnd_pool *pool, const char *prefix, tnd_pool_list_entry entry, void *context) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (prefix == nullptr || entry == nullptr) return fail(status::invalid, "prefix or entry is NULL");
    if (std::strlen(prefix) > TND_POOL_NAME_SIZE_MAX) return status::name_too_long;
    for (std::string after;;) {
      wire::pool::list_reply found;
      TND_TRY(client.list_some(prefix, after, found));
      for (auto const &one : found.entries) {
        tnd_pool_info const about = info_of(one.about);
        if (entry(context, one.name.c_str(), &about) != 0) return status::ok;
      }
      if (!found.more || found.entries.empty()) return status::ok;
      after = found.entries.back().name;
    }
  });
}

tnd_status tnd_pool_rename(tnd_pool *pool, const char *name, const char *new_name, uint32_t flags) noexcept {
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
    if (request == nullptr || request->struct_size != sizeof *request) return fail(status::invalid, "request is NULL or of another size");
    bool const named = request->kind == TND_POOL_REQUEST_PUT || request->kind == TND_POOL_REQUEST_GET;
    std::string name;
    pool::memory_range range{};
    if (request->kind > TND_POOL_REQUEST_COMMIT) return fail(status::invalid, "request of kind %u", request->kind);
    if (named) TND_TRY(name_of(request->name, "name", false, name));
    else if (request->object == nullptr || request->object->of != pool) return fail(status::invalid, "object is NULL or another connection's");
    TND_TRY(flags_ok(request->flags, request->kind == TND_POOL_REQUEST_PUT ? put_flags
                                     : request->kind == TND_POOL_REQUEST_COMMIT ? commit_flags : 0));
    if (!pool::is_checksum_kind(request->checksum_kind)) return fail(status::invalid, "no such checksum");
    if (request->kind != TND_POOL_REQUEST_COMMIT) TND_TRY(memory_of(request->memory, request->size, TND_POOL_MEMORY_HOST, range));
    return client.post(*request, named ? nullptr : request->object->object);
  });
}

tnd_status tnd_pool_poll(tnd_pool *pool, tnd_pool_completion *completions, uint32_t capacity, uint64_t timeout_ns,
                         uint32_t *count) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (completions == nullptr || capacity == 0 || count == nullptr) return fail(status::invalid, "completions or count is NULL, or capacity 0");
    client.poll({completions, capacity}, timeout_ns, *count);
    return status::ok;
  });
}
