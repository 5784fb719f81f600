// The calls of tanada/pool.h about a cluster's servers.
#include "products/pool/api_calls.hpp"

using namespace tanada;
using namespace tanada::pool::api;

tnd_status tnd_pool_get_cluster(tnd_pool *pool,
                                tnd_pool_cluster *cluster,
                                tnd_pool_server_entry entry,
                                void *context) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (cluster != nullptr && cluster->struct_size != sizeof *cluster)
      return fail(status::invalid, "tnd_pool_cluster has struct_size {}", cluster->struct_size);
    wire::pool::cluster_status_reply reply;
    TND_TRY(client.cluster_status(reply));
    if (cluster != nullptr) {
      *cluster = {sizeof *cluster,
                  reply.copies,
                  reply.epoch,
                  reply.partition_count,
                  reply.missing_count,
                  reply.offline_count,
                  reply.lost_count,
                  reply.silence_ns};
    }
    for (const wire::pool::cluster_server &server : reply.servers) {
      tnd_pool_server const described{sizeof described,
                                      server.state,
                                      server.name.c_str(),
                                      server.address.c_str(),
                                      server.domain.c_str(),
                                      server.primary_count,
                                      server.copy_count,
                                      server.joining_count,
                                      server.fragment_count,
                                      server.problem.c_str()};
      if (entry != nullptr && entry(context, &described) != 0)
        break;
    }
    return status::ok;
  });
}

tnd_status tnd_pool_set_draining(tnd_pool *pool, const char *server, uint32_t draining) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (draining > 1)
      return fail(status::invalid, "draining is 0 or 1");
    std::string name;
    TND_TRY(check_name(server, "server", false, name));
    return client.set_draining(name, draining != 0);
  });
}

tnd_status tnd_pool_remove_server(tnd_pool *pool, const char *server, uint32_t force) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (force > 1)
      return fail(status::invalid, "force is 0 or 1");
    std::string name;
    TND_TRY(check_name(server, "server", false, name));
    return client.remove_server(name, force != 0);
  });
}

tnd_status tnd_pool_clear_losses(tnd_pool *pool) noexcept {
  return on_client(pool, [&](pool::client &client) { return client.clear_losses(); });
}

tnd_status tnd_pool_set_erasure(tnd_pool *pool,
                                const char *namespace_name,
                                uint32_t data_count,
                                uint32_t parity_count) noexcept {
  return on_client(pool, [&](pool::client &client) {
    constexpr uint32_t count_max = 255;  // of the protocol; the server has narrower limits
    if (data_count > count_max || parity_count > count_max)
      return fail(status::invalid, "an erasure code has few fragments");
    wire::pool::erasure_setting setting;
    TND_TRY(check_name(namespace_name, "namespace", false, setting.namespace_name));
    setting.scheme = {uint8_t(data_count), uint8_t(parity_count)};
    return client.set_erasure(setting);
  });
}

tnd_status tnd_pool_list_erasure(tnd_pool *pool,
                                 tnd_pool_erasure_entry entry,
                                 void *context) noexcept {
  return on_client(pool, [&](pool::client &client) {
    if (entry == nullptr)
      return fail(status::invalid, "no function is given");
    wire::pool::cluster_status_reply reply;
    TND_TRY(client.cluster_status(reply));
    for (const wire::pool::erasure_setting &setting : reply.erasure) {
      tnd_pool_erasure const described{sizeof described,
                                       setting.scheme.data_count,
                                       setting.scheme.parity_count,
                                       0,
                                       setting.namespace_name.c_str()};
      if (entry(context, &described) != 0)
        break;
    }
    return status::ok;
  });
}
