// The catalog's namespaces: their lifetime, quotas, name counters and statistics.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

catalog::~catalog() = default;

catalog::namespace_state::~namespace_state() {
  if (counters != nullptr)
    munmap(counters, sizeof(pool::name_counters));
  if (counters_descriptor >= 0)
    close(counters_descriptor);
}

catalog::namespace_state &catalog::state_for(uint64_t namespace_id) {
  TND_ASSERT(mutex_.is_held());
  auto const it = namespaces_.find(namespace_id);
  TND_ASSERT(it != namespaces_.end());
  return *it->second;
}

const catalog::namespace_state &catalog::state_for(uint64_t namespace_id) const {
  TND_ASSERT(mutex_.is_held());
  auto const it = namespaces_.find(namespace_id);
  TND_ASSERT(it != namespaces_.end());
  return *it->second;
}

catalog::namespace_state &catalog::find_or_create(const std::string &namespace_name) {
  if (auto const it = ids_.find(namespace_name); it != ids_.end())
    return state_for(it->second);
  auto state = std::make_unique<namespace_state>();
  state->name = namespace_name;
  state->account->id = next_namespace_id_++;
  state->account->pool_used = pool_used_;
  state->account->memory = &memory_;
  state->quota = quota_for(namespace_name);
  ids_[namespace_name] = state->account->id;
  auto &slot = namespaces_[state->account->id];
  TND_ASSERT(slot == nullptr);
  slot = std::move(state);
  return *slot;
}

void catalog::set_counted(namespace_state &state, bool is_counted) {
  if (state.is_counted == is_counted)
    return;
  state.is_counted = is_counted;
  if (is_counted) {
    counted_namespaces_++;
  } else {
    TND_ASSERT(counted_namespaces_ > 0);
    counted_namespaces_--;
  }
}

// A namespace whose memory the journal still holds stays until that is released, because the memory
// counts towards its quota.
void catalog::remove_unused() {
  std::erase_if(maybe_unused_, [this](uint64_t namespace_id) {
    mutex_.assert_held();
    namespace_state &state = state_for(namespace_id);
    if (state.exists())
      return state.writer_count > 0 || !state.objects.empty();
    set_counted(state, false);
    if (state.reader_count > 0)
      return true;
    TND_ASSERT(state.evictable.empty());
    ids_.erase(state.name);
    namespaces_.erase(namespace_id);
    return true;
  });
}

result<uint64_t> catalog::open_namespace(const std::string &namespace_name, bool can_write) {
  lock_guard lock{mutex_};
  remove_unused();
  auto const it = ids_.find(namespace_name);
  bool const is_counted = it != ids_.end() && state_for(it->second).is_counted;
  bool const is_named = is_uncounted(namespace_name);
  if (can_write && !is_counted && !is_named &&
      counted_namespaces_ >= options_.namespace_count_max) {
    return fail(status::no_space,
                "there are {} namespaces with objects or clients, the maximum: remove all objects "
                "of one, or give this one a quota",
                counted_namespaces_);
  }
  namespace_state &entered = find_or_create(namespace_name);
  if (can_write)
    set_counted(entered, !is_named);
  (can_write ? entered.writer_count : entered.reader_count)++;
  return entered.account->id;
}

uint64_t catalog::open_restored_namespace(const std::string &namespace_name) {
  lock_guard lock{mutex_};
  remove_unused();
  namespace_state &entered = find_or_create(namespace_name);
  set_counted(entered, !is_uncounted(namespace_name));
  maybe_unused_.insert(entered.account->id);
  return entered.account->id;
}

// The namespaces of stripes have no limits of their own: those of their objects count.
bool catalog::is_uncounted(const std::string &namespace_name) const {
  return options_.quotas.contains(namespace_name) ||
         wire::pool::is_hidden_namespace(namespace_name);
}

uint64_t catalog::quota_for(const std::string &namespace_name) const {
  if (wire::pool::is_hidden_namespace(namespace_name))
    return 0;
  for (const std::string &key : {namespace_name, std::string{"*"}}) {
    auto const quota = options_.quotas.find(key);
    if (quota != options_.quotas.end())
      return quota->second;
  }
  return 0;
}

void catalog::replace_quotas(std::map<std::string, uint64_t> quotas) {
  lock_guard const lock{mutex_};
  options_.quotas = std::move(quotas);
  for (auto const &[id, state] : namespaces_) {
    state->quota = quota_for(state->name);
    set_counted(*state, state->exists() && !is_uncounted(state->name));
  }
}

int catalog::counters_descriptor(uint64_t namespace_id) {
  lock_guard lock{mutex_};
  namespace_state &state = state_for(namespace_id);
  if (state.counters != nullptr)
    return state.counters_descriptor;
  int const descriptor = memfd_create("tanada-names", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0)
    return -1;
  void *addr = MAP_FAILED;
  if (ftruncate(descriptor, sizeof(pool::name_counters)) == 0) {
    addr = mmap(
        nullptr, sizeof(pool::name_counters), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  // The seals keep clients from writing and resizing the counters.
  int const seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  bool const sealed = addr != MAP_FAILED && fcntl(descriptor, F_ADD_SEALS, seals) == 0;
  if (!sealed) {
    if (addr != MAP_FAILED)
      munmap(addr, sizeof(pool::name_counters));
    close(descriptor);
    return -1;
  }
  state.counters = static_cast<pool::name_counters *>(addr);
  state.counters_descriptor = descriptor;
  return descriptor;
}

namespace_statistics catalog::statistics_for(uint64_t namespace_id) const {
  lock_guard lock{mutex_};
  return describe(state_for(namespace_id));
}

namespace_statistics catalog::describe(const namespace_state &state) const {
  uint64_t const used = state.account->used.load();
  if (!memory_.binds_segments())
    return {state.name, used, state.objects.size(), state.quota, used, 0};
  owner_usage const usage = memory_.usage_of(state.account->id);
  return {state.name, used, state.objects.size(), state.quota, usage.owned, usage.segment_count};
}

std::vector<namespace_statistics> catalog::all_namespaces() const {
  lock_guard lock{mutex_};
  std::vector<namespace_statistics> all_statistics;
  for (auto const &[id, state] : namespaces_) {
    if (!state->exists())
      continue;
    all_statistics.push_back(describe(*state));
  }
  return all_statistics;
}

}  // namespace tanada::poold
