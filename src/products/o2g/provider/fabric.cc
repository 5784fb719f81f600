// The provider's entry point fi_prov_ini, fabrics and event queues.

#include <rdma/providers/fi_prov.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "products/o2g/provider/objects.hpp"

#include "core/base/mutex.hpp"

namespace tanada::o2g::provider {

namespace {

// Accept the API version of any libfabric. The provider does not implement what later versions add.
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

// Whether the object has an entry that the program has not read, so that the program must not
// sleep.
bool has_unread_entries(fid *id) {
  switch (id->fclass) {
    case FI_CLASS_CQ: {
      auto &queue = *reinterpret_cast<completion_queue *>(id);
      queue.waiting.prepare_sleep();
      return queue.count != 0;
    }
    case FI_CLASS_CNTR: {
      auto &counted = *reinterpret_cast<counter *>(id);
      counted.waiting.prepare_sleep();
      return counted.total() != counted.last_read;
    }
    case FI_CLASS_EQ: {
      auto &queue = *reinterpret_cast<event_queue *>(id);
      queue.waiting.prepare_sleep();
      lock_guard const lock{queue.mutex};
      return !queue.events.empty();
    }
    default:
      return false;
  }
}

int trywait(fid_fabric *, fid **ids, int count) {
  for (int i = 0; i < count; i++)
    if (has_unread_entries(ids[i]))
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
    sizeof(fi_ops), no_throw<fabric_close>, no_bind, no_control, no_ops_open, nullptr, nullptr};
fi_ops_fabric fabric_ops = {sizeof(fi_ops_fabric),
                            no_throw<domain_open>,
                            no_passive,
                            no_throw<event_queue_open>,
                            no_wait,
                            no_throw<trywait>,
                            nullptr};

event_queue &event_queue_of(fid_eq *id) {
  return *reinterpret_cast<event_queue *>(id);
}

ssize_t event_read(fid_eq *id, uint32_t *type, void *buffer, size_t size, uint64_t flags) {
  event_queue &queue = event_queue_of(id);
  lock_guard const lock{queue.mutex};
  if (queue.events.empty())
    return -FI_EAGAIN;
  auto const &event = queue.events.front();
  if (event.error != 0)
    return -FI_EAVAIL;
  if (size < event.body.size())
    return -FI_ETOOSMALL;
  *type = event.type;
  std::memcpy(buffer, event.body.data(), event.body.size());
  auto const read = ssize_t(event.body.size());
  if ((flags & FI_PEEK) == 0)
    queue.events.pop_front();
  if (queue.events.empty())
    queue.waiting.lower();
  return read;
}

ssize_t event_read_error(fid_eq *id, fi_eq_err_entry *entry, uint64_t flags) {
  event_queue &queue = event_queue_of(id);
  lock_guard const lock{queue.mutex};
  if (queue.events.empty() || queue.events.front().error == 0)
    return -FI_EAGAIN;
  std::memcpy(entry, queue.events.front().body.data(), sizeof *entry);
  if ((flags & FI_PEEK) == 0)
    queue.events.pop_front();
  if (queue.events.empty())
    queue.waiting.lower();
  return sizeof *entry;
}

ssize_t event_write(fid_eq *id, uint32_t type, const void *source, size_t size, uint64_t) {
  event_queue_of(id).push(type, 0, source, size);
  return ssize_t(size);
}

// Only calls of the program itself create events, so there is nothing to make progress on.
ssize_t event_sread(
    fid_eq *id, uint32_t *type, void *buffer, size_t size, int timeout_ms, uint64_t flags) {
  event_queue &queue = event_queue_of(id);
  auto const is_ready = [](void *argument) {
    auto &awaited = *static_cast<event_queue *>(argument);
    lock_guard const lock{awaited.mutex};
    return !awaited.events.empty();
  };
  if (!queue.waiting.wait(deadline_of(timeout_ms), is_ready, &queue))
    return -FI_EAGAIN;
  return event_read(id, type, buffer, size, flags);
}

const char *event_error_text(fid_eq *, int error, const void *, char *text, size_t size) {
  const char *const description = std::strerror(error < 256 ? error : EIO);
  if (text != nullptr && size > 0) {
    std::strncpy(text, description, size - 1);
    text[size - 1] = '\0';
  }
  return description;
}

int event_control(fid *id, int command, void *argument) {
  return wait_control(reinterpret_cast<event_queue *>(id)->waiting, command, argument);
}

fi_ops event_id_ops = {sizeof(fi_ops),
                       no_throw<close_unused<event_queue>>,
                       no_bind,
                       no_throw<event_control>,
                       no_ops_open,
                       nullptr,
                       nullptr};
fi_ops_eq event_ops = {sizeof(fi_ops_eq),
                       no_throw<event_read>,
                       no_throw<event_read_error>,
                       no_throw<event_write>,
                       no_throw<event_sread>,
                       event_error_text};

void cleanup() {}

}  // namespace

int fabric_open(fi_fabric_attr *attr, fid_fabric **handle, void *context) {
  if (attr->name != nullptr && std::strcmp(attr->name, name) != 0)
    return -FI_EINVAL;
  auto *const opened = new (std::nothrow) fabric;
  if (opened == nullptr)
    return -FI_ENOMEM;
  opened->id.fid = {FI_CLASS_FABRIC, context, &fabric_id_ops};
  opened->id.ops = &fabric_ops;
  opened->id.api_version = attr->api_version;
  *handle = &opened->id;
  return 0;
}

void event_queue::push(uint32_t type, int error, const void *body, size_t size) {
  auto const *const bytes = static_cast<const std::byte *>(body);
  {
    lock_guard const lock{mutex};
    events.push_back({type, error, {bytes, bytes + size}});
  }
  waiting.notify();
}

int event_queue_open(fid_fabric *parent, fi_eq_attr *attr, fid_eq **handle, void *context) {
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
  opened->parent = &fabric_of(&parent->fid);
  opened->parent->users++;
  opened->id.fid = {FI_CLASS_EQ, context, &event_id_ops};
  opened->id.ops = &event_ops;
  *handle = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider

// libfabric looks the provider up by this symbol.
extern "C" [[gnu::visibility("default")]] fi_provider *fi_prov_ini(void) {
  namespace o2g_provider = tanada::o2g::provider;
  static fi_provider provider = {o2g_provider::version,
                                 o2g_provider::api_version,
                                 {},
                                 o2g_provider::name,
                                 o2g_provider::no_throw<o2g_provider::getinfo>,
                                 o2g_provider::no_throw<o2g_provider::fabric_open>,
                                 o2g_provider::cleanup};
  return &provider;
}
