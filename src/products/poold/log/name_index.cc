#include "products/poold/log/name_index.hpp"

namespace tanada::pool {
namespace {

std::string key_of(const std::string &space, const std::string &name) {
  return space + '\0' + name;
}

}  // namespace

void name_index::build(
    const live_set &live,
    const std::function<void(const live_object &loser, const live_object &winner)> &lose) {
  names_.clear();
  holders_.clear();
  live.visit([&](const live_object &object) {
    const auto &meta = object.meta;
    auto const [at, fresh] = names_.try_emplace(key_of(meta.space, meta.name), meta.version);
    if (!fresh) {
      const auto &other = *live.find(at->second);
      bool const wins = object.name_order > other.name_order;
      if (wins)
        lose(other, object);
      else
        lose(object, other);
      if (!wins)
        return;
      holders_.erase(std::exchange(at->second, meta.version));
    }
    holders_[meta.version] = {meta.space, meta.name};
  });
}

void name_index::place(fact &what) {
  uint64_t const version = what.meta.version;
  if (what.kind == fact_kind::remove)
    return drop(version);
  if (what.kind == fact_kind::put) {
    what.superseded = give(what.meta.space, what.meta.name, version);
    return;
  }
  auto const at = holders_.find(version);
  if (!what.has_name || at == holders_.end() || at->second.name == what.meta.name)
    return;
  std::string const space = at->second.space;
  drop(version);
  what.superseded = give(space, what.meta.name, version);
}

// Returns who had the name, 0: nobody.
uint64_t name_index::give(const std::string &space, const std::string &name, uint64_t version) {
  holders_[version] = {space, name};
  uint64_t const before = std::exchange(names_[key_of(space, name)], version);
  if (before != 0)
    holders_.erase(before);
  return before;
}

void name_index::drop(uint64_t version) {
  auto const node = holders_.extract(version);
  if (node)
    names_.erase(key_of(node.mapped().space, node.mapped().name));
}

}  // namespace tanada::pool
