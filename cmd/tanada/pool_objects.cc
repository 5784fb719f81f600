// cmd/tanada/pool_objects.cc: tanada pool ls, stat, mv and rm.
#include <algorithm>
#include <cstdio>
#include <map>

#include "pool_commands.hpp"
#include "pool_location.hpp"
#include "pool_members.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

// Parses a pool's URL, which must name an object if `needs_object`. Returns nullopt after reporting
// an error in the command line.
std::optional<location> pool_location(const std::string &url,
                                      bool needs_object,
                                      command_report &report,
                                      bool needs_space = true) {
  auto parsed = location_parse(url, report, needs_space);
  if (!parsed)
    return std::nullopt;
  if (!parsed->is_pool || (needs_object && parsed->address.object.empty())) {
    report.fail(url,
                -EINVAL,
                needs_object ? "give pool://host[:port]/namespace/object"
                             : "give pool://host[:port]/namespace");
    return std::nullopt;
  }
  return parsed;
}

int finish_usage_error(command_report &report) {
  report.finish();
  return 2;
}

nlohmann::json object_json(const std::string &name, const tnd_pool_info &info) {
  nlohmann::json document = info_json(info);
  document["name"] = name;
  return document;
}

struct list_context {
  command_report &report;
  uint64_t count = 0, size = 0;
};

int list_prefix(list_context &context, const char *prefix) {
  if (context.report.json())
    context.report.document()["prefixes"].push_back(prefix);
  else
    std::printf("%12s  %s\n", "PREFIX", printable(prefix).c_str());
  return 0;
}

int list_entry(void *context_ptr, const char *name, const tnd_pool_info *info) {
  auto &context = *static_cast<list_context *>(context_ptr);
  if (info == nullptr)
    return list_prefix(context, name);
  context.count++;
  context.size += info->size;
  if (context.report.json()) {
    context.report.document()["objects"].push_back(object_json(name, *info));
    return 0;
  }
  std::printf("%12s  %s  %6llu  %-9s  %s\n",
              size_text(double(info->size)).c_str(),
              time_text(info->created_ns).c_str(),
              (unsigned long long)info->version,
              flags_text(info->flags).c_str(),
              printable(name).c_str());
  return 0;
}

// A namespace of the pool. All servers that have a copy have the same objects, apart from those
// that are still being copied; memory is bound to it on each of them.
struct pool_space {
  tnd_pool_namespace_info about{};
  std::vector<std::string> servers;  // of a cluster
};

struct space_context {
  std::string server;  // that lists; empty: the pool is one server
  std::map<std::string, pool_space> spaces;
};

int add_namespace(void *context_ptr, const char *name, const tnd_pool_namespace_info *info) {
  auto &context = *static_cast<space_context *>(context_ptr);
  pool_space &space = context.spaces[name];
  tnd_pool_namespace_info &about = space.about;
  about.object_count = std::max(about.object_count, info->object_count);
  about.used = std::max(about.used, info->used);
  about.quota = std::max(about.quota, info->quota);
  about.owned += info->owned;
  about.segment_count += info->segment_count;
  if (!context.server.empty())
    space.servers.push_back(context.server);
  return 0;
}

void print_namespace(const std::string &name, const pool_space &space, command_report &report) {
  tnd_pool_namespace_info const &about = space.about;
  if (report.json()) {
    nlohmann::json entry{{"name", name},
                         {"object_count", about.object_count},
                         {"used", about.used},
                         {"owned", about.owned},
                         {"quota", about.quota},
                         {"segment_count", about.segment_count}};
    if (!space.servers.empty())
      entry["servers"] = space.servers;
    report.document()["namespaces"].push_back(entry);
    return;
  }
  std::printf("%-14s  %12s used  %12s owned  %s\n",
              count_text(about.object_count, "object").c_str(),
              size_text(double(about.used)).c_str(),
              size_text(double(about.owned)).c_str(),
              printable(name).c_str());
}

// The namespaces of the pool, in a cluster those of all servers.
void list_namespaces(const pool_list_options &options,
                     tnd_pool *pool,
                     const pool_session &session,
                     command_report &report) {
  std::vector<pool_member> members;
  tnd_status code =
      options.one_server ? TND_OK : connect_members(pool, session.config(), members);
  space_context context;
  if (code == TND_OK && members.empty())
    code = tnd_pool_list_namespaces(pool, nullptr, add_namespace, &context);
  for (pool_member const &member : members) {
    context.server = member.name;
    tnd_status listed = member.code;
    if (listed == TND_OK)
      listed =
          tnd_pool_list_namespaces(member.connection.get(), nullptr, add_namespace, &context);
    if (listed != TND_OK)
      report.fail("server " + member.name,
                  listed,
                  member.code == TND_OK ? tnd_last_message() : member.reason);
  }
  if (code != TND_OK)
    report.fail(options.url, code);
  for (auto const &[name, space] : context.spaces)
    print_namespace(name, space, report);
}

void print_object(const location &source, const tnd_pool_info &info) {
  nlohmann::json const document = info_json(info);
  std::printf("%s\n", printable(source.text()).c_str());
  std::printf("  size      %llu bytes (%s)\n",
              (unsigned long long)info.size,
              size_text(double(info.size)).c_str());
  std::printf("  version   %llu\n", (unsigned long long)info.version);
  std::printf("  committed %s UTC\n", time_text(info.created_ns).c_str());
  std::printf("  checksum  %s %s\n",
              checksum_name(info.checksum_kind),
              document["checksum"].get<std::string>().c_str());
  std::printf("  flags     %s\n", flags_text(info.flags).c_str());
}

nlohmann::json statistics_json(const tnd_pool_statistics &statistics) {
  return {{"client_count", statistics.client_count},
          {"capacity", statistics.capacity},
          {"used", statistics.used},
          {"object_count", statistics.object_count},
          {"namespace_used", statistics.space_used},
          {"namespace_object_count", statistics.space_object_count},
          {"namespace_quota", statistics.space_quota},
          {"written_size", statistics.written_size},
          {"read_size", statistics.read_size},
          {"commits", statistics.commits},
          {"opens", statistics.opens},
          {"evictions", statistics.evictions},
          {"errors", statistics.errors},
          {"uptime_s", double(statistics.uptime_ns) / 1e9}};
}

struct pool_counts {
  tnd_pool_statistics sum{};
  uint64_t owned = 0;  // by the namespace, on the server that serves it
  std::vector<member_counts> members;
};

void print_pool(const location &source,
                const tnd_pool_connection &link,
                const pool_counts &counts) {
  tnd_pool_statistics const &statistics = counts.sum;
  auto const size = [](uint64_t bytes) {
    return size_text(double(bytes));
  };
  std::printf("%s\n", printable(space_url(source.address)).c_str());
  std::printf("  path      %s%s%s\n",
              pool::path_name(link.path),
              link.reason[0] != 0 ? ": " : "",
              printable(link.reason).c_str());
  std::printf("  rights    %s; %s\n",
              link.can_write != 0 ? "reading and writing" : "reading",
              link.is_durable != 0 ? "durable commits are kept" : "nothing outlives the daemon");
  std::printf("  pool      %s of %s used, %s, %s, up %s\n",
              size(statistics.used).c_str(),
              size(statistics.capacity).c_str(),
              count_text(statistics.object_count, "object").c_str(),
              count_text(statistics.client_count, "client").c_str(),
              duration_text(double(statistics.uptime_ns) / 1e9).c_str());
  std::printf("  namespace %s used, %s owned, %s, quota %s\n",
              size(statistics.space_used).c_str(),
              size(counts.owned).c_str(),
              count_text(statistics.space_object_count, "object").c_str(),
              statistics.space_quota != 0 ? size(statistics.space_quota).c_str() : "none");
  std::printf(
      "  totals    %s written, %s read, %llu commits, %llu opens, %llu evictions, %llu errors\n",
      size(statistics.written_size).c_str(),
      size(statistics.read_size).c_str(),
      (unsigned long long)statistics.commits,
      (unsigned long long)statistics.opens,
      (unsigned long long)statistics.evictions,
      (unsigned long long)statistics.errors);
  for (auto const &[name, part] : counts.members)
    std::printf("  server    %s: %s of %s used, %s, %s written, %s read, up %s\n",
                printable(name).c_str(),
                size(part.used).c_str(),
                size(part.capacity).c_str(),
                count_text(part.object_count, "object").c_str(),
                size(part.written_size).c_str(),
                size(part.read_size).c_str(),
                duration_text(double(part.uptime_ns) / 1e9).c_str());
}

// The counters of the pool; in a cluster they are the sums of all servers.
tnd_status count_pool(const location &source,
                      tnd_pool *pool,
                      const pool_session &session,
                      pool_counts &counts,
                      command_report &report) {
  counts.sum.struct_size = sizeof counts.sum;
  tnd_status code = tnd_pool_get_statistics(pool, &counts.sum);
  if (code == TND_OK)
    code = namespace_owned(pool, source.address.space, counts.owned);
  std::vector<std::string> problems;
  if (code == TND_OK)
    code = count_members(pool, session.config(), counts.members, problems);
  for (std::string const &problem : problems)
    report.fail(source.text(), -TND_EPEER, problem);
  sum_counts(counts.members, counts.sum);
  return code;
}

void stat_pool(const location &source,
               tnd_pool *pool,
               const pool_session &session,
               command_report &report) {
  tnd_pool_connection link{};
  link.struct_size = sizeof link;
  pool_counts counts;
  tnd_status code = tnd_pool_get_connection(pool, &link);
  if (code == TND_OK)
    code = count_pool(source, pool, session, counts, report);
  if (code != TND_OK)
    return report.fail(source.text(), code);
  if (!report.json())
    return print_pool(source, link, counts);
  nlohmann::json statistics = statistics_json(counts.sum);
  statistics["namespace_owned"] = counts.owned;
  report.document()["connection"] = connection_json(space_url(source.address), link);
  report.document()["statistics"] = statistics;
  for (auto const &[name, part] : counts.members) {
    nlohmann::json entry = statistics_json(part);
    for (const char *const of_namespace :
         {"namespace_used", "namespace_object_count", "namespace_quota"})
      entry.erase(of_namespace);
    entry["name"] = name;
    report.document()["servers"].push_back(entry);
  }
}

}  // namespace

int pool_list(const pool_list_options &options) {
  command_report report{options.json};
  auto const target = pool_location(options.url, false, report, false);
  bool const is_of_pool = target && target->address.space.empty();
  report.document()[is_of_pool ? "namespaces" : "objects"] = nlohmann::json::array();
  if (!target)
    return finish_usage_error(report);
  pool_session session{options, report};
  tnd_pool *const pool = session.connect(target->address);
  if (is_of_pool) {
    if (pool != nullptr)
      list_namespaces(options, pool, session, report);
    return report.finish();
  }
  list_context context{report};
  if (!options.delimiter.empty())
    report.document()["prefixes"] = nlohmann::json::array();
  tnd_status code = TND_OK;
  if (pool != nullptr)
    code = tnd_pool_list_delimited(
        pool, target->address.object.c_str(), options.delimiter.c_str(), list_entry, &context);
  if (code != TND_OK)
    report.fail(options.url, code);
  return report.finish();
}

int pool_stat(const pool_stat_options &options) {
  command_report report{options.json};
  auto const target = pool_location(options.url, false, report);
  if (!target)
    return finish_usage_error(report);
  pool_session session{options, report};
  tnd_pool *const pool = session.connect(target->address);
  if (pool == nullptr)
    return report.finish();
  if (target->address.object.empty()) {
    stat_pool(*target, pool, session, report);
    return report.finish();
  }
  tnd_pool_info info{};
  tnd_status const code =
      tnd_pool_stat(pool, target->address.object.c_str(), options.version, &info);
  if (code != TND_OK)
    report.fail(target->text(), code);
  else if (options.json)
    report.document() = object_json(target->address.object, info);
  else
    print_object(*target, info);
  return report.finish();
}

int pool_move(const pool_move_options &options) {
  command_report report{options.json};
  report.document()["moved"] = nlohmann::json::array();
  std::vector<location> sources;
  for (std::string const &word : options.arguments) {
    auto parsed = pool_location(word, sources.size() + 1 < options.arguments.size(), report);
    if (!parsed)
      return finish_usage_error(report);
    sources.push_back(*std::move(parsed));
  }
  location const target = std::move(sources.back());
  sources.pop_back();
  bool const is_into_prefix =
      sources.size() > 1 || target.address.object.empty() || target.address.object.ends_with('/');
  uint32_t const flags = (options.no_replace ? uint32_t(TND_POOL_EXCLUSIVE) : 0u) |
                         (options.durable ? uint32_t(TND_POOL_DURABLE) : 0u);
  pool_session session{options, report};
  for (location const &source : sources) {
    if (space_url(source.address) != space_url(target.address)) {
      report.fail(
          source.text(),
          -EXDEV,
          "source and target are in different namespaces: copy the object, then remove the source");
      continue;
    }
    location const goal = is_into_prefix ? target.under(last_name(source)) : target;
    tnd_pool *const pool = session.connect(source.address);
    if (pool == nullptr)
      break;
    tnd_status const code =
        tnd_pool_rename(pool, source.address.object.c_str(), goal.address.object.c_str(), flags);
    if (code != TND_OK)
      report.fail(source.text(), code);
    else
      report.document()["moved"].push_back({{"source", source.text()}, {"target", goal.text()}});
  }
  return report.finish();
}

int pool_remove(const pool_remove_options &options) {
  command_report report{options.json};
  report.document()["removed"] = nlohmann::json::array();
  std::vector<location> targets;
  for (std::string const &url : options.urls) {
    auto parsed = pool_location(url, !options.recursive, report);
    if (!parsed)
      return finish_usage_error(report);
    targets.push_back(*std::move(parsed));
  }
  pool_session session{options, report};
  for (location const &target : targets) {
    std::vector<listed_object> objects{{target.address.object, {}}};
    if (options.recursive) {
      auto listed = list_under(target, session, report);
      if (!listed)
        continue;
      objects = *std::move(listed);
      if (objects.empty() && !options.force)
        report.fail(target.text(), -ENOENT, "there is no such object or prefix");
    }
    tnd_pool *const pool = objects.empty() ? nullptr : session.connect(target.address);
    if (pool == nullptr)
      continue;
    for (listed_object const &object : objects) {
      tnd_status const code = tnd_pool_remove(
          pool, object.name.c_str(), options.durable ? uint32_t(TND_POOL_DURABLE) : 0u);
      if (code == TND_OK)
        report.document()["removed"].push_back(object_url(target.address, object.name));
      else if (code != -ENOENT || !options.force)
        report.fail(object_url(target.address, object.name), code);
    }
  }
  return report.finish();
}

}  // namespace tanada::command
