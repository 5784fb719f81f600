// pool/client/post.cc: a client's asynchronous requests.
#include "pool/client/call.hpp"
#include "port/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr size_t posted_count_max = 1024;

}  // namespace

status client::post(const tnd_pool_request &request, open_object *object) {
  if (posted_.size() >= posted_count_max) return status::again;
  TND_TRY(ready());
  auto one = std::make_shared<posted>();
  one->result = {.context = request.context, .status = TND_OK, .kind = request.kind, .size = request.size, .version = 0};
  one->posted_ns = port::monotonic_clock().now_ns();
  std::vector<iovec> memory;
  if (request.size > 0) memory.push_back({request.memory, request.size});
  auto const with_info = [one](const reply &come) {
    info_reply in;
    status code = come.code == status::ok ? wire::decode(come.body, in) : come.code;
    bool const is_get = one->result.kind == TND_POOL_REQUEST_GET;
    if (code == status::ok && is_get && in.about.size > one->result.size) code = status::range;
    if (is_get || one->result.kind == TND_POOL_REQUEST_COMMIT) one->result.size = in.about.size;
    one->result.status = tnd_status(code), one->result.version = in.about.version;
    one->done = true;
  };
  auto const with_size = [one](const reply &come) {
    one->result.status = tnd_status(come.code);
    if (one->result.kind == TND_POOL_REQUEST_READ) one->result.size = come.data_size;
    one->done = true;
  };
  commit_terms terms;
  terms.flags = request.flags, terms.checksum_kind = request.checksum_kind;
  switch (tnd_pool_request_kind(request.kind)) {
    case TND_POOL_REQUEST_PUT: {
      put_request out;
      out.name = request.name, out.terms = terms;
      sent_size_ += request.size;
      channel_->post(kind::put, out, std::move(memory), {}, with_info);
      break;
    }
    case TND_POOL_REQUEST_GET: {
      get_request out;
      out.name = request.name, out.capacity = request.size;
      channel_->post(kind::get, out, {}, std::move(memory), with_info);
      break;
    }
    case TND_POOL_REQUEST_WRITE:
      TND_TRY(usable(*object));
      sent_size_ += request.size;
      object->about.size = std::max(object->about.size, request.offset + request.size);
      channel_->post(kind::write, ranges_request{object->handle, {{request.offset, request.size}}}, std::move(memory), {}, with_size);
      break;
    case TND_POOL_REQUEST_READ:
      TND_TRY(usable(*object));
      channel_->post(kind::read, ranges_request{object->handle, {{request.offset, request.size}}}, {}, std::move(memory), with_size);
      break;
    case TND_POOL_REQUEST_COMMIT:
      TND_TRY(usable(*object));
      TND_TRY(tell_written(*object));
      object->is_writer = false;
      channel_->post(kind::commit, commit_request{object->handle, terms}, {}, {}, with_info);
      break;
  }
  posted_.push_back(std::move(one));
  if (posted_.size() % 16 == 1) (void)channel_->progress(0);
  return status::ok;
}

void client::poll(std::span<tnd_pool_completion> completions, uint64_t timeout_ns, uint32_t &count) {
  count = 0;
  uint64_t const deadline_ns = port::deadline_after(port::monotonic_clock().now_ns(), timeout_ns);
  auto const reap = [&] {
    while (count < completions.size() && !posted_.empty() && posted_.front()->done) {
      completions[count++] = posted_.front()->result;
      posted_.pop_front();
    }
  };
  if (channel_ != nullptr) (void)channel_->progress(0);
  for (reap(); count == 0 && !posted_.empty(); reap()) {
    uint64_t const overdue_ns = port::deadline_after(posted_.front()->posted_ns, settings_.timeout_ns);
    uint64_t const until_ns = timeout_ns == 0 ? 0 : std::min(deadline_ns, overdue_ns);
    status const code = channel_->progress(until_ns);
    uint64_t const now_ns = port::monotonic_clock().now_ns();
    // A daemon that does not answer in time is as good as gone: nothing may touch the callers' memory from now on.
    if (code == status::timed_out && now_ns >= overdue_ns) channel_->end(status::timed_out);
    else if (now_ns >= deadline_ns) break;
  }
  reap();
}

}  // namespace tanada::pool
