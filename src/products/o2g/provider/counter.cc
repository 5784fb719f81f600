// Counters of the provider, and counters bound to memory regions.
#include <new>

#include "products/o2g/provider/objects.hpp"

#include "core/base/mutex.hpp"

namespace tanada::o2g::provider {

namespace {

counter &of_id(fid_cntr *id) {
  return *reinterpret_cast<counter *>(id);
}

// fi_cntr_read returns the count even if making progress fails.
int make_progress(counter &self) {
  self.waiting.progress();
  return 0;
}

uint64_t counter_read(fid_cntr *id) {
  counter &self = of_id(id);
  (void)exception_barrier<make_progress>::run(self);
  self.last_read = self.total();
  return self.value;
}
uint64_t counter_read_errors(fid_cntr *id) {
  counter &self = of_id(id);
  self.last_read = self.total();
  return self.errors;
}

int change(fid_cntr *id, std::atomic<uint64_t> counter::*member, bool adds, uint64_t amount) {
  counter &self = of_id(id);
  if (adds)
    (self.*member).fetch_add(amount);
  else
    (self.*member).store(amount);
  self.waiting.notify();
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

struct awaited_value {
  counter &target;
  uint64_t threshold, errors;
};

bool has_reached(void *argument) {
  auto const &wait = *static_cast<awaited_value *>(argument);
  return wait.target.value.load() >= wait.threshold || wait.target.errors.load() != wait.errors;
}

int counter_wait(fid_cntr *id, uint64_t threshold, int timeout_ms) {
  counter &self = of_id(id);
  awaited_value wait{self, threshold, self.errors};
  bool const is_reached =
      self.value >= threshold || self.waiting.wait(deadline_of(timeout_ms), has_reached, &wait);
  if (self.errors != wait.errors)
    return -FI_EAVAIL;
  return is_reached ? 0 : -FI_ETIMEDOUT;
}

int counter_control(fid *id, int command, void *argument) {
  return wait_control(reinterpret_cast<counter *>(id)->waiting, command, argument);
}

fi_ops counter_id_ops = {sizeof(fi_ops),
                         no_throw<close_unused<counter>>,
                         no_bind,
                         no_throw<counter_control>,
                         no_ops_open,
                         nullptr,
                         nullptr};
fi_ops_cntr counter_ops = {sizeof(fi_ops_cntr),
                           counter_read,
                           counter_read_errors,
                           no_throw<counter_add>,
                           no_throw<counter_set>,
                           no_throw<counter_wait>,
                           no_throw<counter_add_errors>,
                           no_throw<counter_set_errors>};

}  // namespace

void region_counters::bind(uint64_t key, counter &target, bool for_reads, bool for_writes) {
  lock_guard const lock{mutex_};
  pair &bound = by_key_[key];
  for (auto const &[slot, is_meant] :
       {std::pair{&bound.reads, for_reads}, std::pair{&bound.writes, for_writes}}) {
    if (!is_meant)
      continue;
    if (*slot != nullptr)
      remove_user(**slot);
    *slot = &target;
    target.users++;
  }
  is_used_ = true;
}

void region_counters::unbind(uint64_t key) {
  lock_guard const lock{mutex_};
  auto const it = by_key_.find(key);
  if (it == by_key_.end())
    return;
  for (counter *const bound : {it->second.reads, it->second.writes})
    if (bound != nullptr)
      remove_user(*bound);
  by_key_.erase(it);
}

void region_counters::count(uint64_t key, bool is_read, engine &reporter) {
  if (!is_used_)
    return;
  lock_guard const lock{mutex_};
  auto const it = by_key_.find(key);
  if (it == by_key_.end())
    return;
  counter *const counted = is_read ? it->second.reads : it->second.writes;
  if (counted != nullptr)
    counted->count(true, reporter);
}

int counter_open(fid_domain *parent, fi_cntr_attr *attr, fid_cntr **handle, void *context) {
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
  opened->parent = reinterpret_cast<domain *>(parent);
  opened->parent->users++;
  opened->id.fid = {FI_CLASS_CNTR, context, &counter_id_ops};
  opened->id.ops = &counter_ops;
  *handle = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
