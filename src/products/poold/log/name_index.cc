// The index of a log's names, with the changes of records that are not durable yet.
#include "core/base/assert.hpp"
#include "products/poold/log/live_set.hpp"

namespace tanada::pool {
namespace {

std::string make_key(const std::string &namespace_name, const std::string &name) {
  return namespace_name + '\0' + name;
}

}  // namespace

void name_index::apply(log_entry &entry, uint64_t sequence) {
  TND_ASSERT(changes_.empty() || changes_.back().sequence <= sequence);
  uint64_t const version = entry.meta.version;
  if (entry.kind == entry_kind::remove)
    return release_name(version, sequence);
  if (entry.kind == entry_kind::put) {
    entry.superseded_version =
        assign_name({entry.meta.namespace_name, entry.meta.name}, version, sequence);
    return;
  }
  auto const current = entry.has_name ? name_of(version) : std::nullopt;
  if (!current || current->name == entry.meta.name)
    return;
  release_name(version, sequence);
  entry.superseded_version =
      assign_name({current->namespace_name, entry.meta.name}, version, sequence);
}

// Empty: the version is unknown, removed or superseded.
std::optional<name_index::object_name> name_index::name_of(uint64_t version) const {
  auto const it = names_.find(version);
  if (it != names_.end())
    return it->second.name;
  auto const object = live_.find(version);
  if (!object)
    return {};
  return object_name{object->meta.namespace_name, object->meta.name};
}

uint64_t name_index::holder_of(const object_name &name) const {
  auto const it = holders_.find(make_key(name.namespace_name, name.name));
  return it != holders_.end() ? it->second.version
                              : live_.find_name(name.namespace_name, name.name);
}

// Returns the version that had the name; 0: none.
uint64_t name_index::assign_name(const object_name &name, uint64_t version, uint64_t sequence) {
  uint64_t const previous = holder_of(name);
  if (previous != 0)
    set_name(previous, std::nullopt, sequence);
  set_holder(name, version, sequence);
  set_name(version, name, sequence);
  return previous;
}

void name_index::release_name(uint64_t version, uint64_t sequence) {
  auto const name = name_of(version);
  if (!name)
    return;
  set_holder(*name, 0, sequence);
  set_name(version, std::nullopt, sequence);
}

void name_index::set_holder(const object_name &name, uint64_t version, uint64_t sequence) {
  std::string key = make_key(name.namespace_name, name.name);
  holders_[key] = {version, sequence};
  changes_.push_back({sequence, std::move(key), 0});
}

void name_index::set_name(uint64_t version, std::optional<object_name> name, uint64_t sequence) {
  names_[version] = {std::move(name), sequence};
  changes_.push_back({sequence, {}, version});
}

void name_index::forget_durable(uint64_t sequence) {
  for (; !changes_.empty() && changes_.front().sequence <= sequence; changes_.pop_front()) {
    const pending_change &change = changes_.front();
    if (change.version != 0) {
      auto const it = names_.find(change.version);
      if (it != names_.end() && it->second.sequence <= sequence)
        names_.erase(it);
      continue;
    }
    auto const it = holders_.find(change.key);
    if (it != holders_.end() && it->second.sequence <= sequence)
      holders_.erase(it);
  }
}

void name_index::forget_all() {
  holders_.clear();
  names_.clear();
  changes_.clear();
}

}  // namespace tanada::pool
