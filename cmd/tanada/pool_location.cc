// cmd/tanada/pool_location.cc: parses sources and targets, and expands prefixes and folders.
#include "pool_location.hpp"

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

bool is_folder(const location &target) {
  std::error_code ignored;
  if (target.is_standard())
    return false;
  if (target.is_pool)
    return target.address.object.empty() || target.address.object.ends_with('/');
  return target.path.ends_with('/') || fs::is_directory(target.path, ignored);
}

std::vector<copy_item> expand_file(const location &source,
                                   const location &base,
                                   const expand_options &options,
                                   command_report &report) {
  std::error_code error;
  auto const state = fs::status(source.path, error);
  if (!fs::exists(state)) {
    report.fail(
        source.path, error ? -error.value() : -ENOENT, error ? error.message() : "no such file");
    return {};
  }
  if (!fs::is_directory(state)) {
    uint64_t const size = fs::is_regular_file(state) ? fs::file_size(source.path, error) : 0;
    return {{source, base, size}};
  }
  if (!options.recursive) {
    report.fail(source.path, -EISDIR, "is a folder; use -r to copy its contents");
    return {};
  }
  std::vector<copy_item> items;
  for (fs::recursive_directory_iterator entry{source.path, error}, end; !error && entry != end;
       entry.increment(error)) {
    std::error_code entry_error;
    if (entry->is_directory(entry_error))
      continue;
    std::string const rest = entry->path().lexically_relative(source.path).string();
    if (entry->is_regular_file(entry_error))
      items.push_back({source.under(rest), base.under(rest), entry->file_size(entry_error)});
    else
      report.fail(entry->path().string(), -EINVAL, "skipped: neither a file nor a folder");
  }
  if (error)
    report.fail(source.path, -error.value(), error.message());
  std::sort(items.begin(), items.end(), [](auto const &a, auto const &b) {
    return a.source.path < b.source.path;
  });
  return items;
}

std::vector<copy_item> expand_objects(const location &source,
                                      const location &base,
                                      pool_session &session,
                                      command_report &report) {
  auto const listed = list_under(source, session, report);
  if (!listed)
    return {};
  std::vector<copy_item> items;
  for (listed_object const &object : *listed) {
    location item_source = source;
    item_source.address.object = object.name;
    std::string rest =
        object.name.substr(std::min(source.address.object.size(), object.name.size()));
    if (rest.starts_with('/'))
      rest.erase(0, 1);
    if (!base.is_pool && !rest.empty() && !is_safe_below(rest)) {
      report.fail(item_source.text(), -EINVAL, "its name is not a path below the target");
      continue;
    }
    items.push_back({item_source, base.under(rest), object.info.size});
  }
  if (listed->empty())
    report.fail(source.text(), -ENOENT, "there is no such object or prefix");
  return items;
}

std::vector<copy_item> expand_object(const location &source,
                                     const location &base,
                                     pool_session &session,
                                     command_report &report) {
  if (source.address.object.empty() || source.address.object.ends_with('/')) {
    report.fail(
        source.text(), -EISDIR, "the URL names no object; use -r to copy all objects under it");
    return {};
  }
  tnd_pool *const pool = session.connect(source.address);
  if (pool == nullptr)
    return {};
  tnd_pool_info info;
  if (tnd_status const code = tnd_pool_stat(pool, source.address.object.c_str(), 0, &info);
      code != TND_OK) {
    report.fail(source.text(), code);
    return {};
  }
  return {{source, base, info.size}};
}

}  // namespace

location location::under(const std::string &rest) const {
  location result = *this;
  if (is_pool)
    result.address.object = joined(address.object, rest);
  else
    result.path = joined(path, rest);
  return result;
}

std::string location::text() const {
  return is_pool ? object_url(address, address.object) : path;
}

std::optional<location> location_parse(const std::string &word,
                                       command_report &report,
                                       bool needs_space) {
  location parsed;
  parsed.word = word;
  if (word.starts_with("pool://")) {
    auto parsed_address = pool::address_parse(word, needs_space);
    if (!parsed_address.ok()) {
      report.fail(word, -EINVAL);
      return std::nullopt;
    }
    parsed.is_pool = true;
    parsed.address = std::move(parsed_address).value();
    return parsed;
  }
  if (word.find("://") != std::string::npos || word.empty()) {
    report.fail(word, -EINVAL, "give a path or pool://host[:port]/namespace/object");
    return std::nullopt;
  }
  parsed.path = word;
  return parsed;
}

std::string last_name(const location &source) {
  std::string_view path = source.is_pool ? source.address.object : source.path;
  while (path.ends_with('/'))
    path.remove_suffix(1);
  std::string_view const last = path.substr(path.rfind('/') + 1);
  return last == "." || last == ".." ? std::string() : std::string(last);
}

bool is_safe_below(std::string_view name) {
  if (name.find('\0') != name.npos)
    return false;
  for (size_t begin = 0;;) {
    size_t const end = std::min(name.find('/', begin), name.size());
    std::string_view const part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..")
      return false;
    if (end == name.size())
      return true;
    begin = end + 1;
  }
}

bool is_under(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix))
    return false;
  return prefix.empty() || prefix.ends_with('/') || name.size() == prefix.size() ||
         name[prefix.size()] == '/';
}

std::optional<std::vector<listed_object>> list_under(const location &prefix,
                                                     pool_session &session,
                                                     command_report &report) {
  tnd_pool *const pool = session.connect(prefix.address);
  if (pool == nullptr)
    return std::nullopt;
  struct {
    std::vector<listed_object> objects;
    std::string_view prefix;
  } context{{}, prefix.address.object};
  auto const entry = [](void *context_ptr, const char *name, const tnd_pool_info *info) {
    auto &list = *static_cast<decltype(context) *>(context_ptr);
    if (is_under(name, list.prefix))
      list.objects.push_back({name, *info});
    return 0;
  };
  tnd_status const code = tnd_pool_list(pool, prefix.address.object.c_str(), entry, &context);
  if (code != TND_OK) {
    report.fail(prefix.text(), code);
    return std::nullopt;
  }
  return std::move(context.objects);
}

std::vector<copy_item> expand(const location &source,
                              const location &target,
                              const expand_options &options,
                              pool_session &session,
                              command_report &report) {
  bool const is_into_folder = options.into_folder || is_folder(target);
  if (is_into_folder && source.is_standard()) {
    report.fail(target.text(), -EINVAL, "standard input has no name: give the name of the object");
    return {};
  }
  location const base = is_into_folder ? target.under(last_name(source)) : target;
  if (source.is_standard())
    return {{source, base, 0}};
  if (!source.is_pool)
    return expand_file(source, base, options, report);
  if (is_into_folder && !base.is_pool && !last_name(source).empty() &&
      !is_safe_below(last_name(source))) {
    report.fail(source.text(), -EINVAL, "its name is not valid for a file");
    return {};
  }
  return options.recursive ? expand_objects(source, base, session, report)
                           : expand_object(source, base, session, report);
}

}  // namespace tanada::command
