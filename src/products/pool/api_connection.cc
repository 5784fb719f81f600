// The connection calls of tanada/pool.h.
#include <cstdlib>
#include <string_view>

#include "core/base/config.hpp"
#include "core/base/settings.hpp"
#include "products/pool/api_calls.hpp"

using namespace tanada;
using namespace tanada::pool::api;

namespace {

// The variable's value if it is set and not empty, otherwise the fallback.
const char *environment_or(const char *variable, const char *fallback) {
  const char *const value = std::getenv(variable);
  return value != nullptr && *value != 0 ? value : fallback;
}

status apply_environment(tnd_pool_config &config, pool::client_settings &settings) {
  TND_TRY(environment_duration_ns("TND_POOL_TIMEOUT", config.timeout_ns));
  static constexpr std::string_view switches[] = {"off", "on", "0", "1"};
  uint32_t shared_memory = config.shared_memory;
  TND_TRY(environment_choice("TND_POOL_SHARED_MEMORY", switches, shared_memory));
  config.shared_memory = shared_memory % 2;
  static constexpr std::string_view ring_choices[] = {"auto", "off"};
  uint32_t ring_choice = (config.flags & TND_POOL_NO_RING) != 0 ? 1 : 0;
  TND_TRY(environment_choice("TND_POOL_RING", ring_choices, ring_choice));
  config.flags = (config.flags & ~uint32_t{TND_POOL_NO_RING}) | ring_choice * TND_POOL_NO_RING;
  TND_TRY(environment_count("TND_POOL_DEVICE_INDEX", 0, 1024, config.device_index));
  TND_TRY(environment_count("TND_POOL_PROTOCOL",
                            wire::pool::protocol_version_min,
                            wire::pool::protocol_version,
                            settings.version));
  config.key_file = environment_or("TND_POOL_KEY_FILE", config.key_file);
  config.fabric = environment_or("TND_POOL_FABRIC", config.fabric);
  return status::ok;
}

status read_client_key(const char *key_file, pool::client_settings &settings) {
  auto keys = pool::keys_read(key_file);
  if (!keys.ok())
    return keys.error();
  if (keys.value().size() != 1)
    return fail(status::invalid, "key file {}: a client has one key", key_file);
  settings.client_key = std::move(keys.value().front());
  return status::ok;
}

status make_settings(const tnd_pool_config *config_in, pool::client_settings &settings) {
  TND_TRY(settings_check());
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  if (config_in != nullptr) {
    if (config_in->struct_size != sizeof config)
      return fail(status::invalid, "tnd_pool_config has struct_size {}", config_in->struct_size);
    config = *config_in;
  }
  TND_TRY(check_flags(config.flags,
                      TND_POOL_NO_NAMESPACE | TND_POOL_NO_RING | TND_POOL_NO_PREPARATION));
  if (config.shared_memory > 1)
    return fail(status::invalid, "shared_memory is 0 or 1");
  TND_TRY(apply_environment(config, settings));
  if (config.key_file != nullptr)
    TND_TRY(read_client_key(config.key_file, settings));
  if (config.fabric != nullptr)
    settings.fabric = config.fabric;
  settings.timeout_ns = config.timeout_ns;
  settings.shared_memory = config.shared_memory != 0;
  settings.rings = (config.flags & TND_POOL_NO_RING) == 0;
  settings.prepares_device = (config.flags & TND_POOL_NO_PREPARATION) == 0;
  settings.device_index = config.device_index;
  return status::ok;
}

// Copies as much of a structure as the caller's version of it holds.
template <class T>
status fill(T *target, const T &source, size_t size_min) {
  if (target == nullptr || target->struct_size < size_min)
    return fail(status::invalid, "struct_size is too small");
  uint32_t const size = target->struct_size < sizeof(T) ? target->struct_size : uint32_t(sizeof(T));
  std::memcpy(target, &source, size);
  target->struct_size = size;
  return status::ok;
}

}  // namespace

tnd_status tnd_pool_connect(const char *url,
                            const tnd_pool_config *config,
                            tnd_pool **pool) noexcept {
  return catch_errors([&] {
    if (url == nullptr || pool == nullptr)
      return fail(status::invalid, "url or pool is NULL");
    bool const may_lack_space = config != nullptr && (config->flags & TND_POOL_NO_NAMESPACE) != 0;
    auto location = pool::address_parse(url, !may_lack_space);
    if (!location.ok())
      return location.error();
    pool::client_settings settings;
    TND_TRY(make_settings(config, settings));
    auto client = pool::client::connect(location.value(), std::move(settings));
    if (!client.ok())
      return client.error();
    *pool = new tnd_pool{std::move(client).value()};
    return status::ok;
  });
}

void tnd_pool_disconnect(tnd_pool *pool) noexcept {
  if (pool == nullptr)
    return;
  bool last = false;
  (void)on_client(pool, [&](pool::client &client) {
    pool->mutex.assert_held();
    pool->disconnected = true;
    last = pool->handles == 0;
    client.disconnect();
    return status::ok;
  });
  if (last)
    delete pool;
}

tnd_status tnd_pool_get_connection(tnd_pool *pool, tnd_pool_connection *connection) noexcept {
  return on_client(pool, [&](pool::client &client) {
    tnd_pool_connection result{};
    result.struct_size = sizeof result;
    TND_TRY(client.ensure_connected(true));
    result.path = client.path();
    result.device_path = client.device_path();
    result.can_write = client.terms().can_write;
    result.is_durable = client.terms().is_durable != 0;
    result.sent_size = client.transfers().written_size();
    result.received_size = client.transfers().read_size();
    std::strncpy(result.reason, client.reason().c_str(), sizeof result.reason - 1);
    return fill(connection, result, offsetof(tnd_pool_connection, device_path));
  });
}

tnd_status tnd_pool_get_traffic(tnd_pool *pool, tnd_pool_traffic *traffic) noexcept {
  return on_client(pool, [&](pool::client &client) {
    return fill(traffic, client.transfers().counters(), sizeof *traffic);
  });
}

tnd_status tnd_pool_register(tnd_pool *pool, void *addr, uint64_t size, uint32_t memory) noexcept {
  return on_client(pool, [&](pool::client &client) {
    pool::memory_range range{};
    TND_TRY(make_memory_range(addr, size, memory, range));
    if (size == 0)
      return fail(status::invalid, "no memory");
    return client.register_memory(addr, size, range.on_device);
  });
}

tnd_status tnd_pool_unregister(tnd_pool *pool, void *addr) noexcept {
  return on_client(pool, [&](pool::client &client) { return client.unregister_memory(addr); });
}

tnd_status tnd_pool_get_statistics(tnd_pool *pool, tnd_pool_statistics *statistics) noexcept {
  return on_client(pool, [&](pool::client &client) {
    wire::pool::statistics_reply answer;
    TND_TRY(client.statistics(answer));
    tnd_pool_statistics const result{sizeof result,
                                     uint32_t(answer.client_count),
                                     answer.capacity,
                                     answer.used,
                                     answer.object_count,
                                     answer.namespace_used,
                                     answer.namespace_object_count,
                                     answer.namespace_quota,
                                     answer.written_size,
                                     answer.read_size,
                                     answer.commits,
                                     answer.opens,
                                     answer.evictions,
                                     answer.errors,
                                     answer.uptime_ns};
    return fill(statistics, result, sizeof result);
  });
}
