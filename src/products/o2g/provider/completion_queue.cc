#include <cstring>
#include <new>

#include "products/o2g/provider/objects.hpp"
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
    case FI_CQ_FORMAT_MSG: return sizeof(fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA: return sizeof(fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED: return sizeof(fi_cq_tagged_entry);
    default: return sizeof(fi_cq_entry);
  }
}

// The shorter formats are beginnings of the longest.
void write_entry(const queue_entry &from, fi_cq_format format, std::byte *to) {
  fi_cq_tagged_entry const entry{from.context, from.flags, from.size,
                                 from.buffer,  from.data,  from.tag};
  std::memcpy(to, &entry, entry_size(format));
}

// While another thread changes the queue, it is as good as empty: the caller looks again, and does
// not wait.
ssize_t take(completion_queue &from, void *into, size_t count, fi_addr_t *sources) {
  if (from.count.load(std::memory_order_acquire) == 0)
    return from.is_short ? -FI_ENOMEM : -FI_EAGAIN;
  if (!from.mutex.try_lock())
    return -FI_EAGAIN;
  lock_guard const lock{from.mutex, std::adopt_lock};
  size_t taken = 0;
  auto *to = static_cast<std::byte *>(into);
  for (; taken < count && !from.entries.empty() && from.entries.front().error == 0; taken++) {
    write_entry(from.entries.front(), from.format, to);
    to += entry_size(from.format);
    if (sources != nullptr)
      sources[taken] = from.entries.front().source;
    from.entries.pop_front();
  }
  from.count.fetch_sub(taken, std::memory_order_relaxed);
  if (from.entries.empty())
    from.waiting.lower();
  if (taken != 0)
    return ssize_t(taken);
  if (from.entries.empty())
    return -FI_EAGAIN;
  return from.entries.front().error != 0 ? -FI_EAVAIL : 0;  // 0: none was asked for
}

ssize_t cq_read_from(fid_cq *id, void *into, size_t count, fi_addr_t *sources) {
  completion_queue &queue = of_id(id);
  if (count != 0) {  // else it is a call for progress
    ssize_t const taken = take(queue, into, count, sources);
    if (taken != -FI_EAGAIN && taken != -FI_ENOMEM)
      return taken;
  }
  queue.waiting.drive();
  return take(queue, into, count, sources);
}

ssize_t cq_read(fid_cq *id, void *into, size_t count) {
  return cq_read_from(id, into, count, nullptr);
}

ssize_t cq_read_error(fid_cq *id, fi_cq_err_entry *into, uint64_t) {
  completion_queue &queue = of_id(id);
  lock_guard const lock{queue.mutex};
  if (queue.entries.empty() || queue.entries.front().error == 0)
    return -FI_EAGAIN;
  queue_entry const &from = queue.entries.front();
  into->op_context = from.context;
  into->flags = from.flags;
  into->len = from.size;
  into->buf = from.buffer;
  into->data = from.data;
  into->tag = from.tag;
  into->olen = from.lost;
  into->err = from.error;
  into->prov_errno = from.error;
  into->err_data_size = 0;
  queue.entries.pop_front();
  queue.count.fetch_sub(1, std::memory_order_relaxed);
  if (queue.entries.empty())
    queue.waiting.lower();
  return 1;
}

bool is_ready(void *argument) {
  auto const &queue = *static_cast<completion_queue *>(argument);
  return queue.count.load() != 0 || queue.is_signaled.load() || queue.is_short.load();
}

ssize_t cq_sread_from(fid_cq *id, void *into, size_t count, fi_addr_t *sources, const void *,
                      int timeout_ms) {
  completion_queue &queue = of_id(id);
  uint64_t const deadline_ns = deadline_of(timeout_ms);
  for (;;) {
    ssize_t const taken = take(queue, into, count, sources);
    if (taken != -FI_EAGAIN)
      return taken;
    if (queue.is_signaled.exchange(false))
      return -FI_EAGAIN;
    if (!queue.waiting.wait(deadline_ns, is_ready, &queue))
      return -FI_EAGAIN;
  }
}

ssize_t cq_sread(fid_cq *id, void *into, size_t count, const void *condition, int timeout_ms) {
  return cq_sread_from(id, into, count, nullptr, condition, timeout_ms);
}

int cq_wait(fid_cq *id, uint64_t deadline_ns) {
  completion_queue &queue = of_id(id);
  bool const has_come = queue.waiting.wait(deadline_ns, is_ready, &queue);
  return queue.is_signaled.exchange(false) || has_come ? 0 : -FI_EAGAIN;
}

struct awaited_count {
  completion_queue &queue;
  const counter &count;
  uint64_t seen;
};

bool has_counted(void *argument) {
  auto const &what = *static_cast<awaited_count *>(argument);
  return what.count.value.load() > what.seen || is_ready(&what.queue);
}

int cq_wait_for_count(fid_cq *id, fid_cntr *of, uint64_t seen, uint64_t deadline_ns) {
  completion_queue &queue = of_id(id);
  awaited_count what{queue, *reinterpret_cast<const counter *>(of), seen};
  bool const has_come = queue.waiting.wait(deadline_ns, has_counted, &what);
  return queue.is_signaled.exchange(false) || has_come ? 0 : -FI_EAGAIN;
}

port::queue_wait_ops wait_ops = {sizeof(port::queue_wait_ops), fenced<cq_wait>,
                                 fenced<cq_wait_for_count>};

int cq_ops_open(fid *, const char *name, uint64_t, void **ops, void *) {
  if (std::strcmp(name, port::queue_wait_name) != 0)
    return -FI_ENOSYS;
  *ops = &wait_ops;
  return 0;
}

int cq_signal(fid_cq *id) {
  completion_queue &queue = of_id(id);
  queue.is_signaled = true;
  queue.waiting.tell();
  return 0;
}

const char *cq_error_text(fid_cq *, int error, const void *, char *text, size_t size) {
  const char *const said = error == FI_ETRUNC ? "the message is longer than the receive"
                                              : std::strerror(error < 256 ? error : EIO);
  if (text != nullptr && size > 0) {
    std::strncpy(text, said, size - 1);
    text[size - 1] = '\0';
  }
  return said;
}

int cq_control(fid *id, int command, void *argument) {
  return wait_control(reinterpret_cast<completion_queue *>(id)->waiting, command, argument);
}

fi_ops cq_id_ops = {sizeof(fi_ops), fenced<close_unused<completion_queue>>,
                    no_bind,        fenced<cq_control>,
                    cq_ops_open,    nullptr,
                    nullptr};
fi_ops_cq cq_ops = {sizeof(fi_ops_cq),     fenced<cq_read>,  fenced<cq_read_from>,
                    fenced<cq_read_error>, fenced<cq_sread>, fenced<cq_sread_from>,
                    fenced<cq_signal>,     cq_error_text};

}  // namespace

bool completion_queue::push(const queue_entry &entry, engine &by) noexcept {
  bool is_pushed = true;
  try {
    lock_guard const lock{mutex};
    entries.push_back(entry);
    count.fetch_add(1);
  } catch (const std::bad_alloc &) {
    is_short = true;
    is_pushed = false;
  }
  waiting.tell(by);
  return is_pushed;
}

int completion_queue_open(fid_domain *in, fi_cq_attr *attr, fid_cq **made, void *context) {
  if (!can_wait(attr->wait_obj) || attr->format > FI_CQ_FORMAT_TAGGED)
    return -FI_ENOSYS;
  auto *const opened = new (std::nothrow) completion_queue;
  if (opened == nullptr)
    return -FI_ENOMEM;
  if (attr->wait_obj == FI_WAIT_FD && opened->waiting.open_descriptor() != status::ok) {
    delete opened;
    return -FI_EMFILE;
  }
  opened->in = reinterpret_cast<domain *>(in);
  opened->in->users++;
  opened->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
  opened->id.fid = {FI_CLASS_CQ, context, &cq_id_ops};
  opened->id.ops = &cq_ops;
  *made = &opened->id;
  return 0;
}

}  // namespace tanada::o2g::provider
