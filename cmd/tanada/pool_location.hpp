// cmd/tanada/pool_location.hpp: the sources and targets on the command line of a copy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool_session.hpp"

namespace tanada::command {

// A file, a folder, "-" for standard input or output, or an object or prefix in a pool.
struct location {
  std::string word;  // as given on the command line
  bool is_pool = false;
  pool::address address;  // in a pool; its object may be a prefix
  std::string path;       // of a file

  bool is_standard() const {
    return !is_pool && path == "-";
  }
  // Appends `rest` to the path: "a/b" for "a" and "b". No-op if `rest` is empty.
  location under(const std::string &rest) const;
  std::string text() const;  // a URL or a path
};

// Returns nullopt after reporting an error. Schemes other than pool:// are refused.
std::optional<location> location_parse(const std::string &word,
                                       command_report &report,
                                       bool needs_space = true);

struct copy_item {
  location source, target;
  uint64_t size = 0;  // bytes of the source, if known
};

// The last component of a path or prefix, which becomes the name in a target folder. Empty for "/",
// ".", ".." and a whole namespace, whose contents go directly into the folder.
std::string last_name(const location &source);

// Whether a name from a pool may be a path below a folder: it has no empty component, no "." or
// "..", and no 0 byte.
bool is_safe_below(std::string_view name);

// Whether `name` is `prefix` or is under it: "a/b" is under "a" and "a/", and "ab" is not.
bool is_under(std::string_view name, std::string_view prefix);

struct expand_options {
  bool recursive = false;
  bool into_folder = false;  // there are several sources
};

// The items of one source and their targets. Errors are reported, and those items skipped.
std::vector<copy_item> expand(const location &source,
                              const location &target,
                              const expand_options &options,
                              pool_session &session,
                              command_report &report);

// The names of a namespace that are `prefix` or under it.
struct listed_object {
  std::string name;
  tnd_pool_info info;
};
std::optional<std::vector<listed_object>> list_under(const location &prefix,
                                                     pool_session &session,
                                                     command_report &report);

}  // namespace tanada::command
