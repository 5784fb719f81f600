#include <new>

#include "o2g/provider/objects.hpp"
#include "port/clock/clock.hpp"

namespace tanada::o2g::provider {

namespace {

counter &of_id(fid_cntr *id) { return *reinterpret_cast<counter *>(id); }

int counter_close(fid *id) {
  auto *const closed = reinterpret_cast<counter *>(id);
  if (!closed->endpoints.empty()) return -FI_EBUSY;
  closed->in->users--;
  delete closed;
  return 0;
}

uint64_t counter_read(fid_cntr *id) {
  poll(of_id(id));
  return of_id(id).value;
}
uint64_t counter_read_errors(fid_cntr *id) { return of_id(id).errors; }
int counter_add(fid_cntr *id, uint64_t value) { return of_id(id).value += value, 0; }
int counter_set(fid_cntr *id, uint64_t value) { return of_id(id).value = value, 0; }
int counter_add_errors(fid_cntr *id, uint64_t value) { return of_id(id).errors += value, 0; }
int counter_set_errors(fid_cntr *id, uint64_t value) { return of_id(id).errors = value, 0; }

struct waited {
  counter &at;
  uint64_t threshold, errors;
};

bool is_ready(void *argument) {
  auto const &wait = *static_cast<waited *>(argument);
  return wait.at.value.load() >= wait.threshold || wait.at.errors.load() != wait.errors;
}

constexpr uint64_t slice_ns = 1'000'000;

int counter_wait(fid_cntr *id, uint64_t threshold, int timeout_ms) {
  counter &at = of_id(id);
  auto &clock = port::monotonic_clock();
  uint64_t const deadline_ns = timeout_ms < 0 ? ~uint64_t{0} : clock.now_ns() + uint64_t(timeout_ms) * 1'000'000;
  waited wait{at, threshold, at.errors};
  for (;;) {
    if (at.errors != wait.errors) return -FI_EAVAIL;
    if (at.value >= threshold) return 0;
    std::shared_lock const lock{at.endpoints_mutex};
    if (at.endpoints.empty()) return -FI_EINVAL;
    size_t found = 0;
    for (endpoint *const each : at.endpoints) found += each->speaker->poll(false);
    if (found != 0 || is_ready(&wait)) continue;
    if (clock.now_ns() >= deadline_ns) return -FI_ETIMEDOUT;
    uint64_t const until_ns = at.endpoints.size() == 1 ? deadline_ns : std::min(deadline_ns, clock.now_ns() + slice_ns);
    (void)at.endpoints.front()->speaker->wait(until_ns, is_ready, &wait);
  }
}

fi_ops counter_id_ops = {sizeof(fi_ops), counter_close, no_bind, no_control, no_ops_open, nullptr, nullptr};
fi_ops_cntr counter_ops = {sizeof(fi_ops_cntr), counter_read, counter_read_errors, counter_add, counter_set, counter_wait,
                           counter_add_errors, counter_set_errors};

}  // namespace

int counter_open(fid_domain *in, fi_cntr_attr *attr, fid_cntr **made, void *context) {
  bool const can_wait = attr == nullptr || attr->wait_obj == FI_WAIT_NONE || attr->wait_obj == FI_WAIT_UNSPEC;
  if (!can_wait) return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) counter;
  if (opened == nullptr) return -FI_ENOMEM;
  opened->in = reinterpret_cast<domain *>(in);
  opened->in->users++;
  opened->id.fid = {FI_CLASS_CNTR, context, &counter_id_ops};
  opened->id.ops = &counter_ops;
  *made = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
