// The state of a server's backups: which of their changes are settled.
#include "products/poold/cluster/backup.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {

namespace {

// A primary has at most some hundred changes under way.
constexpr size_t unsettled_count_max = 1 << 16;

}  // namespace

std::string backup_name(const std::string &namespace_name, const std::string &name) {
  return namespace_name + '\0' + name;
}

backup_copies::copy *backup_copies::find(const wire::pool::replica_request &place) {
  TND_ASSERT(mutex_.is_held() && place.partition < partition_count);
  copy &candidate = copies_[place.partition];
  return candidate.term == place.term ? &candidate : nullptr;
}

void backup_copies::begin(const wire::pool::replica_request &place) {
  lock_guard lock{mutex_};
  TND_ASSERT(place.partition < partition_count);
  copies_[place.partition] = {};
  copies_[place.partition].term = place.term;
}

void backup_copies::record_change(const wire::pool::replica_position &change,
                                  std::span<const std::string> names) {
  lock_guard lock{mutex_};
  copy *const changed = find(change.place);
  // What the comparison sends has no position of its own. The mark covers it.
  if (changed == nullptr || change.position == 0)
    return;
  if (changed->changes.size() + names.size() > unsettled_count_max) {
    *changed = {};
    return;
  }
  for (const std::string &name : names) {
    changed->changes.emplace_back(change.position, name);
    changed->positions[name] = change.position;
  }
}

void backup_copies::mark(const wire::pool::replica_position &mark) {
  lock_guard lock{mutex_};
  copy *const marked = find(mark.place);
  if (marked == nullptr)
    return;
  marked->is_complete = true;
  marked->mark = mark.position;
}

void backup_copies::settle(const wire::pool::replica_position &settled) {
  lock_guard lock{mutex_};
  copy *const target = find(settled.place);
  if (target == nullptr)
    return;
  target->settled = std::max(target->settled, settled.position);
  auto &changes = target->changes;
  for (; !changes.empty() && changes.front().first <= target->settled; changes.pop_front()) {
    auto const it = target->positions.find(changes.front().second);
    if (it != target->positions.end() && it->second <= target->settled)
      target->positions.erase(it);
  }
}

void backup_copies::close() {
  lock_guard lock{mutex_};
  is_closed_ = true;
}

status backup_copies::check_settled(const copy &read_copy, const std::string &name) {
  bool const is_settled =
      read_copy.settled >= read_copy.mark &&
      (name.empty() ? read_copy.positions.empty() : !read_copy.positions.contains(name));
  if (is_settled)
    return status::ok;
  set_last_message("the primary may have changes of this object that are not settled");
  return status::again;
}

status backup_copies::read(uint32_t partition,
                           const std::string &name,
                           const term_source &term,
                           const std::function<status()> &read) {
  TND_ASSERT(partition < partition_count);
  lock_guard lock{mutex_};
  auto const current = term();
  if (!current.ok())
    return current.error();
  const copy &read_copy = copies_[partition];
  if (is_closed_ || !read_copy.is_complete || read_copy.term != current.value()) {
    set_last_message("the server's copy of this namespace is being brought up to date");
    return status::again;
  }
  TND_TRY(check_settled(read_copy, name));
  return read();
}

}  // namespace tanada::poold
