// The object calls of tanada/pool.h: open, read, write and commit.
#include "products/pool/api_calls.hpp"

using namespace tanada;
using namespace tanada::pool::api;
using pool::open_object;

namespace {

constexpr uint32_t create_flags =
    TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE | TND_POOL_KEEP;

tnd_pool_box single_row(uint64_t offset, uint64_t size) {
  return {offset, size, {1, 1}, {0, 0}, {0, 0}};
}

tnd_status make_handle(tnd_pool *pool, tnd_pool_object **object, open_object &&opened) {
  pool->mutex.assert_held();
  *object = new tnd_pool_object{pool, std::make_shared<open_object>(std::move(opened))};
  pool->handles++;
  return TND_OK;
}

}  // namespace

tnd_status tnd_pool_create(tnd_pool *pool,
                           const char *name,
                           uint64_t size,
                           uint32_t flags,
                           const char *set,
                           tnd_pool_object **object) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted, in_set;
    if (object == nullptr)
      return fail(status::invalid, "object is NULL");
    TND_TRY(check_name(name, "name", false, wanted));
    TND_TRY(check_name(set, "set", true, in_set));
    TND_TRY(check_flags(flags, create_flags));
    open_object created;
    TND_TRY(client.create(wanted, size, flags, in_set, created));
    return status(make_handle(pool, object, std::move(created)));
  });
}

tnd_status tnd_pool_open(tnd_pool *pool,
                         const char *name,
                         uint64_t version,
                         tnd_pool_object **object) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    if (object == nullptr)
      return fail(status::invalid, "object is NULL");
    TND_TRY(check_name(name, "name", false, wanted));
    open_object opened;
    TND_TRY(client.open(wanted, version, opened));
    return status(make_handle(pool, object, std::move(opened)));
  });
}

void tnd_pool_close(tnd_pool_object *object) noexcept {
  if (object == nullptr)
    return;
  tnd_pool *const pool = object->pool;
  bool last = false;
  (void)on_client(pool, [&](pool::client &client) {
    pool->mutex.assert_held();
    TND_ASSERT(pool->handles != 0);
    last = --pool->handles == 0 && pool->disconnected;
    client.close(*object->object);
    return status::ok;
  });
  delete object;
  if (last)
    delete pool;
}

tnd_status tnd_pool_get_info(tnd_pool_object *object, tnd_pool_info *info) noexcept {
  return on_object(object, [&](pool::client &, open_object &opened) {
    if (info == nullptr)
      return fail(status::invalid, "info is NULL");
    *info = info_of(opened.about);
    return status::ok;
  });
}

tnd_status tnd_pool_write(tnd_pool_object *object,
                          uint64_t offset,
                          const void *source,
                          uint64_t size,
                          uint32_t memory) noexcept {
  tnd_pool_box const box = single_row(offset, size);
  return tnd_pool_write_box(object, &box, source, memory);
}

tnd_status tnd_pool_write_box(tnd_pool_object *object,
                              const tnd_pool_box *box,
                              const void *source,
                              uint32_t memory) noexcept {
  return on_object(object, [&](pool::client &client, open_object &opened) {
    pool::memory_range range{};
    if (box == nullptr)
      return fail(status::invalid, "box is NULL");
    TND_TRY(make_memory_range(source, box->size, memory, range));
    return client.write(opened, *box, range);
  });
}

tnd_status tnd_pool_read(tnd_pool_object *object,
                         uint64_t offset,
                         void *target,
                         uint64_t size,
                         uint32_t memory,
                         uint64_t *read_size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &opened) {
    pool::memory_range range{};
    uint64_t moved = 0;
    TND_TRY(make_memory_range(target, size, memory, range));
    TND_TRY(client.read_some(opened, offset, size, range, moved));
    if (read_size != nullptr)
      *read_size = moved;
    return read_size != nullptr || moved == size ? status::ok : status::range;
  });
}

tnd_status tnd_pool_read_box(tnd_pool_object *object,
                             const tnd_pool_box *box,
                             void *target,
                             uint32_t memory) noexcept {
  return on_object(object, [&](pool::client &client, open_object &opened) {
    pool::memory_range range{};
    if (box == nullptr)
      return fail(status::invalid, "box is NULL");
    TND_TRY(make_memory_range(target, box->size, memory, range));
    return client.read(opened, *box, range);
  });
}

tnd_status tnd_pool_resize(tnd_pool_object *object, uint64_t size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &opened) {
    return client.resize(opened, size);
  });
}

tnd_status tnd_pool_map(tnd_pool_object *object, const void **addr, uint64_t *size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &opened) {
    if (addr == nullptr || size == nullptr)
      return fail(status::invalid, "addr or size is NULL");
    return client.map(opened, *addr, *size);
  });
}

tnd_status tnd_pool_commit(tnd_pool_object *object,
                           const tnd_pool_commit_options *options,
                           uint64_t *version) noexcept {
  return on_object(object, [&](pool::client &client, open_object &opened) {
    wire::pool::commit_terms terms;
    uint64_t committed_version = 0;
    TND_TRY(make_commit_terms(0, options, terms));
    TND_TRY(client.commit(opened, terms, committed_version));
    if (version != nullptr)
      *version = committed_version;
    return status::ok;
  });
}

tnd_status tnd_pool_set_commit(tnd_pool *pool,
                               const char *set,
                               uint64_t count,
                               uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string name;
    TND_TRY(check_name(set, "set", false, name));
    TND_TRY(check_flags(flags, TND_POOL_DURABLE));
    return client.set_commit(name, count, flags);
  });
}
