// backends/gluster/gluster_volume.hpp: volumes and the URLs that name them.
#pragma once

#include <glusterfs/api/glfs.h>

#include <map>
#include <string>

#include "core/base/mutex.hpp"
#include "seams/store/store_plugin.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::backends {

// The parts of gluster://host[:port]/volume/path. The path begins with '/'.
struct gluster_url {
  std::string host;
  int port = 24007;
  std::string volume, path;

  // invalid: a URL without host, volume or path, or with an invalid port.
  static status parse(const std::string &url, gluster_url &parts);
};

// The connected volumes, one connection each for the process. Disconnecting a volume takes libgfapi
// ten seconds, so volumes stay connected until the process ends. Thread-safe.
class gluster_volumes {
 public:
  explicit gluster_volumes(const seams::store_plugin_host &host) : host_{host} {}

  // Connects at the first call, which may take as long as the network does. A failure is retried at
  // the next call. too_many_files: more than 64 volumes.
  status find(const gluster_url &url, glfs_t *&volume);

 private:
  status connect(const gluster_url &url, glfs_t *&volume) const;

  const seams::store_plugin_host host_;
  mutex mutex_;  // held while connecting: libgfapi's setup is not thread-safe
  std::map<std::string, glfs_t *> connected_;
};

}  // namespace tanada::backends
