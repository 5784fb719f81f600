// backends/gfarm/gfarm_calls.hpp: calls of libgfarm, which fails over while none is under way.
#pragma once

#include <cstddef>  // before gfarm.h, which expects size_t
#include <cstdint>

#include <gfarm/gfarm.h>

#include <atomic>
#include <list>
#include <string>

#include "core/base/mutex.hpp"

struct gfarm_filesystem;

namespace tanada::port {

// libgfarm that fails over closes and opens all files of the process at their servers anew, and
// takes no file's lock for it (gfs_pio_failover.c, reset_and_reopen_all): who uses one meanwhile
// uses what is freed. It does so when gfmd was lost, and when a gfsd refuses a connection, which it
// takes for the same. Here it is kept from that: calls return what went wrong. When it was gfmd,
// and gfmd answers again, libgfarm is made to fail over while no other call is under way, and the
// call is made again.
//
// Thread safety: any thread.
class gfarm_calls {
 public:
  // One for the process, as libgfarm is. It stays when the process ends, as threads left behind may
  // still come.
  static gfarm_calls &of_process();

  // After the root of a metadata server, "gfarm://host:port/" or "gfarm:///", was reached, and
  // before any of its files is opened.
  gfarm_error_t add_server(const std::string &root);
  bool has_server(const std::string &root);

  // A call on files by their names, of a server that was added. It may be made twice.
  template <class Call>
  gfarm_error_t by_name(const std::string &url, Call &&call) {
    return run(*find(url), nullptr, call);
  }
  // A call on an open file. It may be made twice.
  template <class Call>
  gfarm_error_t on_file(GFS_File file, Call &&call) {
    return run(*find(file), file, call);
  }
  // A call that is made once, whatever becomes of it.
  template <class Call>
  gfarm_error_t once(Call &&call) {
    auto const here = enter();
    return call();
  }

 private:
  struct server {
    std::string const root;
    gfarm_filesystem *const files;
    mutex recovery;                            // one thread recovers
    std::atomic<uint64_t> attempts{0};         // to recover, that are over
    std::atomic<uint64_t> failovers{0};        // of those
    std::atomic<bool> is_lost{false};          // gfmd was lost, and files are not open anew yet
    gfarm_error_t found = GFARM_ERR_NO_ERROR;  // by the last attempt; guarded by recovery
  };

  template <class Call>
  gfarm_error_t run(server &of, GFS_File file, Call &call) {
    for (bool is_again = false;; is_again = true) {
      // What is opened by a new connection before the others are is in their way.
      if (file == nullptr && of.is_lost) {
        if (auto const error = recover(of, of.attempts); error != GFARM_ERR_NO_ERROR)
          return error;
      }
      uint64_t const attempts = of.attempts, failovers = of.failovers;
      gfarm_error_t error = GFARM_ERR_NO_ERROR;
      bool is_lost = false;
      {
        auto const here = enter();
        error = call();
        is_lost = error != GFARM_ERR_NO_ERROR && means_lost(file, error);
      }
      if (error == GFARM_ERR_NO_ERROR || is_again)
        return error;
      if (is_lost) {
        of.is_lost = true;
        (void)recover(of, attempts);
      }
      if (of.failovers == failovers)
        return error;
    }
  }

  shared_lock<shared_mutex> enter();
  static bool means_lost(GFS_File file, gfarm_error_t error);
  gfarm_error_t recover(server &of, uint64_t attempts_seen);
  server *find(const std::string &url);
  server *find(GFS_File file);

  mutex door_;  // newcomers pass it: who wants to be alone holds it
  shared_mutex inside_;
  mutex servers_mutex_;
  std::list<server> servers_;
};

// "gfarm://host:port/" of a URL.
std::string gfarm_root(const std::string &url);

}  // namespace tanada::port
