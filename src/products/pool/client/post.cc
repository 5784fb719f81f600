// products/pool/client/post.cc: a client's asynchronous requests.
#include <algorithm>

#include "core/base/checked.hpp"
#include "products/pool/client/client.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr size_t posted_count_max = 1024;
constexpr size_t posts_per_send = 16;

commit_terms terms_of(const tnd_pool_request &request) {
  commit_terms terms;
  terms.flags = request.flags;
  terms.checksum_kind = request.checksum_kind;
  return terms;
}

std::vector<iovec> memory_of(const tnd_pool_request &request) {
  std::vector<iovec> memory;
  if (request.size > 0)
    memory.push_back({request.memory, request.size});
  return memory;
}

bool is_read(uint32_t request_kind) {
  return request_kind == TND_POOL_REQUEST_GET || request_kind == TND_POOL_REQUEST_READ;
}

}  // namespace

status client::post(const tnd_pool_request &request, const std::shared_ptr<open_object> &object) {
  if (posted_.size() >= posted_count_max)
    return status::again;
  TND_TRY(ensure_connected(is_read(request.kind)));
  auto operation = make_operation(request);
  TND_TRY(post_operation(request, object, operation));
  posted_.push_back(std::move(operation));
  if (channel_ != nullptr && posted_.size() % posts_per_send == 1)
    (void)channel_->progress(0);
  return status::ok;
}

client::posted_ptr client::make_operation(const tnd_pool_request &request) const {
  auto operation = std::make_shared<posted>();
  operation->result = {.context = request.context,
                       .status = TND_OK,
                       .kind = request.kind,
                       .size = request.size,
                       .version = 0,
                       .path = TND_POOL_PATH_NONE,
                       .reserved = 0};
  operation->posted_ns = clock().now_ns();
  operation->path = stream_path();
  bool const has_name =
      request.kind == TND_POOL_REQUEST_PUT || request.kind == TND_POOL_REQUEST_GET;
  if (has_name)
    operation->name = request.name;
  if (request.kind == TND_POOL_REQUEST_PUT)
    operation->terms = terms_of(request);
  operation->memory = request.memory;
  operation->offset = request.offset;
  return operation;
}

status client::post_operation(const tnd_pool_request &request,
                              const std::shared_ptr<open_object> &object,
                              const posted_ptr &operation) {
  switch (tnd_pool_request_kind(request.kind)) {
    case TND_POOL_REQUEST_PUT:
      return post_put(request, operation);
    case TND_POOL_REQUEST_GET:
      post_get(request, operation);
      break;
    case TND_POOL_REQUEST_WRITE:
    case TND_POOL_REQUEST_READ:
      operation->object = object;
      return post_move(request, *object, operation);
    case TND_POOL_REQUEST_COMMIT:
      return post_commit(request, object, operation);
  }
  return status::ok;
}

// The requests of a striped object are carried out at once, because they are many.
status client::post_put(const tnd_pool_request &request, const posted_ptr &operation) {
  if (is_striped_size(request.size)) {
    uint64_t version = 0;
    status const code =
        put_striped(request.name, request.memory, request.size, terms_of(request), version);
    operation->result.status = tnd_status(code);
    operation->result.version = version;
    if (code == status::ok)
      operation->result.path = tnd_pool_path(traffic_.counters().last_path);
    operation->done = true;
    return status::ok;
  }
  TND_TRY(ensure_connected(false));
  put_request message;
  message.name = request.name;
  message.terms = terms_of(request);
  channel_->post(
      kind::put, message, memory_of(request), {}, [this, operation](const reply &received) {
        complete_info(*operation, received);
      });
  return status::ok;
}

void client::post_get(const tnd_pool_request &request, const posted_ptr &operation) {
  get_request message;
  message.name = request.name;
  message.capacity = request.size;
  channel_->post(
      kind::get, message, {}, memory_of(request), [this, operation](const reply &received) {
        complete_info(*operation, received);
      });
}

// Whether the object is striped, or will be by this write.
bool client::is_striped_move(const tnd_pool_request &request, const open_object &object) {
  uint64_t const end = request.offset + request.size;
  bool const grows = request.kind == TND_POOL_REQUEST_WRITE && end > object.about.size;
  return object.striped != nullptr || (grows && is_striped_size(end));
}

// Carries out the transfer through shared memory at once, if possible; otherwise posts a request.
status client::post_move(const tnd_pool_request &request,
                         open_object &object,
                         const posted_ptr &operation) {
  bool const writes = request.kind == TND_POOL_REQUEST_WRITE;
  bool const is_usable = check_usable(object) == status::ok;
  // A read opens the object again.
  if (!is_usable && (writes || !can_reopen(object)))
    return status::stale;
  if (writes && !object.is_writer)
    return status::bad_file;
  if (!range_fits(request.offset, request.size, object_size_max))
    return status::overflow;
  bool const is_striped = is_striped_move(request, object);
  if (is_striped)
    TND_TRY(await_posted());
  if (!is_usable || is_striped || (shared_ && (writes || !object.is_writer))) {
    move_at_once(request, object, *operation);
    return status::ok;
  }
  TND_TRY(report_written(object));
  ranges_request message{object.handle, {{request.offset, request.size}}};
  auto const on_size = [this, operation](const reply &received) {
    complete_size(*operation, received);
  };
  if (!writes) {
    channel_->post(kind::read, message, {}, memory_of(request), on_size);
    return status::ok;
  }
  object.about.size = std::max(object.about.size, request.offset + request.size);
  channel_->post(kind::write, message, memory_of(request), {}, on_size);
  return status::ok;
}

void client::move_at_once(const tnd_pool_request &request, open_object &object, posted &operation) {
  TND_ASSERT(!operation.done);
  memory_range const range{request.memory, false};
  tnd_pool_box const box{request.offset, request.size, {1, 1}, {0, 0}, {0, 0}};
  status const code =
      request.kind == TND_POOL_REQUEST_WRITE
          ? write(object, box, range)
          : read_some(object, request.offset, request.size, range, operation.result.size);
  operation.result.status = tnd_status(code);
  if (code == status::ok && operation.result.size > 0)
    operation.result.path = tnd_pool_path(traffic_.counters().last_path);
  operation.done = true;
}

status client::post_commit(const tnd_pool_request &request,
                           const std::shared_ptr<open_object> &object,
                           const posted_ptr &operation) {
  TND_TRY(check_usable(*object));
  if (!object->is_writer)
    return status::bad_file;
  if (object->striped != nullptr) {
    uint64_t version = 0;
    operation->result.status = tnd_status(commit(*object, terms_of(request), version));
    operation->result.version = version;
    operation->result.size = object->about.size;
    operation->done = true;
    return status::ok;
  }
  TND_TRY(report_written(*object));
  object->is_writer = false;
  channel_->post(kind::commit,
                 commit_request{object->handle, terms_of(request)},
                 {},
                 {},
                 [this, operation, object](const reply &received) {
                   complete_info(*operation, received);
                   info_reply info;
                   bool const is_valid = received.code == status::ok &&
                                         wire::decode(received.body, info) == status::ok;
                   if (is_valid)
                     object->about = info.object_info;
                   else
                     object->is_writer = !ends_writing(received.code);
                 });
  return status::ok;
}

// Completes an operation whose reply has the information about an object.
void client::complete_info(posted &operation, const reply &received) {
  TND_ASSERT(!operation.done);
  info_reply info;
  status code = received.code == status::ok ? wire::decode(received.body, info) : received.code;
  if (is_to_repeat(operation, code)) {
    operation.is_refused = true;
    operation.result.status = tnd_status(code);
    return;
  }
  auto &completion = operation.result;
  bool const is_get = completion.kind == TND_POOL_REQUEST_GET;
  bool const is_commit = completion.kind == TND_POOL_REQUEST_COMMIT;
  if (code == status::ok && is_get && info.object_info.size > completion.size)
    code = size_error(operation.name, info.object_info.size, completion.size);
  // The handler of a reply must not send requests: poll() does.
  operation.is_striped =
      code == status::ok && is_get && (info.object_info.flags & flag_striped) != 0;
  if (operation.is_striped)
    return;
  if (is_get || is_commit)
    completion.size = info.object_info.size;
  completion.status = tnd_status(code);
  completion.version = info.object_info.version;
  if (!is_commit)
    count_transfer(operation, !is_get);
  operation.done = true;
}

// Reads the object that a get has found to be striped.
void client::finish_striped_get(posted &operation) {
  TND_ASSERT(operation.is_striped && !operation.done);
  auto &completion = operation.result;
  info about;
  status const code = get_striped(operation.name, operation.memory, completion.size, about, false);
  completion.status = tnd_status(code);
  completion.size = about.size;
  completion.version = about.version;
  if (code == status::ok)
    completion.path = tnd_pool_path(traffic_.counters().last_path);
  operation.is_striped = false;
  operation.done = true;
}

// As calls do, posted reads are repeated where a server of a cluster was lost, and posted puts
// where a server has refused them because another one serves.
bool client::is_to_repeat(const posted &operation, status code) const {
  bool const is_elsewhere = code == status::stale || code == status::again;
  bool const is_lost = is_elsewhere || code == status::peer_lost;
  return is_cluster() && (operation.result.kind == TND_POOL_REQUEST_PUT
                              ? is_elsewhere
                              : is_lost && is_read(operation.result.kind));
}

// Whether a later put of the same name has been carried out already.
bool client::is_overtaken(const posted &operation) const {
  return std::any_of(posted_.begin(), posted_.end(), [&](const posted_ptr &later) {
    return later.get() != &operation && later->result.kind == TND_POOL_REQUEST_PUT &&
           later->name == operation.name && later->done && later->result.status == TND_OK;
  });
}

void client::repeat(posted &operation) {
  TND_ASSERT(operation.is_refused && !operation.done);
  auto &completion = operation.result;
  auto code = status(completion.status);
  info about;
  if (completion.kind == TND_POOL_REQUEST_GET) {
    code = get(operation.name, operation.memory, completion.size, about, false);
    completion.size = about.size;
    completion.version = about.version;
  } else if (completion.kind == TND_POOL_REQUEST_PUT) {
    (void)await_posted();
    if (!is_overtaken(operation))
      code = put_inline(
          operation.name, operation.memory, completion.size, operation.terms, completion.version);
  } else if (operation.object != nullptr && can_reopen(*operation.object)) {
    memory_range const memory{operation.memory, false};
    code = read_some(*operation.object, operation.offset, completion.size, memory, completion.size);
  }
  completion.status = tnd_status(code);
  if (code == status::ok && completion.size > 0)
    completion.path = tnd_pool_path(traffic_.counters().last_path);
  operation.is_refused = false;
  operation.done = true;
}

// Waits for the replies to all posted requests. They also end with the connection.
status client::await_posted() {
  uint64_t const deadline_ns = deadline();
  begin_watch();
  while (channel_ != nullptr && !channel_->is_idle()) {
    status const code = progress_watched(deadline_ns);
    if (code != status::ok && !channel_->is_broken())
      return code;
  }
  return status::ok;
}

// Completes a read or write.
void client::complete_size(posted &operation, const reply &received) {
  TND_ASSERT(!operation.done);
  if (is_to_repeat(operation, received.code)) {
    operation.is_refused = true;
    operation.result.status = tnd_status(received.code);
    return;
  }
  operation.result.status = tnd_status(received.code);
  bool const is_read = operation.result.kind == TND_POOL_REQUEST_READ;
  if (is_read)
    operation.result.size = received.data_size;
  count_transfer(operation, !is_read);
  operation.done = true;
}

// Counts a request whose bytes were transferred over the stream.
void client::count_transfer(posted &operation, bool to_pool) {
  if (operation.result.status != TND_OK || operation.result.size == 0)
    return;
  traffic_.add({operation.path}, operation.result.size, to_pool);
  operation.result.path = operation.path;
}

// Does what the oldest request needs beyond its reply.
void client::finish_oldest() {
  if (posted_.empty())
    return;
  posted &oldest = *posted_.front();
  if (oldest.is_striped)
    finish_striped_get(oldest);
  else if (oldest.is_refused)
    repeat(oldest);
}

void client::poll(std::span<tnd_pool_completion> completions,
                  uint64_t timeout_ns,
                  uint32_t &count) {
  count = 0;
  uint64_t const deadline_ns = seams::deadline_after(clock().now_ns(), timeout_ns);
  auto const reap = [&] {
    finish_oldest();
    while (count < completions.size() && !posted_.empty() && posted_.front()->done) {
      completions[count++] = posted_.front()->result;
      posted_.pop_front();
    }
  };
  if (channel_ != nullptr)
    (void)channel_->progress(0);
  begin_watch();
  for (reap(); count == 0 && !posted_.empty() && channel_ != nullptr; reap()) {
    uint64_t const overdue_ns =
        seams::deadline_after(posted_.front()->posted_ns, settings_.timeout_ns);
    uint64_t const wait_end_ns = timeout_ns == 0 ? 0 : std::min(deadline_ns, overdue_ns);
    status const code = progress_watched(wait_end_ns);
    uint64_t const now_ns = clock().now_ns();
    // A daemon that does not answer in time is treated as failed: nothing may access the callers'
    // memory from now on.
    if (code == status::timed_out && now_ns >= overdue_ns)
      channel_->end(status::timed_out);
    else if (now_ns >= deadline_ns)
      break;
  }
  reap();
}

}  // namespace tanada::pool
