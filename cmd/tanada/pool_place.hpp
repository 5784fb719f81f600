// cmd/tanada/pool_place.hpp: what the words of a copy's command line name, and where each thing
// goes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool_session.hpp"

namespace tanada::command {

// A file, a folder, "-" for standard input or output, or an object or prefix in a pool.
struct place {
  std::string word;  // as it was given
  bool is_pool = false;
  pool::address at;  // of a pool; at.object: object or prefix
  std::string path;  // of a file

  bool is_standard() const {
    return !is_pool && path == "-";
  }
  // The same with something behind its path: "a/b" for "a" and "b". `rest` empty: the same.
  place under(const std::string &rest) const;
  std::string text() const;  // a URL or a path
};

// nullopt: told. Schemes other than pool:// are refused.
std::optional<place> place_parse(const std::string &word, answer &told, bool needs_space = true);

struct copy_item {
  place source, target;
  uint64_t size = 0;  // bytes of the source, as far as known
};

// The last part of a path or of a prefix, that a target folder gets it under; "" for "/", ".", ".."
// and a whole namespace, whose contents go straight there.
std::string last_name(const place &of);

// May a name from a pool become a path below a folder: no empty part, no "." or "..", no 0 byte?
bool is_safe_below(std::string_view name);

// Whether `name` is `prefix` or stands under it, as "a/b" does under "a" and "a/", and "ab" does
// not.
bool is_under(std::string_view name, std::string_view prefix);

struct expand_options {
  bool recursive = false;
  bool into_folder = false;  // more sources than one
};

// What one source stands for, with the target of each. What cannot be copied is told and left out.
std::vector<copy_item> expand(const place &source, const place &target, const expand_options &how,
                              pool_session &session, answer &told);

// The names of a namespace at `prefix` and under it.
struct listed_object {
  std::string name;
  tnd_pool_info info;
};
std::optional<std::vector<listed_object>> list_under(const place &prefix, pool_session &session,
                                                     answer &told);

}  // namespace tanada::command
