// tanada pool ls, stat, mv and rm.
#include <cstdio>

#include "pool_commands.hpp"
#include "pool_place.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

// A pool's URL; with `needs_object` one that names an object. nullopt: told, the command line is
// wrong.
std::optional<place> pool_place(const std::string &url, bool needs_object, answer &told,
                                bool needs_space = true) {
  auto made = place_parse(url, told, needs_space);
  if (!made)
    return std::nullopt;
  if (!made->is_pool || (needs_object && made->at.object.empty())) {
    told.fail(url, -EINVAL,
              needs_object ? "give pool://host[:port]/namespace/object"
                           : "give pool://host[:port]/namespace");
    return std::nullopt;
  }
  return made;
}

int wrong_words(answer &told) {
  told.finish();
  return 2;
}

nlohmann::json object_json(const std::string &name, const tnd_pool_info &info) {
  nlohmann::json made = info_json(info);
  made["name"] = name;
  return made;
}

struct list_context {
  answer &told;
  uint64_t count = 0, size = 0;
};

int list_entry(void *of, const char *name, const tnd_pool_info *info) {
  auto &context = *static_cast<list_context *>(of);
  context.count++;
  context.size += info->size;
  if (context.told.json()) {
    context.told.document()["objects"].push_back(object_json(name, *info));
    return 0;
  }
  std::printf("%12s  %s  %6llu  %-9s  %s\n", size_text(double(info->size)).c_str(),
              time_text(info->created_ns).c_str(), (unsigned long long)info->version,
              flags_text(info->flags).c_str(), printable(name).c_str());
  return 0;
}

int list_namespace(void *of, const char *name, const tnd_pool_namespace_info *info) {
  auto &told = *static_cast<answer *>(of);
  if (told.json()) {
    told.document()["namespaces"].push_back({{"name", name},
                                             {"object_count", info->object_count},
                                             {"used", info->used},
                                             {"owned", info->owned},
                                             {"quota", info->quota},
                                             {"segment_count", info->segment_count}});
    return 0;
  }
  std::printf("%-14s  %12s used  %12s owned  %s\n",
              count_text(info->object_count, "object").c_str(),
              size_text(double(info->used)).c_str(), size_text(double(info->owned)).c_str(),
              printable(name).c_str());
  return 0;
}

void print_object(const place &at, const tnd_pool_info &info) {
  nlohmann::json const all = info_json(info);
  std::printf("%s\n", printable(at.text()).c_str());
  std::printf("  size      %llu bytes (%s)\n", (unsigned long long)info.size,
              size_text(double(info.size)).c_str());
  std::printf("  version   %llu\n", (unsigned long long)info.version);
  std::printf("  committed %s UTC\n", time_text(info.created_ns).c_str());
  std::printf("  checksum  %s %s\n", checksum_name(info.checksum_kind),
              all["checksum"].get<std::string>().c_str());
  std::printf("  flags     %s\n", flags_text(info.flags).c_str());
}

nlohmann::json statistics_json(const tnd_pool_statistics &of) {
  return {{"client_count", of.client_count},
          {"capacity", of.capacity},
          {"used", of.used},
          {"object_count", of.object_count},
          {"namespace_used", of.space_used},
          {"namespace_object_count", of.space_object_count},
          {"namespace_quota", of.space_quota},
          {"written_size", of.written_size},
          {"read_size", of.read_size},
          {"commits", of.commits},
          {"opens", of.opens},
          {"evictions", of.evictions},
          {"errors", of.errors},
          {"uptime_s", double(of.uptime_ns) / 1e9}};
}

void print_pool(const place &at, const tnd_pool_connection &link, const tnd_pool_statistics &of,
                uint64_t owned) {
  auto const size = [](uint64_t bytes) {
    return size_text(double(bytes));
  };
  std::printf("%s\n", printable(space_url(at.at)).c_str());
  std::printf("  path      %s%s%s\n", pool::path_name(link.path), link.reason[0] != 0 ? ": " : "",
              printable(link.reason).c_str());
  std::printf("  rights    %s; %s\n", link.can_write != 0 ? "reading and writing" : "reading",
              link.is_durable != 0 ? "durable commits are kept" : "nothing outlives the daemon");
  std::printf("  pool      %s of %s used, %s, %s, up %s\n", size(of.used).c_str(),
              size(of.capacity).c_str(), count_text(of.object_count, "object").c_str(),
              count_text(of.client_count, "client").c_str(),
              duration_text(double(of.uptime_ns) / 1e9).c_str());
  std::printf("  namespace %s used, %s owned, %s, quota %s\n", size(of.space_used).c_str(),
              size(owned).c_str(), count_text(of.space_object_count, "object").c_str(),
              of.space_quota != 0 ? size(of.space_quota).c_str() : "none");
  std::printf(
      "  totals    %s written, %s read, %llu commits, %llu opens, %llu evictions, %llu errors\n",
      size(of.written_size).c_str(), size(of.read_size).c_str(), (unsigned long long)of.commits,
      (unsigned long long)of.opens, (unsigned long long)of.evictions,
      (unsigned long long)of.errors);
}

void stat_pool(const place &at, tnd_pool *pool, answer &told) {
  tnd_pool_connection link{};
  link.struct_size = sizeof link;
  tnd_pool_statistics counts{};
  counts.struct_size = sizeof counts;
  tnd_status code = tnd_pool_get_connection(pool, &link);
  if (code == TND_OK)
    code = tnd_pool_get_statistics(pool, &counts);
  uint64_t owned = 0;
  if (code == TND_OK)
    code = namespace_owned(pool, at.at.space, owned);
  if (code != TND_OK)
    return told.fail(at.text(), code);
  if (!told.json())
    return print_pool(at, link, counts, owned);
  nlohmann::json statistics = statistics_json(counts);
  statistics["namespace_owned"] = owned;
  told.document() = {{"connection", connection_json(space_url(at.at), link)},
                     {"statistics", statistics}};
}

}  // namespace

int pool_list(const pool_list_options &wanted) {
  answer told{wanted.json};
  auto const at = pool_place(wanted.url, false, told, false);
  bool const is_of_pool = at && at->at.space.empty();
  told.document()[is_of_pool ? "namespaces" : "objects"] = nlohmann::json::array();
  if (!at)
    return wrong_words(told);
  pool_session session{wanted, told};
  tnd_pool *const pool = session.connect(at->at);
  if (is_of_pool) {
    tnd_status const code =
        pool == nullptr ? TND_OK : tnd_pool_list_namespaces(pool, nullptr, list_namespace, &told);
    if (code != TND_OK)
      told.fail(wanted.url, code);
    return told.finish();
  }
  list_context context{told};
  tnd_status const code =
      pool == nullptr ? TND_OK : tnd_pool_list(pool, at->at.object.c_str(), list_entry, &context);
  if (code != TND_OK)
    told.fail(wanted.url, code);
  return told.finish();
}

int pool_stat(const pool_stat_options &wanted) {
  answer told{wanted.json};
  auto const at = pool_place(wanted.url, false, told);
  if (!at)
    return wrong_words(told);
  pool_session session{wanted, told};
  tnd_pool *const pool = session.connect(at->at);
  if (pool == nullptr)
    return told.finish();
  if (at->at.object.empty()) {
    stat_pool(*at, pool, told);
    return told.finish();
  }
  tnd_pool_info info{};
  tnd_status const code = tnd_pool_stat(pool, at->at.object.c_str(), wanted.version, &info);
  if (code != TND_OK)
    told.fail(at->text(), code);
  else if (wanted.json)
    told.document() = object_json(at->at.object, info);
  else
    print_object(*at, info);
  return told.finish();
}

int pool_move(const pool_move_options &wanted) {
  answer told{wanted.json};
  told.document()["moved"] = nlohmann::json::array();
  std::vector<place> all;
  for (std::string const &word : wanted.words) {
    auto made = pool_place(word, all.size() + 1 < wanted.words.size(), told);
    if (!made)
      return wrong_words(told);
    all.push_back(*std::move(made));
  }
  place const target = std::move(all.back());
  all.pop_back();
  bool const into = all.size() > 1 || target.at.object.empty() || target.at.object.ends_with('/');
  uint32_t const flags = (wanted.no_replace ? uint32_t(TND_POOL_EXCLUSIVE) : 0u) |
                         (wanted.durable ? uint32_t(TND_POOL_DURABLE) : 0u);
  pool_session session{wanted, told};
  for (place const &each : all) {
    if (space_url(each.at) != space_url(target.at)) {
      told.fail(each.text(), -EXDEV,
                "another namespace than the target's: copy it, then remove it");
      continue;
    }
    place const goal = into ? target.under(last_name(each)) : target;
    tnd_pool *const pool = session.connect(each.at);
    if (pool == nullptr)
      break;
    tnd_status const code =
        tnd_pool_rename(pool, each.at.object.c_str(), goal.at.object.c_str(), flags);
    if (code != TND_OK)
      told.fail(each.text(), code);
    else
      told.document()["moved"].push_back({{"source", each.text()}, {"target", goal.text()}});
  }
  return told.finish();
}

int pool_remove(const pool_remove_options &wanted) {
  answer told{wanted.json};
  told.document()["removed"] = nlohmann::json::array();
  std::vector<place> all;
  for (std::string const &url : wanted.urls) {
    auto made = pool_place(url, !wanted.recursive, told);
    if (!made)
      return wrong_words(told);
    all.push_back(*std::move(made));
  }
  pool_session session{wanted, told};
  for (place const &each : all) {
    std::vector<listed_object> found{{each.at.object, {}}};
    if (wanted.recursive) {
      auto listed = list_under(each, session, told);
      if (!listed)
        continue;
      found = *std::move(listed);
      if (found.empty() && !wanted.force)
        told.fail(each.text(), -ENOENT, "no object is there or under it");
    }
    tnd_pool *const pool = found.empty() ? nullptr : session.connect(each.at);
    if (pool == nullptr)
      continue;
    for (listed_object const &one : found) {
      tnd_status const code =
          tnd_pool_remove(pool, one.name.c_str(), wanted.durable ? uint32_t(TND_POOL_DURABLE) : 0u);
      if (code == TND_OK)
        told.document()["removed"].push_back(object_url(each.at, one.name));
      else if (code != -ENOENT || !wanted.force)
        told.fail(object_url(each.at, one.name), code);
    }
  }
  return told.finish();
}

}  // namespace tanada::command
