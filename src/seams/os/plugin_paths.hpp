// seams/os/plugin_paths.hpp: where plugins are searched.
#pragma once

#include <string>
#include <vector>

namespace tanada::seams {

// Where the plugin `file` may be, best first. The folders of TND_PLUGIN_PATH (separated by colons)
// come first. The folder of the library or program with this code follows, then tanada/, ../lib and
// ../lib/tanada from there. The last are <libdir>/tanada as it was configured, and the path of the
// dynamic linker, which is the one without a slash.
std::vector<std::string> plugin_paths(const char *file);

// The first of these that exists, without the dynamic linker's path; "" if none does.
std::string plugin_path(const char *file);

}  // namespace tanada::seams
