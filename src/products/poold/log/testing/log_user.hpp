// products/poold/log/testing/log_user.hpp: a test client of the log that commits and waits.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "products/poold/log/log.hpp"

namespace tanada::pool {

class log_user {
 public:
  log_user(seams::store &store, seams::clock &clock) : store_{store}, clock_{clock} {}

  status open(log_options options) {
    log.reset();
    with_data = options.with_data;
    auto opened = durable_log::open(store_, clock_, std::move(options));
    if (!opened.ok())
      return opened.error();
    log = std::move(opened).value();
    return status::ok;
  }

  // The result is empty until the log reports the transaction's status.
  std::shared_ptr<std::optional<status>> begin(const transaction &changes) {
    auto const outcome = std::make_shared<std::optional<status>>();
    auto const code = log->append(changes, [outcome](status done) { *outcome = done; });
    if (code != status::ok)
      *outcome = code;
    return outcome;
  }
  status wait(const std::shared_ptr<std::optional<status>> &outcome) {
    while (!*outcome) {
      if (!log->poll())
        clock_.sleep_ns(10'000);
    }
    return **outcome;
  }
  status commit(const transaction &changes) {
    return wait(begin(changes));
  }

  // The bytes must stay valid until the commit completes.
  change put(const std::string &name, uint64_t version, const std::string &bytes) const {
    change update;
    update.meta = {.namespace_name = "space",
                   .name = name,
                   .version = version,
                   .size = bytes.size(),
                   .created_ns = 1,
                   .flags = 0,
                   .kind = checksum_kind::xxh3,
                   .checksum = checksum_of(checksum_kind::xxh3, std::as_bytes(std::span{bytes}))};
    if (with_data)
      update.data = {std::as_bytes(std::span{bytes})};
    else
      update.extents = {{version * 4096, bytes.size()}};
    return update;
  }
  static change of_kind(change_kind kind,
                        uint64_t version,
                        const std::string &new_name = "",
                        uint32_t flags = 0) {
    change update;
    update.kind = kind;
    update.meta.version = version;
    update.meta.flags = flags;
    update.new_name = new_name;
    return update;
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
    std::optional<status> outcome;
    auto *const target = reinterpret_cast<std::byte *>(text.data());
    if (log->read(version, 0, {{target, text.size()}}, [&](status code) { outcome = code; }) !=
        status::ok)
      return "?";
    while (!outcome) {
      if (!log->poll())
        clock_.sleep_ns(10'000);
    }
    bool const whole = *outcome == status::ok &&
                       checksum_of(meta.kind, std::as_bytes(std::span{text})) == meta.checksum;
    return whole ? text : "?";
  }

  std::map<std::string, uint64_t> names() const {
    std::map<std::string, uint64_t> versions;
    log->visit(
        [&](const live_object &object) { versions[object.meta.name] = object.meta.version; });
    return versions;
  }

  std::unique_ptr<durable_log> log;
  bool with_data = true;

 private:
  seams::store &store_;
  seams::clock &clock_;
};

// Bytes that depend on the seed and the position.
inline std::string some_bytes(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; i++)
    text[i] = char((i * 2'654'435'761u + seed * 40'503u) >> 13);
  return text;
}

}  // namespace tanada::pool
