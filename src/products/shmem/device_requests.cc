// Kernels' requests: what the host does for each of them.
#include "products/shmem/device_service.hpp"
#include "seams/os/yield.hpp"

namespace tanada::shmem {
namespace {

device::op operation_of(const rpc::request &request) {
  return device::op(request.op & ~device::in_text);
}
onesided::pe_index pe_of(const rpc::request &request) {
  return onesided::pe_index(request.file & 0xffffff);
}
// Bytes of an element, or a flag.
u32 unit_of(const rpc::request &request) {
  return request.file >> 24;
}

device::site site_of(device::op operation) {
  switch (operation) {
    case device::op::iput:
      return device::site::iput;
    case device::op::update:
      return device::site::atomic;
    case device::op::put_signal:
      return device::site::put_signal;
    default:
      return device::site::put;
  }
}

}  // namespace

// Returns `size` bytes of the kernel's own memory, at address `word` or in the text. fault: the
// address is not device memory, so host code may not access it.
result<std::byte *> device_service::own_memory(const kernel_request &request,
                                               u64 word,
                                               u64 size) const {
  if ((request.body.op & device::in_text) != 0) {
    if (size > request.text.size())
      return status::protocol;
    return request.text.data();
  }
  auto *const addr = reinterpret_cast<std::byte *>(word);
  if (options_.is_strict && !gpu_.is_device_memory(addr))
    return status::fault;
  return addr;
}

// ---- requests that return nothing

status device_service::put(const kernel_request &request) {
  auto const &words = request.body.words;
  auto source = own_memory(request, words[1], words[2]);
  if (!source.ok())
    return source.error();
  return context_->put(
      reinterpret_cast<void *>(words[0]), source.value(), words[2], pe_of(request.body));
}

status device_service::put_rows(const kernel_request &request) {
  auto const &words = request.body.words;
  u64 const unit = unit_of(request.body);
  auto source = own_memory(request, words[1], rows_size(unit, words[2]));
  if (!source.ok())
    return source.error();
  return context_->put_strided(
      reinterpret_cast<void *>(words[0]),
      source.value(),
      {unit, words[2], ptrdiff_t(words[3] * unit), ptrdiff_t(words[4] * unit)},
      pe_of(request.body));
}

status device_service::put_signal(const kernel_request &request) {
  auto const &words = request.body.words;
  bool const is_added = unit_of(request.body) == 1;
  const std::byte *source = nullptr;
  if (words[2] != 0) {
    auto own_buffer = own_memory(request, words[1], words[2]);
    if (!own_buffer.ok())
      return own_buffer.error();
    source = own_buffer.value();
  }
  return context_->put_signal(reinterpret_cast<void *>(words[0]),
                              source,
                              words[2],
                              reinterpret_cast<uint64_t *>(words[3]),
                              is_added ? onesided::signal_kind::add : onesided::signal_kind::set,
                              words[4],
                              pe_of(request.body));
}

// `before`: receives the old value, once the context is quiet; null: it is not requested.
template <class T>
status device_service::update(const rpc::request &request, u64 *before) {
  auto const last_kind =
      before == nullptr ? seams::fabric_atomic::swap : seams::fabric_atomic::fetch;
  if (request.words[3] > u64(last_kind))
    return status::protocol;
  return context_->update_nbi(seams::fabric_atomic(request.words[3]),
                              reinterpret_cast<T *>(request.words[0]),
                              T(request.words[1]),
                              T(request.words[2]),
                              reinterpret_cast<T *>(before),
                              pe_of(request));
}

status device_service::update_by_size(const rpc::request &request, u64 *before) {
  return unit_of(request) == 8 ? update<uint64_t>(request, before)
                               : update<uint32_t>(request, before);
}

status device_service::perform_post(const kernel_request &request) {
  switch (operation_of(request.body)) {
    case device::op::put:
      return put(request);
    case device::op::iput:
      return put_rows(request);
    case device::op::update:
      return update_by_size(request.body, nullptr);
    case device::op::put_signal:
      return put_signal(request);
    default:
      return status::protocol;
  }
}

// Performs the requests that have been posted, at most one for each entry. Returns their number.
uint32_t device_service::perform_posts() {
  uint32_t count = 0;
  for (; count < rpc::post_count; count++) {
    rpc::post_entry *const entry = posts_->front();
    if (entry == nullptr)
      break;
    kernel_request const request{entry->body, std::as_writable_bytes(std::span{entry->text})};
    if (status const code = perform_post(request); code != status::ok)
      record_post_fault(request.body, code);
    posts_->release();
  }
  return count;
}

// Performs the posted requests with tickets below `limit`. Their kernels may not have stored all of
// them yet.
void device_service::perform_posts_before(u64 limit) {
  while (posts_->taken_count() < limit && !is_ending_.load(std::memory_order_relaxed))
    if (perform_posts() == 0)
      static_cast<void>(seams::thread_yield());
}

void device_service::record_post_fault(const rpc::request &request, status code) {
  if (post_status_ != status::ok)
    return;
  post_status_ = code;
  post_fault_ = {.filled = 0,
                 .code = int(code),
                 .call_site = u32(site_of(operation_of(request))),
                 .thread = u32(request.extra[1]),
                 .block = request.extra[0],
                 .words = {request.words[0], u64(pe_of(request))}};
  __atomic_store_n(&post_fault_.filled, 1, __ATOMIC_RELEASE);
}

// ---- requests that fetch: started together, answered together

status device_service::start_get(const kernel_request &request) {
  auto const &words = request.body.words;
  auto target = own_memory(request, words[0], words[2]);
  if (!target.ok())
    return target.error();
  return context_->get_nbi(
      target.value(), reinterpret_cast<const void *>(words[1]), words[2], pe_of(request.body));
}

status device_service::start_get_word(const rpc::request &request, u64 &word) {
  if (unit_of(request) > sizeof word)
    return status::protocol;
  return context_->get_nbi(
      &word, reinterpret_cast<const void *>(request.words[0]), unit_of(request), pe_of(request));
}

status device_service::get_rows(const kernel_request &request) {
  auto const &words = request.body.words;
  u64 const unit = unit_of(request.body);
  auto target = own_memory(request, words[0], rows_size(unit, words[2]));
  if (!target.ok())
    return target.error();
  return context_->get_strided(
      target.value(),
      reinterpret_cast<const void *>(words[1]),
      {unit, words[2], ptrdiff_t(words[3] * unit), ptrdiff_t(words[4] * unit)},
      pe_of(request.body));
}

// Answers the requests that wait for data. If an operation fails, so do all that were started with
// it.
void device_service::answer_fetches() {
  if (fetches_.empty())
    return;
  status const code = context_->quiet();
  for (u32 const slot : fetches_)
    server_->reply(slot, code, 0, &fetched_words_[slot], 1, false);
  fetches_.clear();
}

// False: the request is of another kind.
bool device_service::start_fetch(const kernel_request &request, u32 slot, status &code) {
  u64 &word = fetched_words_[slot];
  word = 0;
  switch (operation_of(request.body)) {
    case device::op::get:
      code = start_get(request);
      return true;
    case device::op::get_word:
      code = start_get_word(request.body, word);
      return true;
    case device::op::update:
      code = update_by_size(request.body, &word);
      return true;
    default:
      return false;
  }
}

status device_service::quiet() {
  status const code = context_->quiet();
  return code == status::ok ? post_status_ : code;
}

void device_service::on_request(u32 slot, const rpc::request &body, std::string_view) {
  TND_ASSERT(slot < rpc::slot_count);
  perform_posts_before(body.extra[0]);
  kernel_request const request{body, std::as_writable_bytes(std::span{mail_->texts[slot]})};
  status code = status::protocol;
  if (start_fetch(request, slot, code) && code == status::ok) {
    fetches_.push_back(slot);
    return;
  }
  switch (operation_of(body)) {
    case device::op::iget:
      code = get_rows(request);
      break;
    case device::op::quiet:
      code = quiet();
      break;
    case device::op::fence:
      context_->fence();
      code = post_status_;
      break;
    case device::op::put:
    case device::op::iput:
    case device::op::put_signal:
      code = perform_post(request);
      break;
    default:
      break;
  }
  server_->reply(slot, code, 0, nullptr, 0, false);
}

}  // namespace tanada::shmem
