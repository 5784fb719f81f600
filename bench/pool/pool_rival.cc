#include <tanada/pool.h>

#include <algorithm>

#include "../common/check.hpp"
#include "pool_daemon.hpp"
#include "rival.hpp"

namespace bench {
namespace {

// Outstanding puts of put_many().
constexpr unsigned depth = 64;

// Larger objects are replaced by their next version, as a file that is rewritten: there may not be
// memory for both.
constexpr uint64_t two_versions_size_max = uint64_t{1} << 30;

class connection final : public plain_client {
 public:
  // Uses the path `wanted`; throws if the connection takes another one. `provider` may be null.
  // `flags` are the connection's.
  connection(const std::string &url, tnd_pool_path wanted, const char *provider, uint32_t flags) {
    tnd_pool_config config = TND_POOL_CONFIG_INIT;
    config.flags = flags;
    // Without shared memory a client of the node uses TCP.
    bool const is_local = wanted == TND_POOL_PATH_SHARED_MEMORY || wanted == TND_POOL_PATH_UNIX;
    config.shared_memory = is_local ? 1 : 0;
    config.fabric = provider;
    check(tnd_pool_connect(url.c_str(), &config, &pool_), "tnd_pool_connect");
    tnd_pool_connection what{};
    what.struct_size = sizeof what;
    tnd_status const code = tnd_pool_get_connection(pool_, &what);
    if (code == TND_OK && what.path == uint32_t(wanted))
      return;
    tnd_pool_disconnect(pool_);
    check(code, "tnd_pool_get_connection");
    throw std::runtime_error("the connection takes path " + std::to_string(what.path) + ": " +
                             what.reason);
  }
  ~connection() override {
    tnd_pool_disconnect(pool_);
  }

  double put_many(const std::string &prefix, const uint8_t *source, double duration_s) override {
    double const start = now_s();
    uint64_t posted = 0, done = 0;
    for (bool going = true; going || done < posted; going = going && now_s() - start < duration_s) {
      for (; going && posted < done + depth; posted++)
        if (!post(prefix + std::to_string(posted % many_keys), source))
          break;
      done += reap();
    }
    return double(done) / (now_s() - start);
  }

 protected:
  void put_once(const std::string &key, const uint8_t *source, uint64_t size) override {
    uint32_t const flags = size > two_versions_size_max ? TND_POOL_EVICTABLE : 0;
    check(tnd_pool_put(pool_, key.c_str(), source, size, flags, nullptr), "tnd_pool_put");
  }
  void get_once(const std::string &key, uint8_t *target, uint64_t size) override {
    uint64_t found = 0;
    check(tnd_pool_get(pool_, key.c_str(), target, size, &found, 0), "tnd_pool_get");
    if (found != size)
      throw std::runtime_error("tnd_pool_get: another size");
  }

 private:
  // False: too many requests are outstanding.
  bool post(const std::string &key, const uint8_t *source) {
    tnd_pool_request request{};
    request.struct_size = sizeof request;
    request.kind = TND_POOL_REQUEST_PUT;
    request.name = key.c_str();
    request.memory = const_cast<uint8_t *>(source);
    request.size = many_size;
    tnd_status const code = tnd_pool_post(pool_, &request);
    if (code != -EAGAIN)
      check(code, "tnd_pool_post");
    return code == TND_OK;
  }
  uint64_t reap() {
    tnd_pool_completion completions[depth];
    uint32_t count = 0;
    check(tnd_pool_poll(pool_, completions, depth, 10'000'000'000, &count), "tnd_pool_poll");
    if (count == 0)
      throw std::runtime_error("tnd_pool_poll: nothing in 10 s");
    for (uint32_t i = 0; i < count; i++)
      check(completions[i].status, "a put");
    return count;
  }
  tnd_pool *pool_ = nullptr;
};

// One daemon for all paths, each with its own namespace. It has memory for an object and its next
// version in one of them, for an object in the other, and for many small ones; with the largest
// sizes, for one object.
std::shared_ptr<pool_daemon> shared_daemon(const rival_options &options) {
  static std::weak_ptr<pool_daemon> known;
  std::shared_ptr<pool_daemon> daemon = known.lock();
  std::vector<std::string> more;
  if (!options.provider.empty())
    more = {"--fabric", options.provider};
  if (!options.fabric_node.empty())
    more.insert(more.end(), {"--fabric-node", options.fabric_node});
  uint64_t const objects_size =
      options.size_max > two_versions_size_max ? options.size_max : 3 * options.size_max;
  uint64_t const small_size =
      options.provider.empty() ? uint64_t{2} << 30 : uint64_t{256} << 20;  // a link has no rivals
  if (!daemon) {
    daemon = std::make_shared<pool_daemon>(objects_size + small_size, more);
    known = daemon;
  }
  return daemon;
}

class pool final : public rival {
 public:
  pool(const rival_options &options,
       tnd_pool_path path,
       const std::string &provider = {},
       uint32_t flags = 0)
      : daemon_{options.url.empty() ? shared_daemon(options) : nullptr},
        url_{options.url},
        provider_{provider},
        path_{path},
        flags_{flags} {
    if (daemon_)
      url_ = daemon_->url("path" + std::to_string(path_));
  }
  std::unique_ptr<client> connect() override {
    return std::make_unique<connection>(
        url_, path_, provider_.empty() ? nullptr : provider_.c_str(), flags_);
  }

 private:
  std::shared_ptr<pool_daemon> daemon_;  // none: the pool of another owner
  std::string url_, provider_;
  tnd_pool_path path_;
  uint32_t flags_;
};

}  // namespace

std::unique_ptr<rival> pool_local_rival(const rival_options &options) {
  return std::make_unique<pool>(options, TND_POOL_PATH_SHARED_MEMORY);
}
std::unique_ptr<rival> pool_socket_rival(const rival_options &options) {
  return std::make_unique<pool>(
      options, TND_POOL_PATH_SHARED_MEMORY, std::string{}, uint32_t{TND_POOL_NO_RING});
}
std::unique_ptr<rival> pool_file_rival(const rival_options &options) {
  return std::make_unique<pool>(options, TND_POOL_PATH_UNIX);
}
std::unique_ptr<rival> pool_file_socket_rival(const rival_options &options) {
  return std::make_unique<pool>(
      options, TND_POOL_PATH_UNIX, std::string{}, uint32_t{TND_POOL_NO_RING});
}
std::unique_ptr<rival> pool_tcp_rival(const rival_options &options) {
  return std::make_unique<pool>(options, TND_POOL_PATH_TCP);
}

std::unique_ptr<rival> pool_fabric_rival(const rival_options &options) {
  // Over a socket, a connection that fell back to its stream would look the same.
  if (options.provider.rfind("tcp", 0) == 0)
    throw not_here("rows over the fabric are for RDMA; the pool over TCP is the row beside it");
  return std::make_unique<pool>(options, TND_POOL_PATH_RDMA, options.provider);
}

}  // namespace bench
