// The namespaces of the catalog: which there are, for how long, and what is known of each.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

catalog::~catalog() = default;

catalog::space_state::~space_state() {
  if (counters != nullptr)
    munmap(counters, sizeof(pool::name_counters));
  if (counters_descriptor >= 0)
    close(counters_descriptor);
}

catalog::space_state &catalog::state_of(uint64_t space_id) {
  auto const found = spaces_.find(space_id);
  TND_ASSERT(found != spaces_.end());
  return *found->second;
}

const catalog::space_state &catalog::state_of(uint64_t space_id) const {
  auto const found = spaces_.find(space_id);
  TND_ASSERT(found != spaces_.end());
  return *found->second;
}

catalog::space_state &catalog::find_or_make(const std::string &space_name) {
  if (auto const found = ids_.find(space_name); found != ids_.end())
    return state_of(found->second);
  auto made = std::make_unique<space_state>();
  made->name = space_name;
  made->account->id = next_space_id_++;
  made->quota = quota_of(space_name);
  ids_[space_name] = made->account->id;
  auto &kept = spaces_[made->account->id];
  kept = std::move(made);
  return *kept;
}

void catalog::count(space_state &which, bool is_counted) {
  if (which.is_counted == is_counted)
    return;
  which.is_counted = is_counted;
  if (is_counted)
    counted_spaces_++;
  else
    counted_spaces_--;
}

// One whose memory the journal still holds stays until that is free, for its quota's sake.
void catalog::drop_unused() {
  std::erase_if(maybe_unused_, [this](uint64_t space_id) {
    space_state &which = state_of(space_id);
    if (which.exists())
      return which.writer_count > 0 || !which.objects.empty();
    count(which, false);
    if (which.reader_count > 0)
      return true;
    ids_.erase(which.name);
    spaces_.erase(space_id);
    return true;
  });
}

result<uint64_t> catalog::enter(const std::string &space_name, bool can_write) {
  std::lock_guard lock{mutex_};
  drop_unused();
  auto const found = ids_.find(space_name);
  bool const is_counted = found != ids_.end() && state_of(found->second).is_counted;
  bool const is_named = options_.quotas.contains(space_name);
  if (can_write && !is_counted && !is_named && counted_spaces_ >= options_.space_count_max) {
    return fail(status::no_space,
                "there are %u namespaces with objects or clients, as many as there may be: remove "
                "all objects of one, or give this one a quota",
                counted_spaces_);
  }
  space_state &entered = find_or_make(space_name);
  if (can_write)
    count(entered, !is_named);
  (can_write ? entered.writer_count : entered.reader_count)++;
  return entered.account->id;
}

uint64_t catalog::enter_restored(const std::string &space_name) {
  std::lock_guard lock{mutex_};
  drop_unused();
  space_state &entered = find_or_make(space_name);
  count(entered, !options_.quotas.contains(space_name));
  maybe_unused_.insert(entered.account->id);
  return entered.account->id;
}

uint64_t catalog::quota_of(const std::string &space_name) const {
  for (const std::string &key : {space_name, std::string{"*"}}) {
    auto const quota = options_.quotas.find(key);
    if (quota != options_.quotas.end())
      return quota->second;
  }
  return 0;
}

void catalog::replace_quotas(std::map<std::string, uint64_t> quotas) {
  std::lock_guard const lock{mutex_};
  options_.quotas = std::move(quotas);
  for (auto const &[id, space] : spaces_) {
    space->quota = quota_of(space->name);
    count(*space, space->exists() && !options_.quotas.contains(space->name));
  }
}

int catalog::counters_descriptor(uint64_t space_id) {
  std::lock_guard lock{mutex_};
  space_state &in = state_of(space_id);
  if (in.counters != nullptr)
    return in.counters_descriptor;
  int const descriptor = memfd_create("tanada-names", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0)
    return -1;
  void *addr = MAP_FAILED;
  if (ftruncate(descriptor, sizeof(pool::name_counters)) == 0) {
    addr = mmap(nullptr, sizeof(pool::name_counters), PROT_READ | PROT_WRITE, MAP_SHARED,
                descriptor, 0);
  }
  // From here on nobody else gets to write them, nor to cut them.
  int const seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  bool const sealed = addr != MAP_FAILED && fcntl(descriptor, F_ADD_SEALS, seals) == 0;
  if (!sealed) {
    if (addr != MAP_FAILED)
      munmap(addr, sizeof(pool::name_counters));
    close(descriptor);
    return -1;
  }
  in.counters = static_cast<pool::name_counters *>(addr);
  in.counters_descriptor = descriptor;
  return descriptor;
}

space_statistics catalog::statistics_of(uint64_t space_id) const {
  std::lock_guard lock{mutex_};
  return described(state_of(space_id));
}

space_statistics catalog::described(const space_state &in) const {
  uint64_t const used = in.account->used.load();
  if (!memory_.is_lendable())
    return {in.name, used, in.objects.size(), in.quota, used, 0};
  owner_usage const own = memory_.usage_of(in.account->id);
  return {in.name, used, in.objects.size(), in.quota, own.owned, own.segment_count};
}

std::vector<space_statistics> catalog::all_spaces() const {
  std::lock_guard lock{mutex_};
  std::vector<space_statistics> all;
  for (auto const &[id, in] : spaces_) {
    if (!in->exists())
      continue;
    all.push_back(described(*in));
  }
  return all;
}

}  // namespace tanada::poold
