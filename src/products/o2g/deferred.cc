// Deferred requests: posted while another thread holds the engine lock, and begun by the holder
// before it releases the lock.

#include <algorithm>
#include <cstring>
#include <optional>

#include "products/o2g/engine_core.hpp"

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"

namespace tanada::o2g {

namespace {

// Copies of the caller's part arrays, and of injected bytes.
struct request_copy {
  std::array<iovec, part_count_max> parts{};
  std::unique_ptr<std::byte[]> copy;
};

// Bytes at the address NULL are not copied: the request fails when it begins.
bool can_copy(std::span<const iovec> parts) {
  return std::ranges::none_of(
      parts, [](const iovec &part) { return part.iov_base == nullptr && part.iov_len != 0; });
}

status keep_parts(std::span<const iovec> &parts, request_copy &memory) {
  if (parts.size() > memory.parts.size())
    return status::invalid;
  std::ranges::copy(parts, memory.parts.begin());
  parts = std::span{memory.parts}.first(parts.size());
  return status::ok;
}

status keep_bytes(std::span<const iovec> &parts, request_copy &memory) {
  TND_TRY(keep_parts(parts, memory));
  uint64_t const size = size_of(parts);
  if (size > inject_size_max)
    return status::invalid;
  if (size == 0 || !can_copy(parts))
    return status::ok;
  memory.copy.reset(new (std::nothrow) std::byte[size]);
  if (memory.copy == nullptr)
    return status::no_memory;
  std::byte *destination = memory.copy.get();
  for (iovec const &part : parts) {
    if (part.iov_len != 0)
      std::memcpy(destination, part.iov_base, part.iov_len);
    destination += part.iov_len;
  }
  memory.parts[0] = {memory.copy.get(), size};
  parts = std::span{memory.parts}.first(1);
  return status::ok;
}

template <class Request>
status keep(Request &request, request_copy &memory) {
  return request.inject ? keep_bytes(request.parts, memory) : keep_parts(request.parts, memory);
}
status keep(receive_request &request, request_copy &memory) {
  return keep_parts(request.parts, memory);
}
status keep(peek_request &, request_copy &) {
  return status::ok;
}
status keep(discard_request &, request_copy &) {
  return status::ok;
}
status keep(cancel_request &, request_copy &) {
  return status::ok;
}
status keep(atomic_request &request, request_copy &memory) {
  size_t const operands_size = request.operands.size();
  size_t const compared_size = request.compared.size();
  if (operands_size > atomic_size_max || compared_size > atomic_size_max)
    return status::invalid;
  if (!request.inject || request.operands.data() == nullptr)
    return status::ok;
  memory.copy.reset(new (std::nothrow) std::byte[operands_size + compared_size]);
  if (memory.copy == nullptr)
    return status::no_memory;
  std::ranges::copy(request.operands, memory.copy.get());
  request.operands = {memory.copy.get(), operands_size};
  if (request.compared.data() == nullptr)
    return status::ok;
  std::ranges::copy(request.compared, memory.copy.get() + operands_size);
  request.compared = {memory.copy.get() + operands_size, compared_size};
  return status::ok;
}

template <class Request>
completion request_completion(const Request &request) {
  completion done;
  done.context = request.context;
  done.owner = request.owner;
  if constexpr (requires { request.tagged; })
    done.tagged = request.tagged;
  return done;
}
completion request_completion(const cancel_request &) {
  return {};
}

template <class Request>
constexpr bool is_sent_to_peer() {
  return requires(Request request) { request.target; };
}

template <class Request>
constexpr bool is_part(const Request &request) {
  if constexpr (requires { request.is_continuation; })
    return request.is_continuation;
  return false;
}

}  // namespace

template <class Request>
class engine_core::deferred_request final : public handover_lock::job {
 public:
  deferred_request(engine_core &core,
                   request_method<Request> method,
                   std::optional<completion_kind> kind,
                   const Request &request)
      : core_{core}, method_{method}, kind_{kind}, request_{request} {}
  status keep_memory() {
    return keep(request_, memory_);
  }

  void run() noexcept override {
    TND_ASSERT(core_.mutex_.is_locked() && !core_.is_running_deferred_);
    core_.is_running_deferred_ = true;
    status const code = core_.begin_request(method_, request_);
    core_.is_running_deferred_ = false;
    if (code == status::ok || !kind_.has_value())
      return;
    completion done = request_completion(request_);
    done.kind = *kind_;
    done.code = code;
    core_.complete(done);
  }

 private:
  engine_core &core_;
  request_method<Request> const method_;
  std::optional<completion_kind> const kind_;  // none: a failure is not reported
  Request request_;
  request_copy memory_;
};

template <class Request>
status engine_core::defer_request(request_method<Request> method,
                                  std::optional<completion_kind> kind,
                                  const Request &request) {
  // Which peer's queue is full is known only under the lock. A queue therefore exceeds its limit by
  // at most the requests deferred during one drive.
  bool const may_be_refused = is_sent_to_peer<Request>() && !is_part(request);
  if (may_be_refused && full_peers_.count != 0)
    return status::again;
  std::unique_ptr<deferred_request<Request>> deferred{
      new (std::nothrow) deferred_request<Request>{*this, method, kind, request}};
  if (deferred == nullptr)
    return status::no_memory;
  TND_TRY(deferred->keep_memory());
  std::unique_ptr<handover_lock::job> work = std::move(deferred);
  return mutex_.defer(work, is_part(request)) ? status::ok : status::again;
}

template status engine_core::defer_request(request_method<send_request>,
                                           std::optional<completion_kind>,
                                           const send_request &);
template status engine_core::defer_request(request_method<receive_request>,
                                           std::optional<completion_kind>,
                                           const receive_request &);
template status engine_core::defer_request(request_method<peek_request>,
                                           std::optional<completion_kind>,
                                           const peek_request &);
template status engine_core::defer_request(request_method<discard_request>,
                                           std::optional<completion_kind>,
                                           const discard_request &);
template status engine_core::defer_request(request_method<cancel_request>,
                                           std::optional<completion_kind>,
                                           const cancel_request &);
template status engine_core::defer_request(request_method<remote_request>,
                                           std::optional<completion_kind>,
                                           const remote_request &);
template status engine_core::defer_request(request_method<atomic_request>,
                                           std::optional<completion_kind>,
                                           const atomic_request &);

class engine_core::deferred_flush final : public handover_lock::job {
 public:
  explicit deferred_flush(engine_core &core) : core_{core} {}
  void run() noexcept override {
    TND_ASSERT(core_.mutex_.is_locked());
    core_.has_deferred_flush_.store(false);  // later batches need another deferred_flush
    core_.flush_batches_and_acks();
  }

 private:
  engine_core &core_;
};

// Sends batches before a caller sleeps. A batch that begins later wakes the sleeper. Returns when
// the sleep must end: delayed ACKs are due then, or handshakes have to be checked.
uint64_t engine_core::flush_before_sleep() {
  uint64_t const now_ns = clock_.now_ns(), check_ns = now_ns + handshake_check_ns;
  if (mutex_.try_lock()) {
    lock_guard const lock{mutex_, std::adopt_lock};
    flush_all_batches();
    flush_due_acks(now_ns);
    uint64_t const end_ns = handshaking_link_count_ != 0 ? check_ns : UINT64_MAX;
    return delayed_ack_links_.empty() ? end_ns
                                      : std::min(end_ns, acks_delayed_since_ns_ + ack_delay_ns);
  }
  // While another thread holds the lock, callers that sleep repeatedly defer only one flush.
  if (has_deferred_flush_.exchange(true))
    return check_ns;
  std::unique_ptr<handover_lock::job> work{new (std::nothrow) deferred_flush{*this}};
  bool const is_deferred = work != nullptr && mutex_.defer(work, true);
  if (!is_deferred) {
    has_deferred_flush_.store(false);
    set_->wake();
  }
  return check_ns;
}

}  // namespace tanada::o2g
