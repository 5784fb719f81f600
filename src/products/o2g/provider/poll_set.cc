// Poll sets: report which of several queues and counters have unread entries. libfabric 2 has
// removed them.

#include <algorithm>
#include <new>

#include "products/o2g/provider/objects.hpp"

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"

namespace tanada::o2g::provider {

namespace {

struct poll_set {
  fid_poll id{};
  domain *parent = nullptr;
  tanada::mutex mutex;
  std::vector<fid *> members TND_GUARDED_BY(mutex);
};

poll_set &of_id(fid_poll *id) {
  return *reinterpret_cast<poll_set *>(id);
}

// A member counts as used, so it cannot be closed.
std::atomic<int> *users_of(fid *id) {
  switch (id->fclass) {
    case FI_CLASS_CQ:
      return &reinterpret_cast<completion_queue *>(id)->users;
    case FI_CLASS_CNTR:
      return &reinterpret_cast<counter *>(id)->users;
    case FI_CLASS_EQ:
      return &reinterpret_cast<event_queue *>(id)->users;
    default:
      return nullptr;
  }
}

void remove_member(std::atomic<int> &users) {
  int const count_before = users.fetch_sub(1);
  TND_ASSERT(count_before > 0);
}

// Makes progress, and returns whether the member has an entry that the program has not read.
bool poll_member(fid *id) {
  if (id->fclass == FI_CLASS_CQ) {
    auto &queue = *reinterpret_cast<completion_queue *>(id);
    queue.waiting.progress(false);  // no sleep: the set's mutex is held
    return queue.count != 0;
  }
  if (id->fclass == FI_CLASS_CNTR) {
    auto &counted = *reinterpret_cast<counter *>(id);
    counted.waiting.progress(false);
    return counted.total() != counted.last_read;
  }
  auto &queue = *reinterpret_cast<event_queue *>(id);
  lock_guard const lock{queue.mutex};
  return !queue.events.empty();
}

int poll_set_close(fid *id) {
  auto *const closed = reinterpret_cast<poll_set *>(id);
  {
    lock_guard const lock{closed->mutex};
    for (fid *const member : closed->members)
      remove_member(*users_of(member));
  }
  remove_user(*closed->parent);
  delete closed;
  return 0;
}

int poll_set_poll(fid_poll *id, void **contexts, int count) {
  poll_set &set = of_id(id);
  lock_guard const lock{set.mutex};
  int ready_count = 0;
  for (fid *const member : set.members)
    if (ready_count < count && poll_member(member))
      contexts[ready_count++] = member->context;
  return ready_count;
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
  remove_member(*users_of(member));
  return 0;
}

fi_ops poll_set_id_ops = {
    sizeof(fi_ops), no_throw<poll_set_close>, no_bind, no_control, no_ops_open, nullptr, nullptr};
fi_ops_poll poll_set_ops = {sizeof(fi_ops_poll),
                            no_throw<poll_set_poll>,
                            no_throw<poll_set_add>,
                            no_throw<poll_set_remove>};

}  // namespace

int poll_set_open(fid_domain *parent, fi_poll_attr *attr, fid_poll **handle) {
  if (attr != nullptr && attr->flags != 0)
    return -FI_EINVAL;
  auto *const opened = new (std::nothrow) poll_set;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->parent = reinterpret_cast<domain *>(parent);
  opened->parent->users++;
  opened->id.fid = {FI_CLASS_POLL, nullptr, &poll_set_id_ops};
  opened->id.ops = &poll_set_ops;
  *handle = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
