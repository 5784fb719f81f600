// The limits of a transaction, which every implementation checks before it sends anything.
#include <string_view>
#include <unordered_set>

#include "seams/coordination/coordinator.hpp"

namespace tanada::seams {

namespace {

status check_key(const std::string &key) {
  if (key.empty())
    return status::invalid;
  return key.size() > coordinated_key_size_max ? status::too_big : status::ok;
}

}  // namespace

status check_transaction(const std::vector<transaction_condition> &conditions,
                         const std::vector<transaction_change> &changes) {
  if (conditions.size() > transaction_entry_count_max ||
      changes.size() > transaction_entry_count_max)
    return status::too_big;
  for (auto const &condition : conditions)
    TND_TRY(check_key(condition.key));
  size_t value_size = 0;
  std::unordered_set<std::string_view> changed;
  for (auto const &change : changes) {
    TND_TRY(check_key(change.key));
    if (!changed.insert(change.key).second)
      return status::invalid;
    value_size += change.value.size();
  }
  return value_size > coordinated_value_size_max ? status::too_big : status::ok;
}

}  // namespace tanada::seams
