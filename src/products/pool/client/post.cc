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
  TND_TRY(ready());
  auto one = std::make_shared<posted>();
  one->result = {.context = request.context,
                 .status = TND_OK,
                 .kind = request.kind,
                 .size = request.size,
                 .version = 0,
                 .path = TND_POOL_PATH_NONE,
                 .reserved = 0};
  one->posted_ns = port::monotonic_clock().now_ns();
  std::vector<iovec> memory;
  if (request.size > 0)
    memory.push_back({request.memory, request.size});
  // Of a request whose bytes went by the stream.
  auto const count = [this, one, by = stream_path()](bool to_pool) {
    if (one->result.status != TND_OK || one->result.size == 0)
      return;
    traffic_.add({by}, one->result.size, to_pool);
    one->result.path = by;
  };
  std::string const name = request.kind == TND_POOL_REQUEST_GET ? request.name : "";
  auto const with_info = [this, one, count, name](const reply &come) {
    info_reply in;
    status code = come.code == status::ok ? wire::decode(come.body, in) : come.code;
    bool const is_get = one->result.kind == TND_POOL_REQUEST_GET;
    if (code == status::ok && is_get && in.about.size > one->result.size) {
      code = does_not_fit(name, in.about.size, one->result.size);
    }
    if (is_get || one->result.kind == TND_POOL_REQUEST_COMMIT)
      one->result.size = in.about.size;
    one->result.status = tnd_status(code);
    one->result.version = in.about.version;
    if (one->result.kind != TND_POOL_REQUEST_COMMIT)
      count(!is_get);
    one->done = true;
  };
  auto const with_size = [one, count](const reply &come) {
    one->result.status = tnd_status(come.code);
    bool const is_read = one->result.kind == TND_POOL_REQUEST_READ;
    if (is_read)
      one->result.size = come.data_size;
    count(!is_read);
    one->done = true;
  };
  commit_terms terms;
  terms.flags = request.flags;
  terms.checksum_kind = request.checksum_kind;
  switch (tnd_pool_request_kind(request.kind)) {
    case TND_POOL_REQUEST_PUT: {
      put_request out;
      out.name = request.name;
      out.terms = terms;
      channel_->post(kind::put, out, std::move(memory), {}, with_info);
      break;
    }
    case TND_POOL_REQUEST_GET: {
      get_request out;
      out.name = request.name;
      out.capacity = request.size;
      channel_->post(kind::get, out, {}, std::move(memory), with_info);
      break;
    }
    case TND_POOL_REQUEST_WRITE:
    case TND_POOL_REQUEST_READ:
      TND_TRY(post_move(request, *object, *one, std::move(memory), with_size));
      break;
    case TND_POOL_REQUEST_COMMIT:
      TND_TRY(usable(*object));
      if (!object->is_writer)
        return status::bad_file;
      TND_TRY(tell_written(*object));
      object->is_writer = false;
      channel_->post(kind::commit, commit_request{object->handle, terms}, {}, {},
                     [with_info, object](const reply &come) {
                       with_info(come);
                       info_reply in;
                       bool const good =
                           come.code == status::ok && wire::decode(come.body, in) == status::ok;
                       if (good)
                         object->about = in.about;
                       else
                         object->is_writer = true;
                     });
      break;
  }
  posted_.push_back(std::move(one));
  if (posted_.size() % 16 == 1)
    (void)channel_->progress(0);
  return status::ok;
}

// Through shared memory at once, where the bytes are; else as a request.
status client::post_move(const tnd_pool_request &request, open_object &object, posted &one,
                         std::vector<iovec> memory, const reply_taker &taker) {
  bool const writes = request.kind == TND_POOL_REQUEST_WRITE;
  TND_TRY(usable(object));
  if (writes && !object.is_writer)
    return status::bad_file;
  if (!range_fits(request.offset, request.size, object_size_max))
    return status::overflow;
  memory_range const range{request.memory, false};
  if (shared_ && (writes || !object.is_writer)) {
    tnd_pool_box const box{request.offset, request.size, {1, 1}, {0, 0}, {0, 0}};
    status const code =
        writes ? write(object, box, range)
               : read_some(object, request.offset, request.size, range, one.result.size);
    one.result.status = tnd_status(code);
    if (code == status::ok && one.result.size > 0)
      one.result.path = tnd_pool_path(traffic_.all().last_path);
    one.done = true;
    return status::ok;
  }
  TND_TRY(tell_written(object));
  ranges_request out{object.handle, {{request.offset, request.size}}};
  if (!writes) {
    channel_->post(kind::read, out, {}, std::move(memory), taker);
    return status::ok;
  }
  object.about.size = std::max(object.about.size, request.offset + request.size);
  channel_->post(kind::write, out, std::move(memory), {}, taker);
  return status::ok;
}

void client::poll(std::span<tnd_pool_completion> completions, uint64_t timeout_ns,
                  uint32_t &count) {
  count = 0;
  uint64_t const deadline_ns = port::deadline_after(port::monotonic_clock().now_ns(), timeout_ns);
  auto const reap = [&] {
    while (count < completions.size() && !posted_.empty() && posted_.front()->done) {
      completions[count++] = posted_.front()->result;
      posted_.pop_front();
    }
  };
  if (channel_ != nullptr)
    (void)channel_->progress(0);
  for (reap(); count == 0 && !posted_.empty() && channel_ != nullptr; reap()) {
    uint64_t const overdue_ns =
        port::deadline_after(posted_.front()->posted_ns, settings_.timeout_ns);
    uint64_t const until_ns = timeout_ns == 0 ? 0 : std::min(deadline_ns, overdue_ns);
    status const code = channel_->progress(until_ns);
    uint64_t const now_ns = port::monotonic_clock().now_ns();
    // A daemon that does not answer in time is as good as gone: nothing may touch the callers'
    // memory from now on.
    if (code == status::timed_out && now_ns >= overdue_ns)
      channel_->end(status::timed_out);
    else if (now_ns >= deadline_ns)
      break;
  }
  reap();
}

}  // namespace tanada::pool
