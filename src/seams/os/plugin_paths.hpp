// seams/os/plugin_paths.hpp: where plugins are looked for.
#pragma once

#include <string>
#include <vector>

namespace tanada::port {

// Where the plugin `file` may be, best first: the folders of TND_PLUGIN_PATH (a colon between two);
// the folder of the library or program that this code is in, and tanada/, ../lib and ../lib/tanada
// from there; <libdir>/tanada as it was configured; where the dynamic linker looks, which is the
// one without a slash.
std::vector<std::string> plugin_paths(const char *file);

// The first of these that exists, where the dynamic linker's places do not count; "": none does.
std::string plugin_path(const char *file);

}  // namespace tanada::port
