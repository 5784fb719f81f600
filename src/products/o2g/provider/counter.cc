#include <new>

#include "products/o2g/provider/objects.hpp"

#include "core/base/mutex.hpp"

namespace tanada::o2g::provider {

namespace {

counter &of_id(fid_cntr *id) {
  return *reinterpret_cast<counter *>(id);
}

// The count is told whatever becomes of this.
int drive(counter &at) {
  at.waiting.drive();
  return 0;
}

uint64_t counter_read(fid_cntr *id) {
  counter &at = of_id(id);
  (void)fence<drive>::run(at);
  at.seen = at.total();
  return at.value;
}
uint64_t counter_read_errors(fid_cntr *id) {
  counter &at = of_id(id);
  at.seen = at.total();
  return at.errors;
}

int change(fid_cntr *id, std::atomic<uint64_t> counter::*which, bool adds, uint64_t by) {
  counter &at = of_id(id);
  if (adds)
    (at.*which).fetch_add(by);
  else
    (at.*which).store(by);
  at.waiting.tell();
  return 0;
}
int counter_add(fid_cntr *id, uint64_t value) {
  return change(id, &counter::value, true, value);
}
int counter_set(fid_cntr *id, uint64_t value) {
  return change(id, &counter::value, false, value);
}
int counter_add_errors(fid_cntr *id, uint64_t value) {
  return change(id, &counter::errors, true, value);
}
int counter_set_errors(fid_cntr *id, uint64_t value) {
  return change(id, &counter::errors, false, value);
}

struct waited {
  counter &at;
  uint64_t threshold, errors;
};

bool has_reached(void *argument) {
  auto const &wait = *static_cast<waited *>(argument);
  return wait.at.value.load() >= wait.threshold || wait.at.errors.load() != wait.errors;
}

int counter_wait(fid_cntr *id, uint64_t threshold, int timeout_ms) {
  counter &at = of_id(id);
  waited wait{at, threshold, at.errors};
  bool const is_reached =
      at.value >= threshold || at.waiting.wait(deadline_of(timeout_ms), has_reached, &wait);
  if (at.errors != wait.errors)
    return -FI_EAVAIL;
  return is_reached ? 0 : -FI_ETIMEDOUT;
}

int counter_control(fid *id, int command, void *argument) {
  return wait_control(reinterpret_cast<counter *>(id)->waiting, command, argument);
}

fi_ops counter_id_ops = {sizeof(fi_ops), fenced<close_unused<counter>>,
                         no_bind,        fenced<counter_control>,
                         no_ops_open,    nullptr,
                         nullptr};
fi_ops_cntr counter_ops = {sizeof(fi_ops_cntr),        counter_read,
                           counter_read_errors,        fenced<counter_add>,
                           fenced<counter_set>,        fenced<counter_wait>,
                           fenced<counter_add_errors>, fenced<counter_set_errors>};

}  // namespace

void region_counters::bind(uint64_t key, counter &which, bool for_reads, bool for_writes) {
  lock_guard const lock{mutex_};
  pair &bound = by_key_[key];
  for (auto const &[slot, is_meant] :
       {std::pair{&bound.reads, for_reads}, std::pair{&bound.writes, for_writes}}) {
    if (!is_meant)
      continue;
    if (*slot != nullptr)
      (*slot)->users--;
    *slot = &which;
    which.users++;
  }
  is_used_ = true;
}

void region_counters::forget(uint64_t key) {
  lock_guard const lock{mutex_};
  auto const found = by_key_.find(key);
  if (found == by_key_.end())
    return;
  for (counter *const each : {found->second.reads, found->second.writes})
    if (each != nullptr)
      each->users--;
  by_key_.erase(found);
}

void region_counters::count(uint64_t key, bool is_read, engine &by) {
  if (!is_used_)
    return;
  lock_guard const lock{mutex_};
  auto const found = by_key_.find(key);
  if (found == by_key_.end())
    return;
  counter *const counted = is_read ? found->second.reads : found->second.writes;
  if (counted != nullptr)
    counted->count(true, by);
}

int counter_open(fid_domain *in, fi_cntr_attr *attr, fid_cntr **made, void *context) {
  fi_wait_obj const wait = attr == nullptr ? FI_WAIT_NONE : attr->wait_obj;
  if (!can_wait(wait))
    return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) counter;
  if (opened == nullptr)
    return -FI_ENOMEM;
  if (wait == FI_WAIT_FD && opened->waiting.open_descriptor() != status::ok) {
    delete opened;
    return -FI_EMFILE;
  }
  opened->in = reinterpret_cast<domain *>(in);
  opened->in->users++;
  opened->id.fid = {FI_CLASS_CNTR, context, &counter_id_ops};
  opened->id.ops = &counter_ops;
  *made = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
