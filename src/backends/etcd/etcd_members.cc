// Calls to members of etcd: one connection a call, tokens, and the choice of the next member.
#include "backends/etcd/etcd_members.hpp"

#include "backends/etcd/etcd_stream.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {

namespace {

constexpr uint64_t framing_size = 64 << 10;  // bytes of headers, or of chunks' lengths

// Sends one request over a stream of ours and receives the answer.
class http_exchange : private httplib::ClientImpl {
 public:
  explicit http_exchange(const etcd_endpoint &endpoint)
      : ClientImpl(endpoint.host.find(':') == std::string::npos ? endpoint.host
                                                                : "[" + endpoint.host + "]",
                   endpoint.port) {
    set_decompress(false);
  }

  // The HTTP status, or an error.
  result<int> perform(etcd_stream &stream, httplib::Request &request) {
    httplib::Response response;
    httplib::Error error = httplib::Error::Success;
    try {
      if (!process_request(stream, request, response, true, error))
        return stream.failure() != status::ok      ? stream.failure()
               : error == httplib::Error::Canceled ? status::canceled
                                                   : status::peer_lost;
    } catch (const std::exception &) {
      // cpp-httplib throws only because of insufficient memory.
      return status::no_memory;
    }
    return response.status;
  }
};

// Collects an answer, or cuts a stream of answers into lines for a handler.
class answer_receiver {
 public:
  answer_receiver(etcd_stream &stream, const etcd_line_handler &handler)
      : stream_{stream}, handler_{handler} {}

  // The receiver outlives the request.
  void attach(httplib::Request &request) {
    request.response_handler = [this](const httplib::Response &response) {
      is_success_ = response.status == 200;
      stream_.allow(etcd_answer_size_max + framing_size);
      return true;
    };
    request.content_receiver = [this](const char *data, size_t size, uint64_t, uint64_t) {
      return receive({data, size});
    };
  }
  // The outcome of an exchange that has ended with this HTTP status or error.
  etcd_attempt outcome(const result<int> &http_status) {
    if (bytes_.size() > etcd_answer_size_max)
      return {status::too_big, false, {}};
    // Errors of the gateway end with a trailer, which cpp-httplib 0.11 cannot read.
    bool const is_refusal = !is_success_ && !decode_error(bytes_).message.empty();
    if (!http_status.ok() && !is_refusal)
      return {http_status.error(), !stream_.has_written(), {}};
    return {is_success_ ? status::ok : status::protocol, false, std::move(bytes_)};
  }

 private:
  bool receive(std::string_view received) {
    size_t const searched_size = bytes_.size();
    bytes_.append(received);
    if (is_success_ && handler_) {
      stream_.allow(etcd_answer_size_max + framing_size);
      if (!handle_lines(searched_size))
        return false;
    }
    return bytes_.size() <= etcd_answer_size_max;
  }

  bool handle_lines(size_t searched_size) {
    size_t begin = 0;
    for (size_t end = bytes_.find('\n', searched_size); end != bytes_.npos;
         end = bytes_.find('\n', begin)) {
      if (!handler_(stream_, std::string_view{bytes_}.substr(begin, end - begin)))
        return false;
      begin = end + 1;
    }
    bytes_.erase(0, begin);
    return true;
  }

  etcd_stream &stream_;
  const etcd_line_handler &handler_;
  std::string bytes_;  // without the lines that were handled
  bool is_success_ = false;
};

httplib::Request post_request(const etcd_call &call, const std::string &token, bool is_stream) {
  httplib::Request request;
  request.method = "POST";
  request.path = call.path;
  request.body = call.body;
  request.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
  if (!token.empty())
    request.headers.emplace("Authorization", token);
  // A member that has lost the leader then ends its watches.
  if (is_stream)
    request.headers.emplace("Grpc-Metadata-hasleader", "true");
  return request;
}

bool is_of_member(status code) {
  return code == status::peer_lost || code == status::timed_out;
}

}  // namespace

result<std::unique_ptr<etcd_members>> etcd_members::create(const etcd_options &options) {
  std::unique_ptr<etcd_members> members{new etcd_members(options)};
  if (options.endpoints.empty())
    return fail(status::invalid, "etcd: no endpoint is given");
  if (options.uses_tls) {
    TND_ASSIGN(members->context_, tls_context_create(options));
  }
  return members;
}

void etcd_members::report_failure(size_t member) noexcept {
  size_t expected = member;
  preferred_.compare_exchange_strong(expected, (member + 1) % count());
}

std::string etcd_members::token() {
  lock_guard const lock{mutex_};
  return token_;
}

etcd_attempt etcd_members::exchange(size_t member,
                                    const etcd_call &call,
                                    const etcd_time_limits &limits,
                                    const etcd_interrupt &interrupt,
                                    const etcd_line_handler &handler) {
  TND_ASSERT(member < count());
  auto const &endpoint = options_.endpoints[member];
  auto connected = etcd_stream::connect(endpoint, context_.get(), limits.connect_ns, interrupt);
  if (!connected.ok())
    return {connected.error(), true, {}};
  etcd_stream &stream = *connected.value();
  stream.set_deadline(limits.answer_ns);
  httplib::Request request = post_request(call, token(), bool(handler));
  answer_receiver receiver{stream, handler};
  receiver.attach(request);
  auto const http_status = http_exchange{endpoint}.perform(stream, request);
  return receiver.outcome(http_status);
}

status etcd_members::authenticate(size_t member,
                                  const etcd_time_limits &limits,
                                  const etcd_interrupt &interrupt) {
  auto const request = authenticate_call(options_.user, options_.password);
  if (!request.ok())
    return request.error();
  {
    lock_guard const lock{mutex_};
    token_.clear();
  }
  auto const attempt = exchange(member, request.value(), limits, interrupt, {});
  if (attempt.code != status::ok && attempt.answer.empty())
    return attempt.code;
  if (attempt.code != status::ok) {
    auto const error = decode_error(attempt.answer);
    return fail(error.code,
                "etcd: {}:{} refused user '{}': {}",
                options_.endpoints[member].host,
                options_.endpoints[member].port,
                options_.user,
                error.message);
  }
  auto received = decode_token(attempt.answer);
  if (!received.ok())
    return received.error();
  lock_guard const lock{mutex_};
  token_ = std::move(received).value();
  return status::ok;
}

etcd_attempt etcd_members::call_member(size_t member,
                                       const etcd_call &request,
                                       const etcd_time_limits &limits,
                                       const etcd_interrupt &interrupt,
                                       const etcd_line_handler &handler) {
  // A token may have expired, or a member that was restarted may have lost it.
  for (bool is_first : {true, false}) {
    bool const needs_token = !options_.user.empty() && (!is_first || token().empty());
    if (needs_token) {
      status const code = authenticate(member, limits, interrupt);
      if (code != status::ok)
        return {code, true, {}};
    }
    auto attempt = exchange(member, request, limits, interrupt, handler);
    if (attempt.code != status::protocol)
      return attempt;
    auto const error = decode_error(attempt.answer);
    if (is_first && error.is_about_token && !options_.user.empty())
      continue;
    log(error.code == status::no_entry ? log_level::debug : log_level::warning,
        "etcd: {}:{} answered {} with an error: {}",
        options_.endpoints[member].host,
        options_.endpoints[member].port,
        request.path,
        error.message);
    return {error.code, false, {}};
  }
  return {status::access, true, {}};
}

result<std::string> etcd_members::call(const etcd_call &request,
                                       uint64_t deadline_ns,
                                       const etcd_interrupt &interrupt) {
  status last = status::timed_out;
  for (size_t tried_count = 0; tried_count < count(); tried_count++) {
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    if (now_ns >= deadline_ns)
      break;
    size_t const member = preferred();
    // A request that may not be repeated has one chance once it was sent, and all of the time.
    uint64_t const share_ns = now_ns + (deadline_ns - now_ns) / (count() - tried_count);
    etcd_time_limits const limits{share_ns, request.is_repeatable ? share_ns : deadline_ns};
    auto attempt = call_member(member, request, limits, interrupt);
    if (attempt.code == status::ok)
      return std::move(attempt.answer);
    last = attempt.code;
    if (!is_of_member(last))
      return last;
    report_failure(member);
    if (!request.is_repeatable && !attempt.is_unsent)
      return last;
  }
  return last;
}

}  // namespace tanada::backends
