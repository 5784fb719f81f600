#include "products/poold/log/live_set.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::pool {
namespace {

fact put_of(const live_object &object) {
  fact made;
  made.order = std::max(object.name_order, object.flags_order);
  made.meta = object.meta;
  made.extents = object.extents;
  return made;
}

uint64_t size_of(const live_object &object) {
  return stored_size(put_of(object)) + (object.offset != 0 ? whole_blocks(object.meta.size) : 0);
}

std::string key_of(const std::string &space, const std::string &name) {
  return space + '\0' + name;
}

}  // namespace

void live_set::apply(const fact &what, uint64_t file_sequence, uint64_t record_offset) {
  highest_version_ = std::max(highest_version_, what.meta.version);
  switch (what.kind) {
    case fact_kind::put: apply_put(what, file_sequence, record_offset); break;
    case fact_kind::amend: apply_amend(what, file_sequence); break;
    case fact_kind::remove: remove(what.meta.version, file_sequence); break;
  }
  if (what.superseded != 0)
    remove(what.superseded, file_sequence);
}

void live_set::count_size(const live_object &object, bool add) {
  uint64_t const size = size_of(object);
  auto &use = files_[object.file_sequence];
  use.live_size = add ? use.live_size + size : use.live_size - size;
  live_size_ = add ? live_size_ + size : live_size_ - size;
}

void live_set::remove(uint64_t version, uint64_t file_sequence) {
  auto const at = entries_.find(version);
  if (at == entries_.end())
    return;
  auto &which = at->second;
  if (which.live) {
    count_size(which.object, false);
    which.object = {};
    which.object.meta.version = version;
    which.live = false;
    live_count_--;
  }
  forget_removal(which);
  which.removal_file = file_sequence;
  auto &use = files_[file_sequence];
  use.removals.push_back(version);
  use.removal_count++;
}

void live_set::forget_removal(const entry &which) {
  auto const at = files_.find(which.removal_file);
  if (which.removal_file != 0 && at != files_.end())
    at->second.removal_count--;
}

void live_set::apply_put(const fact &what, uint64_t file_sequence, uint64_t record_offset) {
  auto const [at, fresh] = entries_.try_emplace(what.meta.version);
  auto &which = at->second;
  which.put_count++;
  files_[file_sequence].puts.push_back(what.meta.version);
  if (!which.live)
    return;
  auto &object = which.object;
  if (fresh) {
    live_count_++;
    object.meta = what.meta;
    object.extents = what.extents;
  } else {
    count_size(object, false);
  }
  if (what.order >= object.name_order) {
    object.meta.name = what.meta.name;
    object.name_order = what.order;
  }
  if (what.order >= object.flags_order) {
    object.meta.flags = what.meta.flags;
    object.flags_order = what.order;
  }
  object.place_order = what.order;
  object.file_sequence = file_sequence;
  object.offset = what.data_offset != 0 ? record_offset + what.data_offset : 0;
  count_size(object, true);
}

void live_set::apply_amend(const fact &what, uint64_t file_sequence) {
  auto const at = entries_.find(what.meta.version);
  if (at == entries_.end() || !at->second.live)
    return;
  auto &object = at->second.object;
  files_[file_sequence].amends.push_back(what.meta.version);
  if (what.has_flags && what.order >= object.flags_order) {
    object.meta.flags = what.meta.flags;
    object.flags_order = what.order;
    object.flags_file = file_sequence;
  }
  if (!what.has_name || what.order < object.name_order)
    return;
  count_size(object, false);
  object.meta.name = what.meta.name;
  count_size(object, true);
  object.name_order = what.order;
  object.name_file = file_sequence;
}

const live_object *live_set::find(uint64_t version) const {
  auto const at = entries_.find(version);
  return at == entries_.end() || !at->second.live ? nullptr : &at->second.object;
}

void live_set::visit(const std::function<void(const live_object &)> &visitor) const {
  for (const auto &[version, which] : entries_) {
    if (which.live)
      visitor(which.object);
  }
}

uint64_t live_set::live_size(uint64_t file_sequence) const {
  auto const at = files_.find(file_sequence);
  return at == files_.end() ? 0 : at->second.live_size;
}

uint64_t live_set::carry_size(uint64_t file_sequence) const {
  constexpr uint64_t name_guess = 64;
  auto const at = files_.find(file_sequence);
  if (at == files_.end())
    return 0;
  return (at->second.amends.size() + at->second.removal_count) * (stored_size(fact{}) + name_guess);
}

void live_set::carry_puts(uint64_t file_sequence, const file_use &use, uint64_t size_max,
                          size_t count_max, std::vector<fact> &facts) const {
  uint64_t size = 0;
  for (uint64_t const version : use.puts) {
    const auto &which = entries_.at(version);
    if (!which.live || which.object.file_sequence != file_sequence)
      continue;
    if (facts.size() == count_max || (!facts.empty() && size + which.object.meta.size > size_max))
      return;
    size += which.object.meta.size;
    facts.push_back(put_of(which.object));
  }
}

void live_set::carry_amends(uint64_t file_sequence, const file_use &use, size_t count_max,
                            std::vector<fact> &facts) const {
  std::unordered_set<uint64_t> seen;
  for (uint64_t const version : use.amends) {
    auto const *const object = find(version);
    if (object == nullptr || !seen.insert(version).second)
      continue;
    for (bool const name : {true, false}) {
      uint64_t const order = name ? object->name_order : object->flags_order;
      uint64_t const teller = name ? object->name_file : object->flags_file;
      if (order <= object->place_order || teller != file_sequence)
        continue;
      if (facts.size() == count_max)
        return;
      auto &made = facts.emplace_back();
      made.kind = fact_kind::amend;
      made.order = order;
      made.meta.version = version;
      made.has_name = name;
      made.has_flags = !name;
      if (name)
        made.meta.name = object->meta.name;
      else
        made.meta.flags = object->meta.flags;
    }
  }
}

void live_set::carry_removals(uint64_t file_sequence, const file_use &use, size_t count_max,
                              std::vector<fact> &facts) const {
  std::unordered_map<uint64_t, uint32_t> here;
  for (uint64_t const version : use.puts)
    here[version]++;
  std::unordered_set<uint64_t> seen;
  for (uint64_t const version : use.removals) {
    if (facts.size() == count_max)
      return;
    auto const at = entries_.find(version);
    if (at == entries_.end() || at->second.removal_file != file_sequence)
      continue;
    auto const mine = here.find(version);
    bool const elsewhere = at->second.put_count != (mine == here.end() ? 0 : mine->second);
    if (!elsewhere || !seen.insert(version).second)
      continue;
    facts.emplace_back().kind = fact_kind::remove;
    facts.back().meta.version = version;
  }
}

std::vector<fact> live_set::carry(uint64_t file_sequence, uint64_t size_max,
                                  size_t count_max) const {
  std::vector<fact> facts;
  auto const at = files_.find(file_sequence);
  if (at == files_.end())
    return facts;
  carry_puts(file_sequence, at->second, size_max, count_max, facts);
  if (!facts.empty())
    return facts;
  carry_amends(file_sequence, at->second, count_max, facts);
  carry_removals(file_sequence, at->second, count_max, facts);
  return facts;
}

void live_set::file_removed(uint64_t file_sequence) {
  auto const node = files_.extract(file_sequence);
  if (!node)
    return;
  for (uint64_t const version : node.mapped().puts) {
    auto const at = entries_.find(version);
    TND_ASSERT(at != entries_.end());
    TND_ASSERT(!at->second.live || at->second.object.file_sequence != file_sequence);
    if (--at->second.put_count != 0)
      continue;
    forget_removal(at->second);
    entries_.erase(at);
  }
  for (uint64_t const version : node.mapped().removals) {
    auto const at = entries_.find(version);
    TND_ASSERT(at == entries_.end() || at->second.removal_file != file_sequence);
  }
}

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
