// Requests of callers who find the engine at work: they are kept, and whoever holds the lock begins
// them before it is free.

#include <algorithm>
#include <cstring>
#include <optional>

#include "products/o2g/engine_core.hpp"

#include "core/base/mutex.hpp"

namespace tanada::o2g {

namespace {

// The caller's arrays of parts, and the bytes that it wants back at once.
struct kept_memory {
  std::array<iovec, part_count_max> parts{};
  std::unique_ptr<std::byte[]> copy;
};

// Bytes at the address NULL are left where they are: the request fails when it is begun.
bool can_copy(std::span<const iovec> parts) {
  return std::ranges::none_of(
      parts, [](const iovec &part) { return part.iov_base == nullptr && part.iov_len != 0; });
}

status keep_parts(std::span<const iovec> &parts, kept_memory &memory) {
  if (parts.size() > memory.parts.size())
    return status::invalid;
  std::ranges::copy(parts, memory.parts.begin());
  parts = std::span{memory.parts}.first(parts.size());
  return status::ok;
}

status keep_bytes(std::span<const iovec> &parts, kept_memory &memory) {
  TND_TRY(keep_parts(parts, memory));
  uint64_t const size = size_of(parts);
  if (size > inject_size_max)
    return status::invalid;
  if (size == 0 || !can_copy(parts))
    return status::ok;
  memory.copy.reset(new (std::nothrow) std::byte[size]);
  if (memory.copy == nullptr)
    return status::no_memory;
  std::byte *to = memory.copy.get();
  for (iovec const &part : parts) {
    if (part.iov_len != 0)
      std::memcpy(to, part.iov_base, part.iov_len);
    to += part.iov_len;
  }
  memory.parts[0] = {memory.copy.get(), size};
  parts = std::span{memory.parts}.first(1);
  return status::ok;
}

template <class Request>
status keep(Request &request, kept_memory &memory) {
  return request.inject ? keep_bytes(request.parts, memory) : keep_parts(request.parts, memory);
}
status keep(receive_request &request, kept_memory &memory) {
  return keep_parts(request.parts, memory);
}
status keep(peek_request &, kept_memory &) {
  return status::ok;
}
status keep(discard_request &, kept_memory &) {
  return status::ok;
}
status keep(cancel_request &, kept_memory &) {
  return status::ok;
}
status keep(atomic_request &request, kept_memory &memory) {
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
  return requires(Request request) { request.to; };
}

template <class Request>
constexpr bool is_part(const Request &request) {
  if constexpr (requires { request.goes_on; })
    return request.goes_on;
  return false;
}

}  // namespace

template <class Request>
class engine_core::left_request final : public handover_lock::job {
 public:
  left_request(engine_core &core, request_call<Request> call, std::optional<completion_kind> kind,
               const Request &request)
      : core_{core}, call_{call}, kind_{kind}, request_{request} {}
  status keep_memory() {
    return keep(request_, memory_);
  }

  void run() noexcept override {
    core_.is_catching_up_ = true;
    status const code = core_.begin_request(call_, request_);
    core_.is_catching_up_ = false;
    if (code == status::ok || !kind_.has_value())
      return;
    completion done = request_completion(request_);
    done.kind = *kind_;
    done.code = code;
    core_.complete(done);
  }

 private:
  engine_core &core_;
  request_call<Request> const call_;
  std::optional<completion_kind> const kind_;  // none: a failure is reported to nobody
  Request request_;
  kept_memory memory_;
};

template <class Request>
status engine_core::leave_request(request_call<Request> call, std::optional<completion_kind> kind,
                                  const Request &request) {
  // Which peer is full is known under the lock. So a peer's queue exceeds its bound by what is left
  // during one drive at most.
  bool const may_be_refused = is_sent_to_peer<Request>() && !is_part(request);
  if (may_be_refused && full_peers_.count != 0)
    return status::again;
  std::unique_ptr<left_request<Request>> left{
      new (std::nothrow) left_request<Request>{*this, call, kind, request}};
  if (left == nullptr)
    return status::no_memory;
  TND_TRY(left->keep_memory());
  std::unique_ptr<handover_lock::job> work = std::move(left);
  return mutex_.leave(work, is_part(request)) ? status::ok : status::again;
}

template status engine_core::leave_request(request_call<send_request>,
                                           std::optional<completion_kind>, const send_request &);
template status engine_core::leave_request(request_call<receive_request>,
                                           std::optional<completion_kind>, const receive_request &);
template status engine_core::leave_request(request_call<peek_request>,
                                           std::optional<completion_kind>, const peek_request &);
template status engine_core::leave_request(request_call<discard_request>,
                                           std::optional<completion_kind>, const discard_request &);
template status engine_core::leave_request(request_call<cancel_request>,
                                           std::optional<completion_kind>, const cancel_request &);
template status engine_core::leave_request(request_call<remote_request>,
                                           std::optional<completion_kind>, const remote_request &);
template status engine_core::leave_request(request_call<atomic_request>,
                                           std::optional<completion_kind>, const atomic_request &);

class engine_core::left_sending final : public handover_lock::job {
 public:
  explicit left_sending(engine_core &core) : core_{core} {}
  void run() noexcept override {
    core_.is_sending_left_.store(false);  // what comes from now on needs another one
    core_.send_gathered_and_late();
  }

 private:
  engine_core &core_;
};

// From now on whoever gathers wakes the sleeper; what was gathered before goes. Whether connections
// are being made, or may be.
bool engine_core::send_before_sleep() {
  if (mutex_.try_lock()) {
    lock_guard const lock{mutex_, std::adopt_lock};
    send_gathered_and_late();
    return young_count_ != 0;
  }
  // Whoever sleeps again and again while another thread holds the lock leaves this once.
  if (is_sending_left_.exchange(true))
    return true;
  std::unique_ptr<handover_lock::job> work{new (std::nothrow) left_sending{*this}};
  bool const is_left = work != nullptr && mutex_.leave(work, true);
  if (!is_left) {
    is_sending_left_.store(false);
    set_->wake();
  }
  return true;
}

}  // namespace tanada::o2g
