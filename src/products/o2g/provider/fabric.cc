// fi_prov_ini and what hangs directly off a fabric.

#include <rdma/providers/fi_prov.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "products/o2g/provider/objects.hpp"

#include "core/base/mutex.hpp"

namespace tanada::o2g::provider {

namespace {

// Every program may ask for the API of the libfabric that it found; what a later version adds we do
// without.
constexpr uint32_t api_version = FI_VERSION(2, 99);

fabric &fabric_of(fid *id) {
  return *reinterpret_cast<fabric *>(id);
}

int fabric_close(fid *id) {
  fabric &closed = fabric_of(id);
  if (closed.users != 0)
    return -FI_EBUSY;
  delete &closed;
  return 0;
}

// Whether there is something that the program has not seen: then it must not sleep.
bool has_news(fid *id) {
  switch (id->fclass) {
    case FI_CLASS_CQ: {
      auto &queue = *reinterpret_cast<completion_queue *>(id);
      queue.waiting.settle();
      return queue.count != 0;
    }
    case FI_CLASS_CNTR: {
      auto &counted = *reinterpret_cast<counter *>(id);
      counted.waiting.settle();
      return counted.total() != counted.seen;
    }
    case FI_CLASS_EQ: {
      auto &queue = *reinterpret_cast<event_queue *>(id);
      queue.waiting.settle();
      lock_guard const lock{queue.mutex};
      return !queue.events.empty();
    }
    default: return false;
  }
}

int trywait(fid_fabric *, fid **ids, int count) {
  for (int i = 0; i < count; i++)
    if (has_news(ids[i]))
      return -FI_EAGAIN;
  return 0;
}

int no_passive(fid_fabric *, fi_info *, fid_pep **, void *) {
  return -FI_ENOSYS;
}
int no_wait(fid_fabric *, fi_wait_attr *, fid_wait **) {
  return -FI_ENOSYS;
}

fi_ops fabric_id_ops = {
    sizeof(fi_ops), fenced<fabric_close>, no_bind, no_control, no_ops_open, nullptr, nullptr};
fi_ops_fabric fabric_ops = {sizeof(fi_ops_fabric),
                            fenced<domain_open>,
                            no_passive,
                            fenced<event_queue_open>,
                            no_wait,
                            fenced<trywait>,
                            nullptr};

event_queue &event_queue_of(fid_eq *id) {
  return *reinterpret_cast<event_queue *>(id);
}

ssize_t event_read(fid_eq *id, uint32_t *what, void *into, size_t size, uint64_t flags) {
  event_queue &queue = event_queue_of(id);
  lock_guard const lock{queue.mutex};
  if (queue.events.empty())
    return -FI_EAGAIN;
  auto const &event = queue.events.front();
  if (event.error != 0)
    return -FI_EAVAIL;
  if (size < event.body.size())
    return -FI_ETOOSMALL;
  *what = event.what;
  std::memcpy(into, event.body.data(), event.body.size());
  auto const read = ssize_t(event.body.size());
  if ((flags & FI_PEEK) == 0)
    queue.events.pop_front();
  if (queue.events.empty())
    queue.waiting.lower();
  return read;
}

ssize_t event_read_error(fid_eq *id, fi_eq_err_entry *into, uint64_t flags) {
  event_queue &queue = event_queue_of(id);
  lock_guard const lock{queue.mutex};
  if (queue.events.empty() || queue.events.front().error == 0)
    return -FI_EAGAIN;
  std::memcpy(into, queue.events.front().body.data(), sizeof *into);
  if ((flags & FI_PEEK) == 0)
    queue.events.pop_front();
  if (queue.events.empty())
    queue.waiting.lower();
  return sizeof *into;
}

ssize_t event_write(fid_eq *id, uint32_t what, const void *from, size_t size, uint64_t) {
  event_queue_of(id).push(what, 0, from, size);
  return ssize_t(size);
}

// Events are made by calls of the program itself: nothing is to be driven for them.
ssize_t event_sread(fid_eq *id, uint32_t *what, void *into, size_t size, int timeout_ms,
                    uint64_t flags) {
  event_queue &queue = event_queue_of(id);
  auto const is_ready = [](void *argument) {
    auto &asked = *static_cast<event_queue *>(argument);
    lock_guard const lock{asked.mutex};
    return !asked.events.empty();
  };
  if (!queue.waiting.wait(deadline_of(timeout_ms), is_ready, &queue))
    return -FI_EAGAIN;
  return event_read(id, what, into, size, flags);
}

const char *event_error_text(fid_eq *, int error, const void *, char *text, size_t size) {
  const char *const said = std::strerror(error < 256 ? error : EIO);
  if (text != nullptr && size > 0) {
    std::strncpy(text, said, size - 1);
    text[size - 1] = '\0';
  }
  return said;
}

int event_control(fid *id, int command, void *argument) {
  return wait_control(reinterpret_cast<event_queue *>(id)->waiting, command, argument);
}

fi_ops event_id_ops = {sizeof(fi_ops), fenced<close_unused<event_queue>>,
                       no_bind,        fenced<event_control>,
                       no_ops_open,    nullptr,
                       nullptr};
fi_ops_eq event_ops = {sizeof(fi_ops_eq),   fenced<event_read>,  fenced<event_read_error>,
                       fenced<event_write>, fenced<event_sread>, event_error_text};

void cleanup() {}

}  // namespace

int fabric_open(fi_fabric_attr *attr, fid_fabric **made, void *context) {
  if (attr->name != nullptr && std::strcmp(attr->name, name) != 0)
    return -FI_EINVAL;
  auto *const opened = new (std::nothrow) fabric;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->id.fid = {FI_CLASS_FABRIC, context, &fabric_id_ops};
  opened->id.ops = &fabric_ops;
  opened->id.api_version = attr->api_version;
  *made = &opened->id;
  return 0;
}

void event_queue::push(uint32_t what, int error, const void *body, size_t size) {
  auto const *const bytes = static_cast<const std::byte *>(body);
  {
    lock_guard const lock{mutex};
    events.push_back({what, error, {bytes, bytes + size}});
  }
  waiting.tell();
}

int event_queue_open(fid_fabric *in, fi_eq_attr *attr, fid_eq **made, void *context) {
  fi_wait_obj const wait = attr == nullptr ? FI_WAIT_NONE : attr->wait_obj;
  if (!can_wait(wait))
    return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) event_queue;
  if (opened == nullptr)
    return -FI_ENOMEM;
  if (wait == FI_WAIT_FD && opened->waiting.open_descriptor() != status::ok) {
    delete opened;
    return -FI_EMFILE;
  }
  opened->in = &fabric_of(&in->fid);
  opened->in->users++;
  opened->id.fid = {FI_CLASS_EQ, context, &event_id_ops};
  opened->id.ops = &event_ops;
  *made = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider

// libfabric finds the provider by this name.
extern "C" [[gnu::visibility("default")]] fi_provider *fi_prov_ini(void) {
  namespace here = tanada::o2g::provider;
  static fi_provider provider = {
      here::version, here::api_version,           {},
      here::name,    here::fenced<here::getinfo>, here::fenced<here::fabric_open>,
      here::cleanup};
  return &provider;
}
