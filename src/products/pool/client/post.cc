// products/pool/client/post.cc: a client's asynchronous requests.
#include "core/base/checked.hpp"
#include "products/pool/client/client.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr size_t posted_count_max = 1024;

}  // namespace

status client::post(const tnd_pool_request &request, const std::shared_ptr<open_object> &object) {
  if (posted_.size() >= posted_count_max)
    return status::again;
  TND_TRY(ensure_connected());
  auto operation = std::make_shared<posted>();
  operation->result = {.context = request.context,
                       .status = TND_OK,
                       .kind = request.kind,
                       .size = request.size,
                       .version = 0,
                       .path = TND_POOL_PATH_NONE,
                       .reserved = 0};
  operation->posted_ns = seams::monotonic_clock().now_ns();
  std::vector<iovec> memory;
  if (request.size > 0)
    memory.push_back({request.memory, request.size});
  // Counts a request whose bytes were transferred over the stream.
  auto const count_transfer = [this, operation, by = stream_path()](bool to_pool) {
    if (operation->result.status != TND_OK || operation->result.size == 0)
      return;
    traffic_.add({by}, operation->result.size, to_pool);
    operation->result.path = by;
  };
  std::string const name = request.kind == TND_POOL_REQUEST_GET ? request.name : "";
  auto const on_info = [this, operation, count_transfer, name](const reply &received) {
    info_reply info;
    status code = received.code == status::ok ? wire::decode(received.body, info) : received.code;
    bool const is_get = operation->result.kind == TND_POOL_REQUEST_GET;
    if (code == status::ok && is_get && info.object_info.size > operation->result.size) {
      code = size_error(name, info.object_info.size, operation->result.size);
    }
    if (is_get || operation->result.kind == TND_POOL_REQUEST_COMMIT)
      operation->result.size = info.object_info.size;
    operation->result.status = tnd_status(code);
    operation->result.version = info.object_info.version;
    if (operation->result.kind != TND_POOL_REQUEST_COMMIT)
      count_transfer(!is_get);
    operation->done = true;
  };
  auto const on_size = [operation, count_transfer](const reply &received) {
    operation->result.status = tnd_status(received.code);
    bool const is_read = operation->result.kind == TND_POOL_REQUEST_READ;
    if (is_read)
      operation->result.size = received.data_size;
    count_transfer(!is_read);
    operation->done = true;
  };
  commit_terms terms;
  terms.flags = request.flags;
  terms.checksum_kind = request.checksum_kind;
  switch (tnd_pool_request_kind(request.kind)) {
    case TND_POOL_REQUEST_PUT: {
      put_request message;
      message.name = request.name;
      message.terms = terms;
      channel_->post(kind::put, message, std::move(memory), {}, on_info);
      break;
    }
    case TND_POOL_REQUEST_GET: {
      get_request message;
      message.name = request.name;
      message.capacity = request.size;
      channel_->post(kind::get, message, {}, std::move(memory), on_info);
      break;
    }
    case TND_POOL_REQUEST_WRITE:
    case TND_POOL_REQUEST_READ:
      TND_TRY(post_move(request, *object, *operation, std::move(memory), on_size));
      break;
    case TND_POOL_REQUEST_COMMIT:
      TND_TRY(check_usable(*object));
      if (!object->is_writer)
        return status::bad_file;
      TND_TRY(report_written(*object));
      object->is_writer = false;
      channel_->post(kind::commit, commit_request{object->handle, terms}, {}, {},
                     [on_info, object](const reply &received) {
                       on_info(received);
                       info_reply info;
                       bool const is_valid = received.code == status::ok &&
                                             wire::decode(received.body, info) == status::ok;
                       if (is_valid)
                         object->about = info.object_info;
                       else
                         object->is_writer = true;
                     });
      break;
  }
  posted_.push_back(std::move(operation));
  if (posted_.size() % 16 == 1)
    (void)channel_->progress(0);
  return status::ok;
}

// Carries out the transfer through shared memory at once, if possible; otherwise posts a request.
status client::post_move(const tnd_pool_request &request, open_object &object, posted &operation,
                         std::vector<iovec> memory, const reply_handler &handler) {
  bool const writes = request.kind == TND_POOL_REQUEST_WRITE;
  TND_TRY(check_usable(object));
  if (writes && !object.is_writer)
    return status::bad_file;
  if (!range_fits(request.offset, request.size, object_size_max))
    return status::overflow;
  memory_range const range{request.memory, false};
  if (shared_ && (writes || !object.is_writer)) {
    tnd_pool_box const box{request.offset, request.size, {1, 1}, {0, 0}, {0, 0}};
    status const code =
        writes ? write(object, box, range)
               : read_some(object, request.offset, request.size, range, operation.result.size);
    operation.result.status = tnd_status(code);
    if (code == status::ok && operation.result.size > 0)
      operation.result.path = tnd_pool_path(traffic_.counters().last_path);
    operation.done = true;
    return status::ok;
  }
  TND_TRY(report_written(object));
  ranges_request message{object.handle, {{request.offset, request.size}}};
  if (!writes) {
    channel_->post(kind::read, message, {}, std::move(memory), handler);
    return status::ok;
  }
  object.about.size = std::max(object.about.size, request.offset + request.size);
  channel_->post(kind::write, message, std::move(memory), {}, handler);
  return status::ok;
}

void client::poll(std::span<tnd_pool_completion> completions, uint64_t timeout_ns,
                  uint32_t &count_transfer) {
  count_transfer = 0;
  uint64_t const deadline_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns);
  auto const reap = [&] {
    while (count_transfer < completions.size() && !posted_.empty() && posted_.front()->done) {
      completions[count_transfer++] = posted_.front()->result;
      posted_.pop_front();
    }
  };
  if (channel_ != nullptr)
    (void)channel_->progress(0);
  for (reap(); count_transfer == 0 && !posted_.empty() && channel_ != nullptr; reap()) {
    uint64_t const overdue_ns =
        seams::deadline_after(posted_.front()->posted_ns, settings_.timeout_ns);
    uint64_t const wait_end_ns = timeout_ns == 0 ? 0 : std::min(deadline_ns, overdue_ns);
    status const code = channel_->progress(wait_end_ns);
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
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
