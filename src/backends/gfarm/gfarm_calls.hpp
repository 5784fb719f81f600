// backends/gfarm/gfarm_calls.hpp: calls of libgfarm, whose failover runs only while no call is in
// flight.
#pragma once

#include <cstddef>  // before gfarm.h, which expects size_t
#include <cstdint>

#include <gfarm/gfarm.h>

#include <atomic>
#include <list>
#include <string>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"

struct gfarm_filesystem;

namespace tanada::backends {

// During a failover, libgfarm closes and reopens all files of the process at their servers without
// locking the files (gfs_pio_failover.c, reset_and_reopen_all). A concurrent call on such a file
// uses freed memory. libgfarm fails over when gfmd was lost. It also does so when a gfsd refuses a
// connection, which it mistakes for the loss of gfmd. This class disables automatic failover, so
// calls return their errors. If gfmd was lost and answers again, the class runs the failover while
// no other call is in flight and then repeats the call.
//
// Thread safety: any thread.
class gfarm_calls {
 public:
  // The instance of the process, as libgfarm has process-wide state. It is never destroyed, because
  // abandoned threads may still call it.
  static gfarm_calls &process_instance();

  // Adds a metadata server, "gfarm://host:port/" or "gfarm:///". Call it after the server's root
  // was reached and before any of its files is opened.
  gfarm_error_t add_server(const std::string &root);
  bool has_server(const std::string &root);

  // Runs a call on files by name; the server must have been added. The call may run twice.
  template <class Call>
  gfarm_error_t by_name(const std::string &url, Call &&call) {
    server *const gfmd = find(url);
    TND_ASSERT(gfmd != nullptr);
    return run(*gfmd, nullptr, call);
  }
  // Runs a call on an open file. The call may run twice.
  template <class Call>
  gfarm_error_t on_file(GFS_File file, Call &&call) {
    return run(*find(file), file, call);
  }
  // Runs a call exactly once, whatever its result.
  template <class Call>
  gfarm_error_t once(Call &&call) {
    auto const call_lock = enter();
    return call();
  }

 private:
  struct server {
    std::string const root;
    gfarm_filesystem *const files;
    mutex recovery;                                 // serializes recovery
    std::atomic<uint64_t> attempts{0};              // finished attempts to recover
    std::atomic<uint64_t> failovers{0};             // attempts that succeeded
    std::atomic<bool> is_lost{false};               // gfmd was lost, and files are not reopened yet
    gfarm_error_t last_error = GFARM_ERR_NO_ERROR;  // of the last attempt; guarded by `recovery`
  };

  template <class Call>
  gfarm_error_t run(server &gfmd, GFS_File file, Call &call) {
    for (bool is_again = false;; is_again = true) {
      // Recover first: a file opened over a new connection would conflict with reopening the
      // others.
      if (file == nullptr && gfmd.is_lost) {
        if (auto const error = recover(gfmd, gfmd.attempts); error != GFARM_ERR_NO_ERROR)
          return error;
      }
      uint64_t const attempts = gfmd.attempts, failovers = gfmd.failovers;
      gfarm_error_t error = GFARM_ERR_NO_ERROR;
      bool is_lost = false;
      {
        auto const call_lock = enter();
        error = call();
        is_lost = error != GFARM_ERR_NO_ERROR && is_gfmd_lost(file, error);
      }
      if (error == GFARM_ERR_NO_ERROR || is_again)
        return error;
      if (is_lost) {
        gfmd.is_lost = true;
        (void)recover(gfmd, attempts);
      }
      if (gfmd.failovers == failovers)
        return error;
    }
  }

  shared_lock<shared_mutex> enter();
  static bool is_gfmd_lost(GFS_File file, gfarm_error_t error);
  gfarm_error_t recover(server &gfmd, uint64_t attempts_seen);
  server *find(const std::string &url);
  server *find(GFS_File file);

  mutex entry_mutex_;  // every call passes it on entry; held to exclude new calls
  shared_mutex active_mutex_;
  mutex servers_mutex_;
  std::list<server> servers_;
};

// Returns the "gfarm://host:port/" part of a URL.
std::string gfarm_root(const std::string &url);

}  // namespace tanada::backends
