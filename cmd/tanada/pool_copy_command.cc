// cmd/tanada/pool_copy_command.cc: tanada pool cp and cat.
#include <sodium.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "interruption.hpp"
#include "pool_commands.hpp"
#include "pool_copy.hpp"
#include "progress.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

nlohmann::json outcome_json(const copy_item &item, const copy_outcome &outcome, double seconds) {
  char checksum[32];
  std::snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)outcome.checksum);
  return {{"source", item.source.text()},
          {"target", item.target.text()},
          {"size", outcome.size},
          {"seconds", seconds},
          {"version", outcome.version},
          {"checksum_kind", checksum_name(outcome.checksum_kind)},
          {"checksum", outcome.checksum_kind == TND_POOL_CHECKSUM_NONE ? "" : checksum},
          {"verified", outcome.is_verified},
          {"read_path", outcome.read_path},
          {"write_path", outcome.write_path}};
}

// Returns false after reporting an error in the command line.
bool parse_words(const pool_copy_options &options,
                 std::vector<location> &sources,
                 location &target,
                 command_report &report) {
  for (std::string const &word : options.arguments) {
    auto parsed = location_parse(word, report);
    if (!parsed)
      return false;
    sources.push_back(*std::move(parsed));
  }
  target = std::move(sources.back());
  sources.pop_back();
  for (location const &source : sources)
    if (!source.is_pool && !target.is_pool) {
      report.fail(source.text(), -EINVAL, "neither the source nor the target is in a pool");
      return false;
    }
  if (options.recursive && target.is_standard()) {
    report.fail("-r", -EINVAL, "standard output can take only one object");
    return false;
  }
  return true;
}

bool make_folder_of(const location &target, command_report &report) {
  std::error_code error;
  auto const folder = std::filesystem::path(target.path).parent_path();
  if (!folder.empty())
    std::filesystem::create_directories(folder, error);
  if (error)
    report.fail(folder.string(), -error.value(), error.message());
  return !error;
}

copy_options options_of(const pool_copy_options &options) {
  copy_options settings;
  if (options.evictable)
    settings.object_flags |= TND_POOL_EVICTABLE;
  if (options.pinned)
    settings.object_flags |= TND_POOL_PINNED;
  if (options.durable)
    settings.commit_flags |= TND_POOL_DURABLE;
  settings.replace = !options.no_replace;
  settings.version = options.version;
  return settings;
}

// For example "by shared-memory"; with several connections, the paths of each.
std::string paths_text(const nlohmann::json &document) {
  std::string text;
  for (nlohmann::json const &connection : document["connections"])
    for (auto const &[path, moved] : connection["traffic"].items())
      text += (text.empty() ? "by " : " and ") + path;
  return text.empty() ? "no bytes" : text;
}

void copy_all(const pool_copy_options &options,
              const std::vector<copy_item> &items,
              pool_session &session,
              command_report &report) {
  uint64_t total = 0;
  for (copy_item const &item : items)
    total += item.size;
  auto const start = clock::now();
  progress shown{!options.quiet, total};
  uint64_t copied_size = 0;
  size_t copied_count = 0, number = 0;
  for (copy_item const &item : items) {
    number++;
    shown.name(items.size() == 1 ? last_name(item.source)
                                 : std::to_string(number) + "/" + std::to_string(items.size()) +
                                       " " + last_name(item.source));
    if (options.recursive && !item.target.is_pool && !make_folder_of(item.target, report))
      continue;
    auto const began = clock::now();
    copy_outcome outcome;
    bool const done = copy_item_bytes(
        item, options_of(options), session, report, [&](size_t size) { shown.add(size); }, outcome);
    if (!done)
      continue;
    copied_count++;
    copied_size += outcome.size;
    if (options.json)
      report.document()["copied"].push_back(outcome_json(item, outcome, seconds_since(began)));
  }
  shown.clear();
  report.document()["connections"] = session.connections_json();
  double const seconds = seconds_since(start);
  bool const to_output = !items.empty() && items.front().target.is_standard();
  if (!options.json && !options.quiet && !to_output && copied_count > 0)
    std::printf("%zu %s, %s in %s, %s/s, %s\n",
                copied_count,
                copied_count == 1 ? "copy" : "copies",
                size_text(double(copied_size)).c_str(),
                duration_text(seconds).c_str(),
                size_text(seconds > 0 ? double(copied_size) / seconds : 0).c_str(),
                paths_text(report.document()).c_str());
}

// Writes base64 to standard output in chunks: 3 bytes are 4 characters.
class base64_output {
 public:
  void add(const std::byte *source, size_t size) {
    rest_.insert(rest_.end(), source, source + size);
    put(rest_.size() - rest_.size() % 3);
  }
  void finish() {
    put(rest_.size());
  }

 private:
  void put(size_t size) {
    std::string text(sodium_base64_ENCODED_LEN(size, sodium_base64_VARIANT_ORIGINAL), 0);
    sodium_bin2base64(text.data(),
                      text.size(),
                      reinterpret_cast<const unsigned char *>(rest_.data()),
                      size,
                      sodium_base64_VARIANT_ORIGINAL);
    std::fputs(text.c_str(), stdout);
    rest_.erase(rest_.begin(), rest_.begin() + ptrdiff_t(size));
  }
  std::vector<std::byte> rest_;
};

// Prints one line of JSON for each object. "complete" is false if the bytes before it are only a
// part of the object.
void cat_json(const location &source_location,
              const copy_options &settings,
              pool_session &session,
              command_report &report) {
  auto const source = source_open(source_location, settings, session, report);
  std::printf("{\"url\":%s,\"base64\":\"", dump(source_location.text(), -1).c_str());
  std::vector<std::byte> chunk(copy_chunk_size);
  base64_output encoder;
  copy_outcome outcome;
  bool is_good = source != nullptr;
  for (size_t got = 1; is_good && got > 0;) {
    is_good = source->read(chunk.data(), chunk.size(), got);
    if (is_good)
      encoder.add(chunk.data(), got);
  }
  encoder.finish();
  is_good = is_good && source->verify(outcome);
  std::printf("\",\"complete\":%s,\"verified\":%s}\n",
              is_good ? "true" : "false",
              outcome.is_verified ? "true" : "false");
}

}  // namespace

int pool_copy(const pool_copy_options &options) {
  command_report report{options.json};
  report.document()["copied"] = nlohmann::json::array();
  pool_session session{options, report};
  std::vector<location> sources;
  location target;
  if (!parse_words(options, sources, target, report)) {
    report.finish();
    return 2;
  }
  if (options.json && target.is_standard()) {
    report.fail("-", -EINVAL, "cannot copy to standard output with --json");
    report.finish();
    return 2;
  }
  interruption_install();
  std::vector<copy_item> items;
  for (location const &source : sources)
    for (copy_item &item :
         expand(source, target, {options.recursive, sources.size() > 1}, session, report))
      items.push_back(std::move(item));
  copy_all(options, items, session, report);
  return report.finish();
}

int pool_cat(const pool_cat_options &options) {
  command_report report{false};
  pool_session session{options, report};
  copy_options settings;
  settings.version = options.version;
  location output;
  output.path = "-";
  for (std::string const &url : options.urls) {
    auto const source_location = location_parse(url, report);
    if (!source_location || !source_location->is_pool || source_location->address.object.empty()) {
      if (source_location)
        report.fail(url, -EINVAL, "give pool://host[:port]/namespace/object");
      return 2;
    }
    copy_outcome outcome;
    if (options.json)
      cat_json(*source_location, settings, session, report);
    else
      (void)copy_item_bytes(
          {*source_location, output, 0}, settings, session, report, [](size_t) {}, outcome);
  }
  return report.finish();
}

}  // namespace tanada::command
