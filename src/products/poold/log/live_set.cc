// The live objects of a log, the use of its files, and the index of names.
#include "products/poold/log/live_set.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::pool {
namespace {

log_entry make_put(const live_object &object) {
  log_entry put;
  put.order = std::max(object.name_order, object.flags_order);
  put.meta = object.meta;
  put.extents = object.extents;
  return put;
}

uint64_t copy_size(const live_object &object) {
  return stored_size(make_put(object)) + (object.offset != 0 ? whole_blocks(object.meta.size) : 0);
}

std::string make_key(const std::string &namespace_name, const std::string &name) {
  return namespace_name + '\0' + name;
}

}  // namespace

void live_set::apply(const log_entry &entry, uint64_t file_sequence, uint64_t record_offset) {
  highest_version_ = std::max(highest_version_, entry.meta.version);
  switch (entry.kind) {
    case entry_kind::put:
      apply_put(entry, file_sequence, record_offset);
      break;
    case entry_kind::amend:
      apply_amend(entry, file_sequence);
      break;
    case entry_kind::remove:
      remove(entry.meta.version, file_sequence);
      break;
  }
  if (entry.superseded_version != 0)
    remove(entry.superseded_version, file_sequence);
}

void live_set::count_size(const live_object &object, bool add) {
  uint64_t const size = copy_size(object);
  auto &use = files_[object.file_sequence];
  TND_ASSERT(add || use.live_size >= size);
  use.live_size = add ? use.live_size + size : use.live_size - size;
  live_size_ = add ? live_size_ + size : live_size_ - size;
}

void live_set::remove(uint64_t version, uint64_t file_sequence) {
  auto const it = versions_.find(version);
  if (it == versions_.end())
    return;
  auto &state = it->second;
  if (state.is_live) {
    count_size(state.object, false);
    state.object = {};
    state.object.meta.version = version;
    state.is_live = false;
    TND_ASSERT(live_count_ > 0);
    live_count_--;
  }
  uncount_removal(state);
  state.removal_file = file_sequence;
  auto &use = files_[file_sequence];
  use.removals.push_back(version);
  use.removal_count++;
}

void live_set::uncount_removal(const version_state &state) {
  auto const it = files_.find(state.removal_file);
  if (state.removal_file == 0 || it == files_.end())
    return;
  TND_ASSERT(it->second.removal_count > 0);
  it->second.removal_count--;
}

void live_set::apply_put(const log_entry &entry, uint64_t file_sequence, uint64_t record_offset) {
  auto const [it, is_new] = versions_.try_emplace(entry.meta.version);
  auto &state = it->second;
  state.put_count++;
  files_[file_sequence].puts.push_back(entry.meta.version);
  if (!state.is_live)
    return;
  auto &object = state.object;
  if (is_new) {
    live_count_++;
    object.meta = entry.meta;
    object.extents = entry.extents;
  } else {
    count_size(object, false);
  }
  if (entry.order >= object.name_order) {
    object.meta.name = entry.meta.name;
    object.name_order = entry.order;
  }
  if (entry.order >= object.flags_order) {
    object.meta.flags = entry.meta.flags;
    object.flags_order = entry.order;
  }
  object.put_order = entry.order;
  object.file_sequence = file_sequence;
  object.offset = entry.data_offset != 0 ? record_offset + entry.data_offset : 0;
  count_size(object, true);
}

void live_set::apply_amend(const log_entry &entry, uint64_t file_sequence) {
  auto const it = versions_.find(entry.meta.version);
  if (it == versions_.end() || !it->second.is_live)
    return;
  auto &object = it->second.object;
  files_[file_sequence].amends.push_back(entry.meta.version);
  if (entry.has_flags && entry.order >= object.flags_order) {
    object.meta.flags = entry.meta.flags;
    object.flags_order = entry.order;
    object.flags_file = file_sequence;
  }
  if (!entry.has_name || entry.order < object.name_order)
    return;
  count_size(object, false);
  object.meta.name = entry.meta.name;
  count_size(object, true);
  object.name_order = entry.order;
  object.name_file = file_sequence;
}

const live_object *live_set::find(uint64_t version) const {
  auto const it = versions_.find(version);
  return it == versions_.end() || !it->second.is_live ? nullptr : &it->second.object;
}

void live_set::visit(const std::function<void(const live_object &)> &visitor) const {
  for (const auto &[version, state] : versions_) {
    if (state.is_live)
      visitor(state.object);
  }
}

uint64_t live_set::live_size(uint64_t file_sequence) const {
  auto const it = files_.find(file_sequence);
  return it == files_.end() ? 0 : it->second.live_size;
}

uint64_t live_set::rewrite_size(uint64_t file_sequence) const {
  constexpr uint64_t name_guess = 64;
  auto const it = files_.find(file_sequence);
  if (it == files_.end())
    return 0;
  return (it->second.amends.size() + it->second.removal_count) *
         (stored_size(log_entry{}) + name_guess);
}

void live_set::collect_puts(uint64_t file_sequence,
                            const file_use &use,
                            uint64_t size_max,
                            size_t count_max,
                            std::vector<log_entry> &entries) const {
  uint64_t size = 0;
  for (uint64_t const version : use.puts) {
    const auto &state = versions_.at(version);
    if (!state.is_live || state.object.file_sequence != file_sequence)
      continue;
    if (entries.size() == count_max ||
        (!entries.empty() && size + state.object.meta.size > size_max))
      return;
    size += state.object.meta.size;
    entries.push_back(make_put(state.object));
  }
}

void live_set::collect_amends(uint64_t file_sequence,
                              const file_use &use,
                              size_t count_max,
                              std::vector<log_entry> &entries) const {
  std::unordered_set<uint64_t> visited;
  for (uint64_t const version : use.amends) {
    auto const *const object = find(version);
    if (object == nullptr || !visited.insert(version).second)
      continue;
    for (bool const name : {true, false}) {
      uint64_t const order = name ? object->name_order : object->flags_order;
      uint64_t const file = name ? object->name_file : object->flags_file;
      if (order <= object->put_order || file != file_sequence)
        continue;
      if (entries.size() == count_max)
        return;
      auto &entry = entries.emplace_back();
      entry.kind = entry_kind::amend;
      entry.order = order;
      entry.meta.version = version;
      entry.has_name = name;
      entry.has_flags = !name;
      if (name)
        entry.meta.name = object->meta.name;
      else
        entry.meta.flags = object->meta.flags;
    }
  }
}

void live_set::collect_removals(uint64_t file_sequence,
                                const file_use &use,
                                size_t count_max,
                                std::vector<log_entry> &entries) const {
  std::unordered_map<uint64_t, uint32_t> own_puts;
  for (uint64_t const version : use.puts)
    own_puts[version]++;
  std::unordered_set<uint64_t> visited;
  for (uint64_t const version : use.removals) {
    if (entries.size() == count_max)
      return;
    auto const it = versions_.find(version);
    if (it == versions_.end() || it->second.removal_file != file_sequence)
      continue;
    auto const own_it = own_puts.find(version);
    bool const has_other_puts =
        it->second.put_count != (own_it == own_puts.end() ? 0 : own_it->second);
    if (!has_other_puts || !visited.insert(version).second)
      continue;
    entries.emplace_back().kind = entry_kind::remove;
    entries.back().meta.version = version;
  }
}

std::vector<log_entry> live_set::collect_rewrites(uint64_t file_sequence,
                                                  uint64_t size_max,
                                                  size_t count_max) const {
  std::vector<log_entry> entries;
  auto const it = files_.find(file_sequence);
  if (it == files_.end())
    return entries;
  collect_puts(file_sequence, it->second, size_max, count_max, entries);
  if (!entries.empty())
    return entries;
  collect_amends(file_sequence, it->second, count_max, entries);
  collect_removals(file_sequence, it->second, count_max, entries);
  return entries;
}

void live_set::forget_file(uint64_t file_sequence) {
  auto const node = files_.extract(file_sequence);
  if (!node)
    return;
  for (uint64_t const version : node.mapped().puts) {
    auto const it = versions_.find(version);
    TND_ASSERT(it != versions_.end());
    TND_ASSERT(!it->second.is_live || it->second.object.file_sequence != file_sequence);
    TND_ASSERT(it->second.put_count > 0);
    if (--it->second.put_count != 0)
      continue;
    uncount_removal(it->second);
    versions_.erase(it);
  }
  for (uint64_t const version : node.mapped().removals) {
    auto const it = versions_.find(version);
    TND_ASSERT(it == versions_.end() || it->second.removal_file != file_sequence);
  }
}

void name_index::build(
    const live_set &live,
    const std::function<void(const live_object &loser, const live_object &winner)> &on_conflict) {
  names_.clear();
  holders_.clear();
  live.visit([&](const live_object &object) {
    const auto &meta = object.meta;
    auto const [it, is_new] =
        names_.try_emplace(make_key(meta.namespace_name, meta.name), meta.version);
    if (!is_new) {
      const auto &holder_object = *live.find(it->second);
      bool const wins = object.name_order > holder_object.name_order;
      if (wins)
        on_conflict(holder_object, object);
      else
        on_conflict(object, holder_object);
      if (!wins)
        return;
      holders_.erase(std::exchange(it->second, meta.version));
    }
    holders_[meta.version] = {meta.namespace_name, meta.name};
  });
}

void name_index::apply(log_entry &entry) {
  uint64_t const version = entry.meta.version;
  if (entry.kind == entry_kind::remove)
    return release_name(version);
  if (entry.kind == entry_kind::put) {
    entry.superseded_version = assign_name(entry.meta.namespace_name, entry.meta.name, version);
    return;
  }
  auto const it = holders_.find(version);
  if (!entry.has_name || it == holders_.end() || it->second.name == entry.meta.name)
    return;
  std::string const namespace_name = it->second.namespace_name;
  release_name(version);
  entry.superseded_version = assign_name(namespace_name, entry.meta.name, version);
}

// Returns the version that had the name; 0: none.
uint64_t name_index::assign_name(const std::string &namespace_name,
                                 const std::string &name,
                                 uint64_t version) {
  holders_[version] = {namespace_name, name};
  uint64_t const previous = std::exchange(names_[make_key(namespace_name, name)], version);
  if (previous != 0)
    holders_.erase(previous);
  return previous;
}

void name_index::release_name(uint64_t version) {
  auto const node = holders_.extract(version);
  if (node)
    names_.erase(make_key(node.mapped().namespace_name, node.mapped().name));
}

}  // namespace tanada::pool
