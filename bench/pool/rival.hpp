// bench/pool/rival.hpp: the stores with which the pool is compared, each in its own file, behind
// one interface.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/report.hpp"

namespace bench {

// One connection to a store. Calls throw if the store refuses; keys are put before they are got.
class client {
 public:
  virtual ~client() = default;

  // Puts or gets the same object `count` times; returns the seconds of each call.
  virtual std::vector<double> put(const std::string &key,
                                  const uint8_t *source,
                                  uint64_t size,
                                  unsigned count) = 0;
  virtual std::vector<double> get(const std::string &key,
                                  uint8_t *target,
                                  uint64_t size,
                                  unsigned count) = 0;

  // Whether get() writes to `target`; otherwise the client is another process, which compares the
  // bytes itself.
  virtual bool is_here() const {
    return true;
  }

  // Puts objects of 4 KiB for `duration_s` in the store's best way for many of them; returns
  // committed objects per second.
  virtual double put_many(const std::string &prefix, const uint8_t *source, double duration_s) = 0;
};

// A client in this process, which measures the time.
class plain_client : public client {
 public:
  std::vector<double> put(const std::string &key,
                          const uint8_t *source,
                          uint64_t size,
                          unsigned count) final {
    return times(count, [&] { put_once(key, source, size); });
  }
  std::vector<double> get(const std::string &key,
                          uint8_t *target,
                          uint64_t size,
                          unsigned count) final {
    return times(count, [&] { get_once(key, target, size); });
  }
  double put_many(const std::string &prefix, const uint8_t *source, double duration_s) override {
    double const start = now_s();
    uint64_t done = 0;
    do
      put_once(prefix + std::to_string(done++ % many_keys), source, many_size);
    while (now_s() - start < duration_s);
    return double(done) / (now_s() - start);
  }

 protected:
  virtual void put_once(const std::string &key, const uint8_t *source, uint64_t size) = 0;
  virtual void get_once(const std::string &key, uint8_t *target, uint64_t size) = 0;

  static constexpr uint64_t many_size = 4096,
                            many_keys = 10000;  // bytes; different keys, so that no store runs full

 private:
  template <class Call>
  static std::vector<double> times(unsigned count, const Call &call) {
    std::vector<double> seconds(count);
    for (double &each : seconds) {
      double const start = now_s();
      call();
      each = now_s() - start;
    }
    return seconds;
  }
};

// A store with its servers, which end with it.
class rival {
 public:
  virtual ~rival() = default;
  virtual std::unique_ptr<client> connect() = 0;
};

// Thrown for a rival that this machine lacks; the message names what is missing.
struct not_here : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr uint64_t bulk_size = 64 << 20;  // the default for a rival's largest object, bytes

struct rival_options {
  uint64_t size_max = uint64_t{1} << 30;  // of an object for raw TCP, NFS and the pool, bytes
  std::string mooncake_python;            // an interpreter that can import mooncake; empty: none
  std::string nixl_python;                // the same for nixl_cu13
  bool is_isolated = false;               // network and mounts belong to this process
  std::string url;  // pool://host:port/namespace of a running daemon; empty: start one
  std::string provider, fabric_node;        // libfabric's provider, and the interface address for a
                                            // daemon started here; empty: none
  std::string nfs_folder, nfs_rdma_folder;  // mounted over the same link; empty: none
};

std::unique_ptr<rival> memcpy_rival(const rival_options &options);
std::unique_ptr<rival> tcp_rival(const rival_options &options);
std::unique_ptr<rival> memcached_unix_rival(const rival_options &options);
std::unique_ptr<rival> memcached_tcp_rival(const rival_options &options);
std::unique_ptr<rival> nfs_rival(const rival_options &options);
// Files in a folder that is mounted.
std::unique_ptr<rival> nfs_folder_rival(const rival_options &options);
std::unique_ptr<rival> nfs_rdma_folder_rival(const rival_options &options);
std::unique_ptr<rival> mooncake_rival(const rival_options &options);
std::unique_ptr<rival> mooncake_engine_rival(const rival_options &options);
std::unique_ptr<rival> nixl_rival(const rival_options &options);
std::unique_ptr<rival> pool_local_rival(const rival_options &options);
std::unique_ptr<rival> pool_socket_rival(const rival_options &options);
// A pool over a file, at options.url.
std::unique_ptr<rival> pool_file_rival(const rival_options &options);
std::unique_ptr<rival> pool_file_socket_rival(const rival_options &options);
std::unique_ptr<rival> pool_tcp_rival(const rival_options &options);
std::unique_ptr<rival> pool_fabric_rival(const rival_options &options);
std::unique_ptr<rival> redis_unix_rival(const rival_options &options);
std::unique_ptr<rival> redis_tcp_rival(const rival_options &options);

}  // namespace bench
