// Poll sets: which of several queues and counters have something to tell. libfabric 2 has none any
// more.

#include <algorithm>
#include <new>

#include "products/o2g/provider/objects.hpp"

#include "core/base/mutex.hpp"

namespace tanada::o2g::provider {

namespace {

struct poll_set {
  fid_poll id{};
  domain *in = nullptr;
  tanada::mutex mutex;
  std::vector<fid *> members;
};

poll_set &of_id(fid_poll *id) {
  return *reinterpret_cast<poll_set *>(id);
}

// Members count as used: they cannot be closed.
std::atomic<int> *users_of(fid *id) {
  switch (id->fclass) {
    case FI_CLASS_CQ: return &reinterpret_cast<completion_queue *>(id)->users;
    case FI_CLASS_CNTR: return &reinterpret_cast<counter *>(id)->users;
    case FI_CLASS_EQ: return &reinterpret_cast<event_queue *>(id)->users;
    default: return nullptr;
  }
}

bool has_member_news(fid *id) {
  if (id->fclass == FI_CLASS_CQ) {
    auto &queue = *reinterpret_cast<completion_queue *>(id);
    queue.waiting.drive(false);  // the set's mutex is held
    return queue.count != 0;
  }
  if (id->fclass == FI_CLASS_CNTR) {
    auto &counted = *reinterpret_cast<counter *>(id);
    counted.waiting.drive(false);
    return counted.total() != counted.seen;
  }
  auto &queue = *reinterpret_cast<event_queue *>(id);
  lock_guard const lock{queue.mutex};
  return !queue.events.empty();
}

int poll_set_close(fid *id) {
  auto *const closed = reinterpret_cast<poll_set *>(id);
  for (fid *const each : closed->members)
    users_of(each)->fetch_sub(1);
  closed->in->users--;
  delete closed;
  return 0;
}

int poll_set_poll(fid_poll *id, void **contexts, int count) {
  poll_set &set = of_id(id);
  lock_guard const lock{set.mutex};
  int found = 0;
  for (fid *const each : set.members)
    if (found < count && has_member_news(each))
      contexts[found++] = each->context;
  return found;
}

int poll_set_add(fid_poll *id, fid *member, uint64_t) {
  poll_set &set = of_id(id);
  auto *const users = users_of(member);
  if (users == nullptr)
    return -FI_EINVAL;
  lock_guard const lock{set.mutex};
  if (std::ranges::find(set.members, member) != set.members.end())
    return 0;
  users->fetch_add(1);
  set.members.push_back(member);
  return 0;
}

int poll_set_remove(fid_poll *id, fid *member, uint64_t) {
  poll_set &set = of_id(id);
  lock_guard const lock{set.mutex};
  if (std::erase(set.members, member) == 0)
    return -FI_EINVAL;
  users_of(member)->fetch_sub(1);
  return 0;
}

fi_ops poll_set_id_ops = {
    sizeof(fi_ops), fenced<poll_set_close>, no_bind, no_control, no_ops_open, nullptr, nullptr};
fi_ops_poll poll_set_ops = {sizeof(fi_ops_poll), fenced<poll_set_poll>, fenced<poll_set_add>,
                            fenced<poll_set_remove>};

}  // namespace

int poll_set_open(fid_domain *in, fi_poll_attr *attr, fid_poll **made) {
  if (attr != nullptr && attr->flags != 0)
    return -FI_EINVAL;
  auto *const opened = new (std::nothrow) poll_set;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->in = reinterpret_cast<domain *>(in);
  opened->in->users++;
  opened->id.fid = {FI_CLASS_POLL, nullptr, &poll_set_id_ops};
  opened->id.ops = &poll_set_ops;
  *made = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
