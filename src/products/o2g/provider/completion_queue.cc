// Completion queues of the provider: reading, waiting and error entries.
#include <cstring>
#include <new>

#include "products/o2g/provider/objects.hpp"
#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"
#include "seams/fabric/queue_wait.hpp"

namespace tanada::o2g::provider {

namespace {

completion_queue &of_id(fid_cq *id) {
  return *reinterpret_cast<completion_queue *>(id);
}

size_t entry_size(fi_cq_format format) {
  switch (format) {
    case FI_CQ_FORMAT_MSG:
      return sizeof(fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
      return sizeof(fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
      return sizeof(fi_cq_tagged_entry);
    default:
      return sizeof(fi_cq_entry);
  }
}

// The shorter formats are prefixes of the longest one.
void write_entry(const queue_entry &source, fi_cq_format format, std::byte *target) {
  fi_cq_tagged_entry const entry{
      source.context, source.flags, source.size, source.buffer, source.data, source.tag};
  std::memcpy(target, &entry, entry_size(format));
}

// While another thread changes the queue, it counts as empty. The caller polls again instead of
// waiting for the lock.
ssize_t take_entries(completion_queue &queue, void *buffer, size_t count, fi_addr_t *sources) {
  if (queue.count.load(std::memory_order_acquire) == 0)
    return queue.is_out_of_memory ? -FI_ENOMEM : -FI_EAGAIN;
  if (!queue.mutex.try_lock())
    return -FI_EAGAIN;
  lock_guard const lock{queue.mutex, std::adopt_lock};
  size_t taken_count = 0;
  auto *position = static_cast<std::byte *>(buffer);
  for (; taken_count < count && !queue.entries.empty() && queue.entries.front().error == 0;
       taken_count++) {
    write_entry(queue.entries.front(), queue.format, position);
    position += entry_size(queue.format);
    if (sources != nullptr)
      sources[taken_count] = queue.entries.front().source;
    queue.entries.pop_front();
  }
  TND_ASSERT(queue.count.load() >= taken_count);
  queue.count.fetch_sub(taken_count, std::memory_order_relaxed);
  if (queue.entries.empty())
    queue.waiting.lower();
  if (taken_count != 0)
    return ssize_t(taken_count);
  if (queue.entries.empty())
    return -FI_EAGAIN;
  return queue.entries.front().error != 0 ? -FI_EAVAIL : 0;  // 0: the caller requested no entries
}

ssize_t cq_read_from(fid_cq *id, void *buffer, size_t count, fi_addr_t *sources) {
  completion_queue &queue = of_id(id);
  if (count != 0) {  // a count of 0 only requests progress
    ssize_t const taken_count = take_entries(queue, buffer, count, sources);
    if (taken_count != -FI_EAGAIN && taken_count != -FI_ENOMEM)
      return taken_count;
  }
  queue.waiting.progress();
  return take_entries(queue, buffer, count, sources);
}

ssize_t cq_read(fid_cq *id, void *buffer, size_t count) {
  return cq_read_from(id, buffer, count, nullptr);
}

ssize_t cq_read_error(fid_cq *id, fi_cq_err_entry *error_entry, uint64_t) {
  completion_queue &queue = of_id(id);
  lock_guard const lock{queue.mutex};
  if (queue.entries.empty() || queue.entries.front().error == 0)
    return -FI_EAGAIN;
  queue_entry const &entry = queue.entries.front();
  error_entry->op_context = entry.context;
  error_entry->flags = entry.flags;
  error_entry->len = entry.size;
  error_entry->buf = entry.buffer;
  error_entry->data = entry.data;
  error_entry->tag = entry.tag;
  error_entry->olen = entry.overflow_size;
  error_entry->err = entry.error;
  error_entry->prov_errno = entry.error;
  error_entry->err_data_size = 0;
  queue.entries.pop_front();
  TND_ASSERT(queue.count.load() != 0);
  queue.count.fetch_sub(1, std::memory_order_relaxed);
  if (queue.entries.empty())
    queue.waiting.lower();
  return 1;
}

bool is_ready(void *argument) {
  auto const &queue = *static_cast<completion_queue *>(argument);
  return queue.count.load() != 0 || queue.is_signaled.load() || queue.is_out_of_memory.load();
}

ssize_t cq_sread_from(
    fid_cq *id, void *buffer, size_t count, fi_addr_t *sources, const void *, int timeout_ms) {
  completion_queue &queue = of_id(id);
  uint64_t const deadline_ns = deadline_of(timeout_ms);
  for (;;) {
    ssize_t const taken_count = take_entries(queue, buffer, count, sources);
    if (taken_count != -FI_EAGAIN)
      return taken_count;
    if (queue.is_signaled.exchange(false))
      return -FI_EAGAIN;
    if (!queue.waiting.wait(deadline_ns, is_ready, &queue))
      return -FI_EAGAIN;
  }
}

ssize_t cq_sread(fid_cq *id, void *buffer, size_t count, const void *condition, int timeout_ms) {
  return cq_sread_from(id, buffer, count, nullptr, condition, timeout_ms);
}

int cq_wait(fid_cq *id, uint64_t deadline_ns) {
  completion_queue &queue = of_id(id);
  bool const is_done = queue.waiting.wait(deadline_ns, is_ready, &queue);
  return queue.is_signaled.exchange(false) || is_done ? 0 : -FI_EAGAIN;
}

struct awaited_count {
  completion_queue &queue;
  const counter &count;
  uint64_t threshold;
};

bool has_reached_count(void *argument) {
  auto const &awaited = *static_cast<awaited_count *>(argument);
  return awaited.count.value.load() > awaited.threshold || is_ready(&awaited.queue);
}

int cq_wait_for_count(fid_cq *id, fid_cntr *counter_id, uint64_t threshold, uint64_t deadline_ns) {
  completion_queue &queue = of_id(id);
  awaited_count awaited{queue, *reinterpret_cast<const counter *>(counter_id), threshold};
  bool const is_done = queue.waiting.wait(deadline_ns, has_reached_count, &awaited);
  return queue.is_signaled.exchange(false) || is_done ? 0 : -FI_EAGAIN;
}

seams::queue_wait_ops wait_ops = {
    sizeof(seams::queue_wait_ops), no_throw<cq_wait>, no_throw<cq_wait_for_count>};

int cq_ops_open(fid *, const char *name, uint64_t, void **ops, void *) {
  if (std::strcmp(name, seams::queue_wait_name) != 0)
    return -FI_ENOSYS;
  *ops = &wait_ops;
  return 0;
}

int cq_signal(fid_cq *id) {
  completion_queue &queue = of_id(id);
  queue.is_signaled = true;
  queue.waiting.notify();
  return 0;
}

const char *cq_error_text(fid_cq *, int error, const void *, char *text, size_t size) {
  const char *const description = error == FI_ETRUNC
                                      ? "the message is larger than the receive buffer"
                                      : std::strerror(error < 256 ? error : EIO);
  if (text != nullptr && size > 0) {
    std::strncpy(text, description, size - 1);
    text[size - 1] = '\0';
  }
  return description;
}

int cq_control(fid *id, int command, void *argument) {
  return wait_control(reinterpret_cast<completion_queue *>(id)->waiting, command, argument);
}

fi_ops cq_id_ops = {sizeof(fi_ops),
                    no_throw<close_unused<completion_queue>>,
                    no_bind,
                    no_throw<cq_control>,
                    cq_ops_open,
                    nullptr,
                    nullptr};
fi_ops_cq cq_ops = {sizeof(fi_ops_cq),
                    no_throw<cq_read>,
                    no_throw<cq_read_from>,
                    no_throw<cq_read_error>,
                    no_throw<cq_sread>,
                    no_throw<cq_sread_from>,
                    no_throw<cq_signal>,
                    cq_error_text};

}  // namespace

bool completion_queue::push(const queue_entry &entry, engine &reporter) noexcept {
  bool is_pushed = true;
  try {
    lock_guard const lock{mutex};
    entries.push_back(entry);
    count.fetch_add(1);
  } catch (const std::bad_alloc &) {
    is_out_of_memory = true;
    is_pushed = false;
  }
  waiting.notify(reporter);
  return is_pushed;
}

int completion_queue_open(fid_domain *parent, fi_cq_attr *attr, fid_cq **handle, void *context) {
  if (!can_wait(attr->wait_obj) || attr->format > FI_CQ_FORMAT_TAGGED)
    return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) completion_queue;
  if (opened == nullptr)
    return -FI_ENOMEM;
  if (attr->wait_obj == FI_WAIT_FD && opened->waiting.open_descriptor() != status::ok) {
    delete opened;
    return -FI_EMFILE;
  }
  opened->parent = reinterpret_cast<domain *>(parent);
  opened->parent->users++;
  opened->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
  opened->id.fid = {FI_CLASS_CQ, context, &cq_id_ops};
  opened->id.ops = &cq_ops;
  *handle = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
