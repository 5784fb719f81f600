// The live objects of a log and the use of its files.
#include "products/poold/log/live_set.hpp"

#include <xxhash.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::pool {
namespace {

log_entry make_put(live_object object) {
  log_entry put;
  put.order = std::max(object.name_order, object.flags_order);
  put.meta = std::move(object.meta);
  put.extents = std::move(object.extents);
  return put;
}

}  // namespace

live_object live_set::make_object(const version_entry &stored) {
  const version_state &state = stored.second;
  TND_ASSERT(state.is_live && state.space != nullptr);
  live_object object;
  object.meta = {.namespace_name = state.space->first,
                 .name = std::string{state.name_text()},
                 .version = stored.first,
                 .size = state.size,
                 .created_ns = state.created_ns,
                 .flags = state.flags,
                 .kind = state.kind,
                 .checksum = state.checksum};
  object.file_sequence = state.file_sequence;
  object.put_order = state.put_order;
  object.name_order = state.name_order();
  object.flags_order = state.flags_order();
  if (state.amended != nullptr) {
    object.name_file = state.amended->name_file;
    object.flags_file = state.amended->flags_file;
  }
  if (state.place == place_kind::data)
    object.offset = state.offset;
  if (state.place == place_kind::single_extent)
    object.extents = {{state.offset, state.size}};
  if (state.place == place_kind::several_extents)
    object.extents = state.amended->extents;
  return object;
}

uint64_t live_set::copy_size(const version_state &state) {
  size_t extent_count = 0;
  if (state.place == place_kind::single_extent)
    extent_count = 1;
  if (state.place == place_kind::several_extents)
    extent_count = state.amended->extents.size();
  uint64_t const size = stored_size(state.space->first.size() + state.name_size, extent_count);
  if (state.place != place_kind::data)
    return size;
  uint64_t const data_size = head_data_size(state.size);
  return size + (data_size != 0 ? data_size : whole_blocks(state.size));
}

// The state's amendment, which is created from its present values.
live_set::amendment &live_set::amend(version_state &state) {
  if (state.amended == nullptr) {
    state.amended = std::make_unique<amendment>();
    state.amended->name_order = state.put_order;
    state.amended->flags_order = state.put_order;
  }
  return *state.amended;
}

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

void live_set::count_size(const version_state &state, bool add) {
  uint64_t const size = copy_size(state);
  auto &use = files_[state.file_sequence];
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
    count_size(state, false);
    unbind_name(*it);
    leave_namespace(state);
    uint32_t const put_count = state.put_count;
    state = {};
    state.put_count = put_count;
    state.is_live = false;
    TND_ASSERT(live_count_ > 0);
    live_count_--;
  } else {
    uncount_removal(state);
  }
  state.file_sequence = file_sequence;
  auto &use = files_[file_sequence];
  use.removals.push_back(version);
  use.removal_count++;
}

void live_set::uncount_removal(const version_state &state) {
  TND_ASSERT(!state.is_live);
  auto const it = files_.find(state.file_sequence);
  if (it == files_.end())
    return;
  TND_ASSERT(it->second.removal_count > 0);
  it->second.removal_count--;
}

void live_set::enter_namespace(version_state &state, const std::string &namespace_name) {
  TND_ASSERT(state.space == nullptr);
  state.space = &*namespaces_.try_emplace(namespace_name).first;
  state.space->second++;
}

void live_set::leave_namespace(version_state &state) {
  TND_ASSERT(state.space != nullptr && state.space->second > 0);
  if (--state.space->second == 0)
    namespaces_.erase(namespaces_.find(state.space->first));
  state.space = nullptr;
}

live_set::version_entry *&live_set::bucket(std::string_view namespace_name, std::string_view name) {
  TND_ASSERT(!buckets_.empty());
  uint64_t const seed = XXH3_64bits(namespace_name.data(), namespace_name.size());
  uint64_t const hash = XXH3_64bits_withSeed(name.data(), name.size(), seed);
  return buckets_[hash & (buckets_.size() - 1)];
}

void live_set::grow_buckets() {
  constexpr size_t bucket_count_min = 64;
  buckets_.assign(std::max(bucket_count_min, buckets_.size() * 2), nullptr);
  for (auto &stored : versions_) {
    version_state &state = stored.second;
    if (!state.is_live || state.name == nullptr)
      continue;
    version_entry *&first = bucket(state.space->first, state.name_text());
    state.next_by_name = std::exchange(first, &stored);
  }
}

void live_set::bind_name(version_entry &stored, const std::string &name) {
  version_state &state = stored.second;
  TND_ASSERT(state.name == nullptr && name.size() <= UINT16_MAX);
  if (live_count_ > buckets_.size() || buckets_.empty())
    grow_buckets();
  state.name = std::make_unique_for_overwrite<char[]>(name.size());
  state.name_size = uint16_t(name.size());
  std::copy(name.begin(), name.end(), state.name.get());
  version_entry *&first = bucket(state.space->first, name);
  state.next_by_name = std::exchange(first, &stored);
}

void live_set::unbind_name(version_entry &stored) {
  version_state &state = stored.second;
  TND_ASSERT(state.name != nullptr);
  version_entry **link = &bucket(state.space->first, state.name_text());
  while (*link != &stored) {
    TND_ASSERT(*link != nullptr);
    link = &(*link)->second.next_by_name;
  }
  *link = std::exchange(state.next_by_name, nullptr);
  state.name.reset();
}

uint64_t live_set::find_name(std::string_view namespace_name, std::string_view name) const {
  if (buckets_.empty())
    return 0;
  const version_entry *holder = nullptr;
  const version_entry *next = const_cast<live_set *>(this)->bucket(namespace_name, name);
  for (; next != nullptr; next = next->second.next_by_name) {
    const version_state &state = next->second;
    bool const has_name = state.name_text() == name && state.space->first == namespace_name;
    if (has_name && (holder == nullptr || state.name_order() > holder->second.name_order()))
      holder = next;
  }
  return holder != nullptr ? holder->first : 0;
}

void live_set::visit_conflicts(
    const std::function<void(const live_object &loser, const live_object &winner)> &visitor) const {
  for (const version_entry &stored : versions_) {
    const version_state &state = stored.second;
    if (!state.is_live)
      continue;
    uint64_t const holder = find_name(state.space->first, state.name_text());
    if (holder != stored.first)
      visitor(make_object(stored), make_object(*versions_.find(holder)));
  }
}

void live_set::apply_put(const log_entry &entry, uint64_t file_sequence, uint64_t record_offset) {
  auto const [it, is_new] = versions_.try_emplace(entry.meta.version);
  auto &state = it->second;
  state.put_count++;
  files_[file_sequence].puts.push_back(entry.meta.version);
  if (!state.is_live)
    return;
  if (!is_new)
    return update_put(*it, entry, file_sequence, record_offset);
  live_count_++;
  state.size = entry.meta.size;
  state.created_ns = entry.meta.created_ns;
  state.checksum = entry.meta.checksum;
  state.kind = entry.meta.kind;
  state.flags = entry.meta.flags;
  state.put_order = entry.order;
  state.file_sequence = file_sequence;
  set_place(state, entry, record_offset);
  enter_namespace(state, entry.meta.namespace_name);
  bind_name(*it, entry.meta.name);
  count_size(state, true);
}

// Apply another put of a live object: a copy, with newer or older names and flags.
void live_set::update_put(version_entry &stored,
                          const log_entry &entry,
                          uint64_t file_sequence,
                          uint64_t record_offset) {
  version_state &state = stored.second;
  count_size(state, false);
  uint64_t const name_order = state.name_order(), flags_order = state.flags_order();
  bool const is_last = entry.order >= name_order && entry.order >= flags_order;
  if (!is_last)
    (void)amend(state);
  if (entry.order >= name_order && state.name_text() != entry.meta.name) {
    unbind_name(stored);
    bind_name(stored, entry.meta.name);
  }
  if (entry.order >= flags_order)
    state.flags = entry.meta.flags;
  state.put_order = entry.order;
  if (state.amended != nullptr) {
    state.amended->name_order = std::max(name_order, entry.order);
    state.amended->flags_order = std::max(flags_order, entry.order);
  }
  state.file_sequence = file_sequence;
  if (entry.data_offset != 0)
    set_place(state, entry, record_offset);
  bool const is_redundant =
      is_last && state.amended != nullptr && state.place != place_kind::several_extents;
  if (is_redundant)
    state.amended.reset();
  count_size(state, true);
}

void live_set::set_place(version_state &state, const log_entry &put, uint64_t record_offset) {
  if (put.data_offset != 0) {
    state.place = place_kind::data;
    state.offset = record_offset + put.data_offset;
  } else if (put.extents.size() == 1) {
    state.place = place_kind::single_extent;
    state.offset = put.extents.front().offset;
  } else if (!put.extents.empty()) {
    amend(state).extents = put.extents;
    state.place = place_kind::several_extents;
  }
}

void live_set::apply_amend(const log_entry &entry, uint64_t file_sequence) {
  auto const it = versions_.find(entry.meta.version);
  if (it == versions_.end() || !it->second.is_live)
    return;
  version_state &state = it->second;
  files_[file_sequence].amends.push_back(entry.meta.version);
  if (entry.has_flags && entry.order >= state.flags_order()) {
    amendment &amended = amend(state);
    state.flags = entry.meta.flags;
    amended.flags_order = entry.order;
    amended.flags_file = file_sequence;
  }
  if (!entry.has_name || entry.order < state.name_order())
    return;
  amendment &amended = amend(state);
  count_size(state, false);
  unbind_name(*it);
  bind_name(*it, entry.meta.name);
  count_size(state, true);
  amended.name_order = entry.order;
  amended.name_file = file_sequence;
}

bool live_set::is_live(uint64_t version) const {
  auto const it = versions_.find(version);
  return it != versions_.end() && it->second.is_live;
}

std::optional<live_object> live_set::find(uint64_t version) const {
  auto const it = versions_.find(version);
  if (it == versions_.end() || !it->second.is_live)
    return {};
  return make_object(*it);
}

void live_set::visit(const std::function<void(const live_object &)> &visitor) const {
  for (const version_entry &stored : versions_) {
    if (stored.second.is_live)
      visitor(make_object(stored));
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
  return (it->second.amends.size() + it->second.removal_count) * stored_size(name_guess, 0);
}

void live_set::collect_puts(uint64_t file_sequence,
                            const file_use &use,
                            uint64_t size_max,
                            size_t count_max,
                            std::vector<log_entry> &entries) const {
  uint64_t size = 0;
  for (uint64_t const version : use.puts) {
    auto const it = versions_.find(version);
    TND_ASSERT(it != versions_.end());
    const version_state &state = it->second;
    if (!state.is_live || state.file_sequence != file_sequence)
      continue;
    if (entries.size() == count_max || (!entries.empty() && size + state.size > size_max))
      return;
    size += state.size;
    entries.push_back(make_put(make_object(*it)));
  }
}

void live_set::collect_amends(uint64_t file_sequence,
                              const file_use &use,
                              size_t count_max,
                              std::vector<log_entry> &entries) const {
  std::unordered_set<uint64_t> visited;
  for (uint64_t const version : use.amends) {
    auto const object = find(version);
    if (!object || !visited.insert(version).second)
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
    if (it == versions_.end() || it->second.is_live || it->second.file_sequence != file_sequence)
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
    TND_ASSERT(!it->second.is_live || it->second.file_sequence != file_sequence);
    TND_ASSERT(it->second.put_count > 0);
    if (--it->second.put_count != 0)
      continue;
    uncount_removal(it->second);
    versions_.erase(it);
  }
  for (uint64_t const version : node.mapped().removals) {
    auto const it = versions_.find(version);
    TND_ASSERT(it == versions_.end() || it->second.is_live ||
               it->second.file_sequence != file_sequence);
  }
}

}  // namespace tanada::pool
