// products/nixl/plugin.cc: what NIXL looks for in libplugin_TANADA.so.
#include <backend/backend_plugin.h>
#include "products/nixl/engine.hpp"
#include "tanada/version.h"

extern "C" NIXL_PLUGIN_EXPORT nixlBackendPlugin *nixl_plugin_init() {
  static const nixl_b_params_t parameters{
      {"url", ""}, {"key_file", ""}, {"num_threads", ""}, {"evictable", ""}, {"durable", ""}};
  return nixlBackendPluginCreator<tanada::nixl::object_engine>::create(
      NIXL_PLUGIN_API_VERSION,
      "TANADA",
      TND_VERSION_STRING,
      parameters,
      tanada::nixl::object_engine::segments());
}

extern "C" NIXL_PLUGIN_EXPORT void nixl_plugin_fini() {}
