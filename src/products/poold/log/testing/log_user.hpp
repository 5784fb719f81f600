// products/poold/log/testing/log_user.hpp: whoever commits one thing at a time and waits for it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "products/poold/log/log.hpp"

namespace tanada::pool {

class log_user {
 public:
  log_user(port::store &store, port::clock &clock) : store_{store}, clock_{clock} {}

  status open(log_options options) {
    log.reset();
    with_data = options.with_data;
    auto made = durable_log::open(store_, clock_, std::move(options));
    if (!made.ok())
      return made.error();
    log = std::move(made).value();
    return status::ok;
  }

  // Nothing for as long as the log takes, a status when it has told.
  std::shared_ptr<std::optional<status>> begin(const transaction &changes) {
    auto const told = std::make_shared<std::optional<status>>();
    auto const code = log->append(changes, [told](status done) { *told = done; });
    if (code != status::ok)
      *told = code;
    return told;
  }
  status wait(const std::shared_ptr<std::optional<status>> &told) {
    while (!*told) {
      if (!log->poll())
        clock_.sleep_ns(10'000);
    }
    return **told;
  }
  status commit(const transaction &changes) {
    return wait(begin(changes));
  }

  // The bytes must live until the commit has told.
  change put(const std::string &name, uint64_t version, const std::string &bytes) const {
    change made;
    made.meta = {.space = "space",
                 .name = name,
                 .version = version,
                 .size = bytes.size(),
                 .created_ns = 1,
                 .flags = 0,
                 .kind = checksum_kind::xxh3,
                 .checksum = checksum_of(checksum_kind::xxh3, std::as_bytes(std::span{bytes}))};
    if (with_data)
      made.data = {std::as_bytes(std::span{bytes})};
    else
      made.extents = {{version * 4096, bytes.size()}};
    return made;
  }
  static change of_kind(change_kind kind, uint64_t version, const std::string &new_name = "",
                        uint32_t flags = 0) {
    change made;
    made.kind = kind;
    made.meta.version = version;
    made.meta.flags = flags;
    made.new_name = new_name;
    return made;
  }
  static change remove(uint64_t version) {
    return of_kind(change_kind::remove, version);
  }
  static change rename(uint64_t version, const std::string &name) {
    return of_kind(change_kind::rename, version, name);
  }

  // An object's bytes; "?" when they do not match its checksum or cannot be read.
  std::string read(uint64_t version) {
    auto const meta = log->find(version)->meta;
    std::string text(meta.size, '\0');
    std::optional<status> told;
    auto *const target = reinterpret_cast<std::byte *>(text.data());
    if (log->read(version, 0, {{target, text.size()}}, [&](status code) { told = code; }) !=
        status::ok)
      return "?";
    while (!told) {
      if (!log->poll())
        clock_.sleep_ns(10'000);
    }
    bool const whole = *told == status::ok &&
                       checksum_of(meta.kind, std::as_bytes(std::span{text})) == meta.checksum;
    return whole ? text : "?";
  }

  std::map<std::string, uint64_t> names() const {
    std::map<std::string, uint64_t> found;
    log->visit([&](const live_object &each) { found[each.meta.name] = each.meta.version; });
    return found;
  }

  std::unique_ptr<durable_log> log;
  bool with_data = true;

 private:
  port::store &store_;
  port::clock &clock_;
};

// Bytes that differ by seed and place.
inline std::string some_bytes(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; i++)
    text[i] = char((i * 2'654'435'761u + seed * 40'503u) >> 13);
  return text;
}

}  // namespace tanada::pool
