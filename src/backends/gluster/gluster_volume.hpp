// backends/gluster/gluster_volume.hpp: volumes and the URLs that name them.
#pragma once

#include <glusterfs/api/glfs.h>

#include <map>
#include <string>

#include "core/base/mutex.hpp"
#include "seams/store/store_plugin.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::port {

// gluster://host[:port]/volume/path, in parts; the path begins with '/'.
struct gluster_url {
  std::string host;
  int port = 24007;
  std::string volume, path;

  // invalid for a URL without host, volume or path, or with a port that is none.
  static status parse(const std::string &url, gluster_url &to);
};

// The volumes that are connected, each once a process: to disconnect one takes libgfapi ten
// seconds, so that none is before the process ends. Thread-safe.
class gluster_volumes {
 public:
  explicit gluster_volumes(const store_plugin_host &host) : host_{host} {}

  // Connects at the first call, which may take as long as the network does; a failure is tried
  // again at the next. too_many_files past 64 volumes.
  status find(const gluster_url &url, glfs_t *&volume);

 private:
  status connect(const gluster_url &url, glfs_t *&volume) const;

  const store_plugin_host host_;
  mutex mutex_;  // held while one is connected: libgfapi's set-up is not for several threads
  std::map<std::string, glfs_t *> connected_;
};

}  // namespace tanada::port
