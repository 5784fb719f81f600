// backends/pmix/pmix_plugin.cc: the only symbol that libtanada_bootstrap_pmix.so exports.
#include <tanada/version.h>

#include "backends/pmix/pmix_bootstrap.hpp"
#include "core/base/log.hpp"
#include "seams/bootstrap/bootstrap_plugin.hpp"

namespace tanada::backends {
namespace {

status open(std::unique_ptr<seams::bootstrap> &instance, std::string &message) {
  auto opened = std::make_unique<pmix_bootstrap>();
  TND_TRY(opened->open(message));
  instance = std::move(opened);
  return status::ok;
}

constexpr seams::bootstrap_plugin plugin{.abi = seams::bootstrap_plugin_abi,
                                         .version = TND_VERSION_STRING,
                                         .open = open,
                                         .last_message = [] {
                                           return last_message();
                                         }};

}  // namespace
}  // namespace tanada::backends

extern "C" __attribute__((visibility("default"))) const tanada::seams::bootstrap_plugin *
tnd_bootstrap_plugin() {
  return &tanada::backends::plugin;
}
