// Objects of tanada/pool.h: open, read, written, committed.
#include "products/pool/api_calls.hpp"

using namespace tanada;
using namespace tanada::pool::api;
using pool::open_object;

namespace {

constexpr uint32_t create_flags =
    TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_EXCLUSIVE | TND_POOL_KEEP;

tnd_pool_box row(uint64_t offset, uint64_t size) {
  return {offset, size, {1, 1}, {0, 0}, {0, 0}};
}

tnd_status give(tnd_pool *pool, tnd_pool_object **object, open_object &&made) {
  *object = new tnd_pool_object{pool, std::make_shared<open_object>(std::move(made))};
  pool->handles++;
  return TND_OK;
}

}  // namespace

tnd_status tnd_pool_create(tnd_pool *pool, const char *name, uint64_t size, uint32_t flags,
                           const char *set, tnd_pool_object **object) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted, in_set;
    if (object == nullptr)
      return fail(status::invalid, "object is NULL");
    TND_TRY(name_of(name, "name", false, wanted));
    TND_TRY(name_of(set, "set", true, in_set));
    TND_TRY(flags_ok(flags, create_flags));
    open_object made;
    TND_TRY(client.create(wanted, size, flags, in_set, made));
    return status(give(pool, object, std::move(made)));
  });
}

tnd_status tnd_pool_open(tnd_pool *pool, const char *name, uint64_t version,
                         tnd_pool_object **object) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string wanted;
    if (object == nullptr)
      return fail(status::invalid, "object is NULL");
    TND_TRY(name_of(name, "name", false, wanted));
    open_object made;
    TND_TRY(client.open(wanted, version, made));
    return status(give(pool, object, std::move(made)));
  });
}

void tnd_pool_close(tnd_pool_object *object) noexcept {
  if (object == nullptr)
    return;
  tnd_pool *const pool = object->of;
  bool last = false;
  (void)on_client(pool, [&](pool::client &client) {
    last = --pool->handles == 0 && pool->disconnected;
    client.close(*object->object);
    return status::ok;
  });
  delete object;
  if (last)
    delete pool;
}

tnd_status tnd_pool_get_info(tnd_pool_object *object, tnd_pool_info *info) noexcept {
  return on_object(object, [&](pool::client &, open_object &which) {
    if (info == nullptr)
      return fail(status::invalid, "info is NULL");
    *info = info_of(which.about);
    return status::ok;
  });
}

tnd_status tnd_pool_write(tnd_pool_object *object, uint64_t offset, const void *source,
                          uint64_t size, uint32_t memory) noexcept {
  tnd_pool_box const box = row(offset, size);
  return tnd_pool_write_box(object, &box, source, memory);
}

tnd_status tnd_pool_write_box(tnd_pool_object *object, const tnd_pool_box *box, const void *source,
                              uint32_t memory) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    pool::memory_range range{};
    if (box == nullptr)
      return fail(status::invalid, "box is NULL");
    TND_TRY(memory_of(source, box->size, memory, range));
    return client.write(which, *box, range);
  });
}

tnd_status tnd_pool_read(tnd_pool_object *object, uint64_t offset, void *target, uint64_t size,
                         uint32_t memory, uint64_t *read_size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    pool::memory_range range{};
    uint64_t moved = 0;
    TND_TRY(memory_of(target, size, memory, range));
    TND_TRY(client.read_some(which, offset, size, range, moved));
    if (read_size != nullptr)
      *read_size = moved;
    return read_size != nullptr || moved == size ? status::ok : status::range;
  });
}

tnd_status tnd_pool_read_box(tnd_pool_object *object, const tnd_pool_box *box, void *target,
                             uint32_t memory) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    pool::memory_range range{};
    if (box == nullptr)
      return fail(status::invalid, "box is NULL");
    TND_TRY(memory_of(target, box->size, memory, range));
    return client.read(which, *box, range);
  });
}

tnd_status tnd_pool_resize(tnd_pool_object *object, uint64_t size) noexcept {
  return on_object(
      object, [&](pool::client &client, open_object &which) { return client.resize(which, size); });
}

tnd_status tnd_pool_map(tnd_pool_object *object, const void **addr, uint64_t *size) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    if (addr == nullptr || size == nullptr)
      return fail(status::invalid, "addr or size is NULL");
    return client.map(which, *addr, *size);
  });
}

tnd_status tnd_pool_commit(tnd_pool_object *object, const tnd_pool_commit_options *options,
                           uint64_t *version) noexcept {
  return on_object(object, [&](pool::client &client, open_object &which) {
    wire::pool::commit_terms terms;
    uint64_t made = 0;
    TND_TRY(terms_of(0, options, terms));
    TND_TRY(client.commit(which, terms, made));
    if (version != nullptr)
      *version = made;
    return status::ok;
  });
}

tnd_status tnd_pool_set_commit(tnd_pool *pool, const char *set, uint64_t count,
                               uint32_t flags) noexcept {
  return on_client(pool, [&](pool::client &client) {
    std::string name;
    TND_TRY(name_of(set, "set", false, name));
    TND_TRY(flags_ok(flags, TND_POOL_DURABLE));
    return client.set_commit(name, count, flags);
  });
}
