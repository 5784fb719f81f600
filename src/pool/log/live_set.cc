#include "pool/log/live_set.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/assert.hpp"

namespace tanada::pool {
namespace {

std::string key_of(std::string_view space, std::string_view name) {
  std::string key;
  key.reserve(space.size() + 1 + name.size());
  return key.append(space).append(1, '\0').append(name);
}

std::string key_of(const object_meta &meta) { return key_of(meta.space, meta.name); }

fact fact_of(fact_kind kind, const live_object &object) {
  fact made;
  made.kind = kind;
  made.has_name = made.has_flags = kind == fact_kind::amend;
  made.order = object.order;
  made.meta = object.meta;
  if (kind == fact_kind::put) made.extents = object.extents;
  return made;
}

}  // namespace

uint64_t live_set::size_of(const live_object &object) {
  fact const put = fact_of(fact_kind::put, object);
  return stored_size(put) + (object.offset != 0 ? whole_blocks(object.meta.size) : 0);
}

void live_set::unname(const entry &which) {
  auto const at = names_.find(key_of(which.object.meta));
  if (at != names_.end() && at->second == which.object.meta.version) names_.erase(at);
}

// Give the entry its name, and whoever had it dies.
void live_set::name(entry &which, uint64_t file_sequence) {
  auto &holder = names_[key_of(which.object.meta)];
  uint64_t const before = std::exchange(holder, which.object.meta.version);
  if (before != 0 && before != which.object.meta.version) kill(entries_.at(before), file_sequence);
}

void live_set::kill(entry &which, uint64_t file_sequence) {
  if (which.live) {
    unname(which);
    files_[which.object.file_sequence].live_size -= size_of(which.object);
    uint64_t const version = which.object.meta.version;
    which.object = {};
    which.object.meta.version = version;
    which.live = false;
    live_count_--;
  } else {
    forget_killer(which);
  }
  which.killer_file = file_sequence;
  auto &use = files_[file_sequence];
  use.kills.push_back(which.object.meta.version);
  use.kill_count++;
}

void live_set::apply(const fact &what, uint64_t file_sequence, uint64_t record_offset) {
  highest_version_ = std::max(highest_version_, what.meta.version);
  switch (what.kind) {
    case fact_kind::put: return apply_put(what, file_sequence, record_offset);
    case fact_kind::amend: return apply_amend(what, file_sequence);
    case fact_kind::remove:
      if (auto const at = entries_.find(what.meta.version); at != entries_.end()) kill(at->second, file_sequence);
  }
}

void live_set::apply_put(const fact &what, uint64_t file_sequence, uint64_t record_offset) {
  auto const [at, fresh] = entries_.try_emplace(what.meta.version);
  auto &which = at->second;
  which.put_count++;
  files_[file_sequence].puts.push_back(what.meta.version);
  if (!which.live) return;
  auto &object = which.object;
  if (fresh) {
    live_count_++;
    object.meta = what.meta;
    object.extents = what.extents;
  } else {
    files_[object.file_sequence].live_size -= size_of(object);
  }
  if (!fresh && what.order > object.order) {
    unname(which);
    object.meta.name = what.meta.name;
    object.meta.flags = what.meta.flags;
  }
  bool const newer = fresh || what.order > object.order;
  object.order = std::max(object.order, what.order);
  object.place_order = what.order;
  object.file_sequence = file_sequence;
  object.offset = what.data_offset != 0 ? record_offset + what.data_offset : 0;
  files_[file_sequence].live_size += size_of(object);
  if (newer) name(which, file_sequence);
}

void live_set::apply_amend(const fact &what, uint64_t file_sequence) {
  auto const at = entries_.find(what.meta.version);
  if (at == entries_.end() || !at->second.live) return;
  auto &which = at->second;
  files_[file_sequence].amends.push_back(what.meta.version);
  if (what.order < which.object.order) return;
  which.amended_file = what.has_name && what.has_flags ? file_sequence : 0;
  if (what.order == which.object.order) return;
  which.object.order = what.order;
  if (what.has_flags) which.object.meta.flags = what.meta.flags;
  if (!what.has_name || what.meta.name == which.object.meta.name) return;
  auto &use = files_[which.object.file_sequence];
  use.live_size -= size_of(which.object);
  unname(which);
  which.object.meta.name = what.meta.name;
  use.live_size += size_of(which.object);
  name(which, file_sequence);
}

const live_object *live_set::find(uint64_t version) const {
  auto const at = entries_.find(version);
  return at == entries_.end() || !at->second.live ? nullptr : &at->second.object;
}

const live_object *live_set::find(std::string_view space, std::string_view name) const {
  auto const at = names_.find(key_of(space, name));
  return at == names_.end() ? nullptr : find(at->second);
}

void live_set::visit(const std::function<void(const live_object &)> &visitor) const {
  for (const auto &[version, which] : entries_) {
    if (which.live) visitor(which.object);
  }
}

uint64_t live_set::live_size(uint64_t file_sequence) const {
  auto const at = files_.find(file_sequence);
  return at == files_.end() ? 0 : at->second.live_size;
}

uint64_t live_set::carry_size(uint64_t file_sequence) const {
  auto const at = files_.find(file_sequence);
  fact const empty;
  return at == files_.end() ? 0 : (at->second.amends.size() + at->second.kill_count) * (stored_size(empty) + 64);
}

void live_set::forget_killer(const entry &which) {
  auto const at = files_.find(which.killer_file);
  if (!which.live && at != files_.end()) at->second.kill_count--;
}

void live_set::carry_puts(uint64_t file_sequence, const file_use &use, uint64_t size_max, size_t count_max,
                          std::vector<fact> &facts) const {
  uint64_t size = 0;
  for (uint64_t const version : use.puts) {
    const auto &which = entries_.at(version);
    if (!which.live || which.object.file_sequence != file_sequence) continue;
    if (facts.size() == count_max || (!facts.empty() && size + which.object.meta.size > size_max)) return;
    size += which.object.meta.size;
    facts.push_back(fact_of(fact_kind::put, which.object));
  }
}

void live_set::carry_kills(uint64_t file_sequence, const file_use &use, size_t count_max, std::vector<fact> &facts) const {
  std::unordered_map<uint64_t, uint32_t> here;
  for (uint64_t const version : use.puts) here[version]++;
  for (uint64_t const version : use.kills) {
    if (facts.size() == count_max) return;
    auto const at = entries_.find(version);
    if (at == entries_.end() || at->second.live || at->second.killer_file != file_sequence) continue;
    auto const mine = here.find(version);
    if (at->second.put_count == (mine == here.end() ? 0 : mine->second)) continue;
    fact removal;
    removal.kind = fact_kind::remove;
    removal.meta.version = version;
    facts.push_back(std::move(removal));
  }
}

std::vector<fact> live_set::carry(uint64_t file_sequence, uint64_t size_max, size_t count_max) const {
  std::vector<fact> facts;
  auto const at = files_.find(file_sequence);
  if (at == files_.end()) return facts;
  const auto &use = at->second;
  carry_puts(file_sequence, use, size_max, count_max, facts);
  if (!facts.empty()) return facts;
  std::unordered_set<uint64_t> seen;
  for (uint64_t const version : use.amends) {
    if (facts.size() == count_max) return facts;
    auto const entry_at = entries_.find(version);
    if (entry_at == entries_.end() || !entry_at->second.live) continue;
    const auto &which = entry_at->second;
    bool const told_elsewhere = which.object.place_order >= which.object.order ||
                                (which.amended_file != 0 && which.amended_file != file_sequence);
    if (!told_elsewhere && seen.insert(version).second) facts.push_back(fact_of(fact_kind::amend, which.object));
  }
  carry_kills(file_sequence, use, count_max, facts);
  return facts;
}

void live_set::file_removed(uint64_t file_sequence) {
  auto const node = files_.extract(file_sequence);
  if (!node) return;
  for (uint64_t const version : node.mapped().puts) {
    auto const at = entries_.find(version);
    TND_ASSERT(at != entries_.end());
    TND_ASSERT(!at->second.live || at->second.object.file_sequence != file_sequence);
    if (--at->second.put_count != 0) continue;
    forget_killer(at->second);
    entries_.erase(at);
  }
  for (uint64_t const version : node.mapped().kills) {
    auto const at = entries_.find(version);
    TND_ASSERT(at == entries_.end() || at->second.live || at->second.killer_file != file_sequence);
  }
}

}  // namespace tanada::pool
