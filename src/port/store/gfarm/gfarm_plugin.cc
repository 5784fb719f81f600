// port/store/gfarm/gfarm_plugin.cc: the one symbol of libtanada_store_gfarm.so.
#include <signal.h>
#include <syslog.h>
#include <tanada/version.h>

#include "port/store/errno_status.hpp"
#include "port/store/gfarm/gfarm_engine.hpp"

namespace tanada::port {
namespace {

// libgfarm is one a process and says so: initialise once, under a lock, and never terminate, since threads left
// behind may still be inside it. A failure is tried again at the next call.
status initialize(std::string &message) {
  static std::mutex mutex;
  static bool done = false;
  std::lock_guard lock{mutex};
  if (done) return status::ok;
  sigset_t all, before;
  sigfillset(&all);  // for threads it starts, and for the SIGPIPE of a server that hangs up
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int count = 1;
  char name[] = "tanada";
  char *arguments[] = {name, nullptr};
  char **list = arguments;
  auto const error = gfarm_initialize(&count, &list);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != GFARM_ERR_NO_ERROR) {
    message = std::string{"gfarm_initialize: "} + gfarm_error_string(error) +
              "; set GFARM_CONFIG_FILE to a client's configuration";
    return errno_status(gfarm_error_to_errno(error));
  }
  gflog_set_priority_level(LOG_CRIT);  // its errors come to us as values
  done = true;
  return status::ok;
}

status engine_create(const store_plugin_host &host, std::shared_ptr<blocking_engine> &engine,
                     std::string &message) {
  TND_TRY(initialize(message));
  host.log(1, (std::string{"gfarm: libgfarm "} + gfarm_version()).c_str());
  engine = std::make_shared<gfarm_engine>();
  return status::ok;
}

constexpr store_plugin plugin{.abi = store_plugin_abi,
                              .version = TND_VERSION_STRING,
                              .scheme = "gfarm",
                              .engine_create = engine_create};

}  // namespace
}  // namespace tanada::port

extern "C" __attribute__((visibility("default"))) const tanada::port::store_plugin *tnd_store_plugin() {
  return &tanada::port::plugin;
}
