// tanada pool cp and cat.
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

// False: told. The command line is wrong.
bool parse_words(const pool_copy_options &wanted, std::vector<place> &sources, place &target,
                 answer &told) {
  for (std::string const &word : wanted.words) {
    auto made = place_parse(word, told);
    if (!made)
      return false;
    sources.push_back(*std::move(made));
  }
  target = std::move(sources.back());
  sources.pop_back();
  for (place const &source : sources)
    if (!source.is_pool && !target.is_pool) {
      told.fail(source.text(), -EINVAL, "neither it nor the target is in a pool");
      return false;
    }
  if (wanted.recursive && target.is_standard()) {
    told.fail("-r", -EINVAL, "standard output has no place for more than one object");
    return false;
  }
  return true;
}

bool make_folder_of(const place &target, answer &told) {
  std::error_code error;
  auto const folder = std::filesystem::path(target.path).parent_path();
  if (!folder.empty())
    std::filesystem::create_directories(folder, error);
  if (error)
    told.fail(folder.string(), -error.value(), error.message());
  return !error;
}

copy_options options_of(const pool_copy_options &wanted) {
  copy_options how;
  if (wanted.evictable)
    how.object_flags |= TND_POOL_EVICTABLE;
  if (wanted.pinned)
    how.object_flags |= TND_POOL_PINNED;
  if (wanted.durable)
    how.commit_flags |= TND_POOL_DURABLE;
  how.replace = !wanted.no_replace;
  how.version = wanted.version;
  return how;
}

// "by shared-memory"; of more than one connection the paths of each.
std::string paths_text(const nlohmann::json &document) {
  std::string text;
  for (nlohmann::json const &each : document["connections"])
    for (auto const &[path, moved] : each["traffic"].items())
      text += (text.empty() ? "by " : " and ") + path;
  return text.empty() ? "no bytes" : text;
}

void copy_all(const pool_copy_options &wanted, const std::vector<copy_item> &items,
              pool_session &session, answer &told) {
  uint64_t total = 0;
  for (copy_item const &each : items)
    total += each.size;
  auto const start = clock::now();
  progress shown{!wanted.quiet, total};
  uint64_t copied_size = 0;
  size_t copied_count = 0, number = 0;
  for (copy_item const &each : items) {
    number++;
    shown.name(items.size() == 1 ? last_name(each.source)
                                 : std::to_string(number) + "/" + std::to_string(items.size()) +
                                       " " + last_name(each.source));
    if (wanted.recursive && !each.target.is_pool && !make_folder_of(each.target, told))
      continue;
    auto const began = clock::now();
    copy_outcome outcome;
    bool const done = copy_one(
        each, options_of(wanted), session, told, [&](size_t size) { shown.add(size); }, outcome);
    if (!done)
      continue;
    copied_count++;
    copied_size += outcome.size;
    if (wanted.json)
      told.document()["copied"].push_back(outcome_json(each, outcome, seconds_since(began)));
  }
  shown.clear();
  told.document()["connections"] = session.connections_json();
  double const seconds = seconds_since(start);
  bool const to_output = !items.empty() && items.front().target.is_standard();
  if (!wanted.json && !wanted.quiet && !to_output && copied_count > 0)
    std::printf("%zu %s, %s in %s, %s/s, %s\n", copied_count, copied_count == 1 ? "copy" : "copies",
                size_text(double(copied_size)).c_str(), duration_text(seconds).c_str(),
                size_text(seconds > 0 ? double(copied_size) / seconds : 0).c_str(),
                paths_text(told.document()).c_str());
}

// Base64 on standard output, in parts: 3 bytes are 4 characters.
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
    sodium_bin2base64(text.data(), text.size(),
                      reinterpret_cast<const unsigned char *>(rest_.data()), size,
                      sodium_base64_VARIANT_ORIGINAL);
    std::fputs(text.c_str(), stdout);
    rest_.erase(rest_.begin(), rest_.begin() + ptrdiff_t(size));
  }
  std::vector<std::byte> rest_;
};

// One line of JSON an object; "complete" is false when the bytes before it are not all there are.
void cat_json(const place &from, const copy_options &how, pool_session &session, answer &told) {
  auto const source = source_open(from, how, session, told);
  std::printf("{\"url\":%s,\"base64\":\"", dump(from.text(), -1).c_str());
  std::vector<std::byte> chunk(copy_chunk_size);
  base64_output out;
  copy_outcome outcome;
  bool is_good = source != nullptr;
  for (size_t got = 1; is_good && got > 0;) {
    is_good = source->read(chunk.data(), chunk.size(), got);
    if (is_good)
      out.add(chunk.data(), got);
  }
  out.finish();
  is_good = is_good && source->verify(outcome);
  std::printf("\",\"complete\":%s,\"verified\":%s}\n", is_good ? "true" : "false",
              outcome.is_verified ? "true" : "false");
}

}  // namespace

int pool_copy(const pool_copy_options &wanted) {
  answer told{wanted.json};
  told.document()["copied"] = nlohmann::json::array();
  pool_session session{wanted, told};
  std::vector<place> sources;
  place target;
  if (!parse_words(wanted, sources, target, told)) {
    told.finish();
    return 2;
  }
  if (wanted.json && target.is_standard()) {
    told.fail("-", -EINVAL, "standard output is for --json");
    told.finish();
    return 2;
  }
  interruption_install();
  std::vector<copy_item> items;
  for (place const &source : sources)
    for (copy_item &each :
         expand(source, target, {wanted.recursive, sources.size() > 1}, session, told))
      items.push_back(std::move(each));
  copy_all(wanted, items, session, told);
  return told.finish();
}

int pool_cat(const pool_cat_options &wanted) {
  answer told{false};
  pool_session session{wanted, told};
  copy_options how;
  how.version = wanted.version;
  place output;
  output.path = "-";
  for (std::string const &url : wanted.urls) {
    auto const from = place_parse(url, told);
    if (!from || !from->is_pool || from->at.object.empty()) {
      if (from)
        told.fail(url, -EINVAL, "give pool://host[:port]/namespace/object");
      return 2;
    }
    copy_outcome outcome;
    if (wanted.json)
      cat_json(*from, how, session, told);
    else
      (void)copy_one({*from, output, 0}, how, session, told, [](size_t) {}, outcome);
  }
  return told.finish();
}

}  // namespace tanada::command
