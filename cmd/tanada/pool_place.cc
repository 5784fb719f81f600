#include "pool_place.hpp"

#include <algorithm>
#include <filesystem>

namespace tanada::command {
namespace {

namespace fs = std::filesystem;

std::string joined(std::string path, const std::string &rest) {
  if (rest.empty())
    return path;
  if (!path.empty() && !path.ends_with('/'))
    path += '/';
  return path + rest;
}

bool is_folder(const place &target) {
  std::error_code ignored;
  if (target.is_standard())
    return false;
  if (target.is_pool)
    return target.at.object.empty() || target.at.object.ends_with('/');
  return target.path.ends_with('/') || fs::is_directory(target.path, ignored);
}

std::vector<copy_item> expand_file(const place &source, const place &base,
                                   const expand_options &how, answer &told) {
  std::error_code error;
  auto const state = fs::status(source.path, error);
  if (!fs::exists(state)) {
    told.fail(source.path, error ? -error.value() : -ENOENT,
              error ? error.message() : "no such file");
    return {};
  }
  if (!fs::is_directory(state)) {
    uint64_t const size = fs::is_regular_file(state) ? fs::file_size(source.path, error) : 0;
    return {{source, base, size}};
  }
  if (!how.recursive) {
    told.fail(source.path, -EISDIR, "is a folder; -r copies what is in it");
    return {};
  }
  std::vector<copy_item> found;
  for (fs::recursive_directory_iterator each{source.path, error}, end; !error && each != end;
       each.increment(error)) {
    std::error_code trouble;
    if (each->is_directory(trouble))
      continue;
    std::string const rest = each->path().lexically_relative(source.path).string();
    if (each->is_regular_file(trouble))
      found.push_back({source.under(rest), base.under(rest), each->file_size(trouble)});
    else
      told.fail(each->path().string(), -EINVAL, "neither file nor folder; left out");
  }
  if (error)
    told.fail(source.path, -error.value(), error.message());
  std::sort(found.begin(), found.end(),
            [](auto const &a, auto const &b) { return a.source.path < b.source.path; });
  return found;
}

std::vector<copy_item> expand_objects(const place &source, const place &base, pool_session &session,
                                      answer &told) {
  auto const listed = list_under(source, session, told);
  if (!listed)
    return {};
  std::vector<copy_item> found;
  for (listed_object const &each : *listed) {
    place from = source;
    from.at.object = each.name;
    std::string rest = each.name.substr(std::min(source.at.object.size(), each.name.size()));
    if (rest.starts_with('/'))
      rest.erase(0, 1);
    if (!base.is_pool && !rest.empty() && !is_safe_below(rest)) {
      told.fail(from.text(), -EINVAL, "its name is no path below the target");
      continue;
    }
    found.push_back({from, base.under(rest), each.info.size});
  }
  if (listed->empty())
    told.fail(source.text(), -ENOENT, "no object is there or under it");
  return found;
}

std::vector<copy_item> expand_object(const place &source, const place &base, pool_session &session,
                                     answer &told) {
  if (source.at.object.empty() || source.at.object.ends_with('/')) {
    told.fail(source.text(), -EISDIR, "names no object; -r copies what is under it");
    return {};
  }
  tnd_pool *const pool = session.connect(source.at);
  if (pool == nullptr)
    return {};
  tnd_pool_info info;
  if (tnd_status const code = tnd_pool_stat(pool, source.at.object.c_str(), 0, &info);
      code != TND_OK) {
    told.fail(source.text(), code);
    return {};
  }
  return {{source, base, info.size}};
}

}  // namespace

place place::under(const std::string &rest) const {
  place made = *this;
  if (is_pool)
    made.at.object = joined(at.object, rest);
  else
    made.path = joined(path, rest);
  return made;
}

std::string place::text() const {
  return is_pool ? object_url(at, at.object) : path;
}

std::optional<place> place_parse(const std::string &word, answer &told, bool needs_space) {
  place made;
  made.word = word;
  if (word.starts_with("pool://")) {
    auto at = pool::address_parse(word, needs_space);
    if (!at.ok()) {
      told.fail(word, -EINVAL);
      return std::nullopt;
    }
    made.is_pool = true;
    made.at = std::move(at).value();
    return made;
  }
  if (word.find("://") != std::string::npos || word.empty()) {
    told.fail(word, -EINVAL, "give a path or pool://host[:port]/namespace/object");
    return std::nullopt;
  }
  made.path = word;
  return made;
}

std::string last_name(const place &of) {
  std::string_view all = of.is_pool ? of.at.object : of.path;
  while (all.ends_with('/'))
    all.remove_suffix(1);
  std::string_view const last = all.substr(all.rfind('/') + 1);
  return last == "." || last == ".." ? std::string() : std::string(last);
}

bool is_safe_below(std::string_view name) {
  if (name.find('\0') != name.npos)
    return false;
  for (size_t at = 0;;) {
    size_t const end = std::min(name.find('/', at), name.size());
    std::string_view const part = name.substr(at, end - at);
    if (part.empty() || part == "." || part == "..")
      return false;
    if (end == name.size())
      return true;
    at = end + 1;
  }
}

bool is_under(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix))
    return false;
  return prefix.empty() || prefix.ends_with('/') || name.size() == prefix.size() ||
         name[prefix.size()] == '/';
}

std::optional<std::vector<listed_object>> list_under(const place &prefix, pool_session &session,
                                                     answer &told) {
  tnd_pool *const pool = session.connect(prefix.at);
  if (pool == nullptr)
    return std::nullopt;
  struct {
    std::vector<listed_object> found;
    std::string_view prefix;
  } context{{}, prefix.at.object};
  auto const entry = [](void *of, const char *name, const tnd_pool_info *info) {
    auto &to = *static_cast<decltype(context) *>(of);
    if (is_under(name, to.prefix))
      to.found.push_back({name, *info});
    return 0;
  };
  tnd_status const code = tnd_pool_list(pool, prefix.at.object.c_str(), entry, &context);
  if (code != TND_OK) {
    told.fail(prefix.text(), code);
    return std::nullopt;
  }
  return std::move(context.found);
}

std::vector<copy_item> expand(const place &source, const place &target, const expand_options &how,
                              pool_session &session, answer &told) {
  bool const into = how.into_folder || is_folder(target);
  if (into && source.is_standard()) {
    told.fail(target.text(), -EINVAL, "standard input has no name of its own: name the object");
    return {};
  }
  place const base = into ? target.under(last_name(source)) : target;
  if (source.is_standard())
    return {{source, base, 0}};
  if (!source.is_pool)
    return expand_file(source, base, how, told);
  if (into && !base.is_pool && !last_name(source).empty() && !is_safe_below(last_name(source))) {
    told.fail(source.text(), -EINVAL, "its name is no file's");
    return {};
  }
  return how.recursive ? expand_objects(source, base, session, told)
                       : expand_object(source, base, session, told);
}

}  // namespace tanada::command
