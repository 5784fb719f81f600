// backends/pmix/pmix_plugin.cc: the one symbol of libtanada_bootstrap_pmix.so.
#include <tanada/version.h>

#include "backends/pmix/pmix_bootstrap.hpp"
#include "core/base/log.hpp"
#include "seams/bootstrap/bootstrap_plugin.hpp"

namespace tanada::port {
namespace {

status open(std::unique_ptr<bootstrap> &made, std::string &message) {
  auto opened = std::make_unique<pmix_bootstrap>();
  TND_TRY(opened->open(message));
  made = std::move(opened);
  return status::ok;
}

constexpr bootstrap_plugin plugin{
    .abi = bootstrap_plugin_abi, .version = TND_VERSION_STRING, .open = open, .last_message = [] {
      return last_message();
    }};

}  // namespace
}  // namespace tanada::port

extern "C" __attribute__((visibility("default"))) const tanada::port::bootstrap_plugin *
tnd_bootstrap_plugin() {
  return &tanada::port::plugin;
}
