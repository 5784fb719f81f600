#include "backends/gfarm/gfarm_calls.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "core/base/mutex.hpp"

// Exported by libgfarm.so.1, in no header of it.
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

namespace tanada::port {
namespace {

// The other side has closed it, or it is in error.
bool is_closed(int socket) {
  pollfd asked{socket, POLLIN | POLLRDHUP, 0};
  return socket < 0 || (poll(&asked, 1, 0) > 0 &&
                        (asked.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0);
}

gfarm_error_t look(const std::string &root) {
  struct gfs_stat found{};
  auto const error = gfs_stat(root.c_str(), &found);
  if (error == GFARM_ERR_NO_ERROR)
    gfs_stat_free(&found);
  return error;
}

}  // namespace

std::string gfarm_root(const std::string &url) {
  return url.substr(0, url.find('/', std::strlen("gfarm://"))) + "/";
}

gfarm_calls &gfarm_calls::of_process() {
  static auto *const only = new gfarm_calls;
  return *only;
}

gfarm_error_t gfarm_calls::add_server(const std::string &root) {
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
  auto const found = std::find_if(servers_.begin(), servers_.end(),
                                  [&](const server &each) { return each.root == root; });
  return found == servers_.end() ? nullptr : &*found;
}

// Servers of two names may be one. A failover gives files other connections.
gfarm_calls::server *gfarm_calls::find(GFS_File file) {
  auto const here = enter();
  auto const *const files = gfarm_filesystem_get_by_connection(gfs_pio_metadb(file));
  lock_guard const lock{servers_mutex_};
  auto const found = std::find_if(servers_.begin(), servers_.end(),
                                  [&](const server &each) { return each.files == files; });
  return found == servers_.end() ? &servers_.front() : &*found;
}

shared_lock<shared_mutex> gfarm_calls::enter() {
  lock_guard const lock{door_};
  return shared_lock{inside_};
}

// By name only gfmd is asked. On a file it may have been a gfsd that was not reached; then the
// connection to gfmd is as it was.
bool gfarm_calls::means_lost(GFS_File file, gfarm_error_t error) {
  if (error == GFARM_ERR_GFMD_FAILED_OVER)
    return true;
  bool const is_connection = gfm_client_is_connection_error(error) != 0;
  if (file == nullptr)
    return is_connection;
  return (is_connection || error == GFARM_ERR_BAD_FILE_DESCRIPTOR) &&
         is_closed(gfm_client_connection_fd(gfs_pio_metadb(file)));
}

// Those who came while another tried have its result. Nobody is kept waiting for calls that are
// under way while gfmd does not answer.
gfarm_error_t gfarm_calls::recover(server &of, uint64_t attempts_seen) {
  lock_guard const lock{of.recovery};
  if (of.attempts != attempts_seen)
    return of.found;
  of.found = once([&] { return look(of.root); });
  if (of.found == GFARM_ERR_NO_ERROR) {
    lock_guard const newcomers{door_};
    lock_guard const alone{inside_};
    gfarm_filesystem_set_failover_detected(of.files, 1);
    gfarm_filesystem_set_in_failover_process(of.files, 0);
    of.found = look(of.root);  // fails over first
    gfarm_filesystem_set_in_failover_process(of.files, 1);
    if (of.found == GFARM_ERR_NO_ERROR) {
      of.failovers++;
      of.is_lost = false;
    }
  }
  of.attempts++;
  return of.found;
}

}  // namespace tanada::port
