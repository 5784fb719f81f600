// backends/gfarm/gfarm_calls.cc: runs libgfarm's failover while no other call is in flight.
#include "backends/gfarm/gfarm_calls.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "core/base/mutex.hpp"

// Exported by libgfarm.so.1 but declared in none of its headers.
extern "C" {
struct gfm_connection;
struct gfm_connection *gfs_pio_metadb(GFS_File);
int gfm_client_is_connection_error(gfarm_error_t);
int gfm_client_connection_fd(struct gfm_connection *);
void gfm_client_connection_free(struct gfm_connection *);
gfarm_error_t gfm_client_connection_and_process_acquire_by_path(const char *,
                                                                struct gfm_connection **);
struct gfarm_filesystem *gfarm_filesystem_get_by_connection(struct gfm_connection *);
int gfarm_filesystem_failover_detected(struct gfarm_filesystem *);
void gfarm_filesystem_set_failover_detected(struct gfarm_filesystem *, int);
void gfarm_filesystem_set_in_failover_process(struct gfarm_filesystem *, int);
}

namespace tanada::backends {
namespace {

// The peer closed the connection, or the socket is in error.
bool is_closed(int socket) {
  pollfd entry{socket, POLLIN | POLLRDHUP, 0};
  return socket < 0 || (poll(&entry, 1, 0) > 0 &&
                        (entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0);
}

gfarm_error_t stat_root(const std::string &root) {
  struct gfs_stat root_stat{};
  auto const error = gfs_stat(root.c_str(), &root_stat);
  if (error == GFARM_ERR_NO_ERROR)
    gfs_stat_free(&root_stat);
  return error;
}

}  // namespace

std::string gfarm_root(const std::string &url) {
  return url.substr(0, url.find('/', std::strlen("gfarm://"))) + "/";
}

gfarm_calls &gfarm_calls::process_instance() {
  static auto *const instance = new gfarm_calls;
  return *instance;
}

gfarm_error_t gfarm_calls::add_server(const std::string &root) {
  TND_ASSERT(root == gfarm_root(root) && !has_server(root));
  gfm_connection *connection = nullptr;
  auto const error = gfm_client_connection_and_process_acquire_by_path(root.c_str(), &connection);
  if (error != GFARM_ERR_NO_ERROR)
    return error;
  auto *const files = gfarm_filesystem_get_by_connection(connection);
  gfm_client_connection_free(connection);
  gfarm_filesystem_set_in_failover_process(files, 1);
  lock_guard const lock{servers_mutex_};
  servers_.emplace_back(root, files);
  return error;
}

bool gfarm_calls::has_server(const std::string &root) {
  return find(root) != nullptr;
}

gfarm_calls::server *gfarm_calls::find(const std::string &url) {
  auto const root = gfarm_root(url);
  lock_guard const lock{servers_mutex_};
  auto const it = std::find_if(servers_.begin(), servers_.end(), [&](const server &candidate) {
    return candidate.root == root;
  });
  return it == servers_.end() ? nullptr : &*it;
}

// Two server names may stand for one server. A failover gives files new connections.
gfarm_calls::server *gfarm_calls::find(GFS_File file) {
  auto const call_lock = enter();
  auto const *const files = gfarm_filesystem_get_by_connection(gfs_pio_metadb(file));
  lock_guard const lock{servers_mutex_};
  auto const it = std::find_if(servers_.begin(), servers_.end(), [&](const server &candidate) {
    return candidate.files == files;
  });
  TND_ASSERT(!servers_.empty());
  return it == servers_.end() ? &servers_.front() : &*it;
}

shared_lock<shared_mutex> gfarm_calls::enter() {
  lock_guard const lock{entry_mutex_};
  return shared_lock{active_mutex_};
}

// Calls by name reach only gfmd. A call on a file may have failed to reach a gfsd; the connection
// to gfmd is then intact.
bool gfarm_calls::is_gfmd_lost(GFS_File file, gfarm_error_t error) {
  if (error == GFARM_ERR_GFMD_FAILED_OVER)
    return true;
  bool const is_connection = gfm_client_is_connection_error(error) != 0;
  if (file == nullptr)
    return is_connection;
  return (is_connection || error == GFARM_ERR_BAD_FILE_DESCRIPTOR) &&
         is_closed(gfm_client_connection_fd(gfs_pio_metadb(file)));
}

// A thread that waited for another thread's attempt gets its result. Calls in flight do not delay
// the check whether gfmd answers.
gfarm_error_t gfarm_calls::recover(server &gfmd, uint64_t attempts_seen) {
  lock_guard const lock{gfmd.recovery};
  TND_ASSERT(attempts_seen <= gfmd.attempts);
  if (gfmd.attempts != attempts_seen)
    return gfmd.last_error;
  gfmd.last_error = once([&] { return stat_root(gfmd.root); });
  if (gfmd.last_error == GFARM_ERR_NO_ERROR) {
    lock_guard const entry_lock{entry_mutex_};
    lock_guard const exclusive_lock{active_mutex_};
    gfarm_filesystem_set_failover_detected(gfmd.files, 1);
    gfarm_filesystem_set_in_failover_process(gfmd.files, 0);
    gfmd.last_error = stat_root(gfmd.root);  // this call performs the failover
    gfarm_filesystem_set_in_failover_process(gfmd.files, 1);
    if (gfmd.last_error == GFARM_ERR_NO_ERROR) {
      gfmd.failovers++;
      gfmd.is_lost = false;
    }
  }
  gfmd.attempts++;
  return gfmd.last_error;
}

}  // namespace tanada::backends
