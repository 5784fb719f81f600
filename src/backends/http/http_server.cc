// backends/http/http_server.cc: the HTTP server over cpp-httplib.
#include "backends/http/http_server.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>

#include "backends/http/bounded_stream.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::backends {
namespace {

thread_local bool is_refusing = false;  // the current connection exceeds the limit

// cpp-httplib's thread pool with a bounded queue. A connection beyond the bound is answered by the
// thread that accepted it, with `is_refusing` set.
class bounded_queue : public httplib::ThreadPool {
 public:
  // The type differs between versions of cpp-httplib.
  using enqueued = decltype(std::declval<httplib::ThreadPool &>().enqueue({}));

  bounded_queue(uint32_t thread_count, uint32_t waiting_count_max)
      : ThreadPool(thread_count), waiting_count_max_{waiting_count_max} {}

  enqueued enqueue(std::function<void()> job) override {
    if (waiting_.fetch_add(1) >= waiting_count_max_) {
      leave_queue();
      TND_ASSERT(!is_refusing);
      is_refusing = true;
      job();
      is_refusing = false;
      return static_cast<enqueued>(true);
    }
    return ThreadPool::enqueue([this, job = std::move(job)] {
      leave_queue();
      job();
    });
  }

 private:
  void leave_queue() {
    uint32_t const waiting_count = waiting_.fetch_sub(1);
    TND_ASSERT(waiting_count != 0);
  }

  uint32_t const waiting_count_max_;
  std::atomic<uint32_t> waiting_ = 0;
};

// A name or an address of this machine's loopback, with or without a port.
bool is_loopback(std::string_view host) {
  size_t const colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos)
    host = host.substr(0, colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

bool is_loopback_address(std::string_view address) {
  return address.starts_with("127.") || address == "localhost" || address == "::1";
}

// Empty if it is no base64.
std::string base64_decoded(std::string_view text) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string decoded;
  uint32_t bits = 0, bit_count = 0;
  while (text.ends_with('='))
    text.remove_suffix(1);
  for (char const c : text) {
    size_t const digit = digits.find(c);
    if (digit == digits.npos)
      return {};
    bits = (bits << 6 | uint32_t(digit)) & 0xffffff;
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      decoded += char(bits >> bit_count);
    }
  }
  return decoded;
}

// The time does not depend on how many bytes are equal.
bool is_equal(std::string_view candidate, std::string_view token) {
  unsigned difference = candidate.size() == token.size() ? 0 : 1;
  for (size_t i = 0; i < candidate.size(); i++)
    difference |= unsigned(static_cast<unsigned char>(candidate[i]) ^
                           static_cast<unsigned char>(token[i % token.size()]));
  return difference == 0;
}

// Whether an Authorization header has the token.
bool is_authorized(std::string_view header, const std::string &token) {
  constexpr std::string_view bearer = "Bearer ", basic = "Basic ";
  if (header.starts_with(bearer))
    return is_equal(header.substr(bearer.size()), token);
  if (!header.starts_with(basic))
    return false;
  std::string const decoded = base64_decoded(header.substr(basic.size()));
  size_t const colon = decoded.find(':');
  return colon != decoded.npos && is_equal(std::string_view{decoded}.substr(colon + 1), token);
}

constexpr std::string_view
    refusal =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: "
        "1\r\nContent-Length: 0\r\n\r\n",
    bad_request = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

// False if the first bytes, which have arrived, are those of another protocol, such as the pool's
// or TLS. Its peer waits for an answer, and cpp-httplib for the end of a line.
bool begins_with_text(int socket) {
  std::array<char, 16> first{};
  ssize_t const size = ::recv(socket, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  return std::none_of(first.begin(), first.begin() + std::max<ssize_t>(size, 0), [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\r' && c != '\n' && c != '\t';
  });
}

void send_at_once(int socket, std::string_view text) {
  // The response may be truncated if the socket's buffer is full: this thread accepts connections
  // and must not block.
  (void)!::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// cpp-httplib's default also sets SO_REUSEPORT, with which a second daemon would get half of this
// server's connections.
void set_listener_options(socket_t socket) {
  int const on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

}  // namespace

class http_server::state : private httplib::Server {
 public:
  state(const http_server_options &options, std::vector<http_page> pages)
      : options_{options}, pages_{std::move(pages)} {
    new_task_queue = [this] {
      return new bounded_queue(options_.thread_count, options_.waiting_count_max);
    };
    set_socket_options(set_listener_options);
    set_pre_routing_handler([this](const httplib::Request &request, httplib::Response &response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
    set_exception_handler([](const httplib::Request &,
                             httplib::Response &response,
                             const std::exception_ptr &) { response.status = 500; });
  }

  status start();
  void stop();
  uint16_t port() const noexcept {
    return port_;
  }

 private:
  void answer(const httplib::Request &request, httplib::Response &response) const;
  bool process_and_close_socket(socket_t socket) override;
  void serve(bounded_stream &stream);

  http_server_options const options_;
  std::vector<http_page> const pages_;
  uint16_t port_ = 0;
  int stop_file_ = -1;
  std::thread listener_;
  std::atomic<bool> has_ended_ = false;
};

status http_server::state::start() {
  TND_ASSERT(stop_file_ < 0 && !listener_.joinable());
  stop_file_ = ::eventfd(0, EFD_CLOEXEC);
  if (stop_file_ < 0)
    return fail(status::io, "cannot create an eventfd: {}", std::strerror(errno));
  const char *const address = options_.address.c_str();
  if (options_.token.empty() && !is_loopback_address(options_.address))
    return fail(status::access,
                "HTTP at {}, which is not loopback, needs a token (--web-token-file)",
                options_.address);
  errno = 0;
  int const bound = options_.port == 0                     ? bind_to_any_port(address)
                    : bind_to_port(address, options_.port) ? options_.port
                                                           : -1;
  if (bound <= 0) {
    int const error = errno;
    return fail(error == EADDRINUSE ? status::busy : status::io,
                "cannot listen at {}:{} for HTTP: {}",
                options_.address,
                options_.port,
                error != 0 ? std::strerror(error) : "no reason candidate");
  }
  TND_ASSERT(bound <= UINT16_MAX);
  port_ = uint16_t(bound);
  seams::signals_blocked const signal_guard;
  listener_ = std::thread([this] {
    if (!listen_after_bind())
      log(log_level::error,
          "the HTTP server at {}:{} has stopped unexpectedly",
          options_.address,
          port_);
    has_ended_ = true;
  });
  // cpp-httplib's stop() has no effect before the listener runs.
  while (!is_running() && !has_ended_)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return status::ok;
}

void http_server::state::stop() {
  if (listener_.joinable()) {
    uint64_t const value = 1;
    (void)!::write(stop_file_, &value, sizeof value);
    Server::stop();
    listener_.join();
  }
  if (stop_file_ >= 0)
    ::close(stop_file_);
  stop_file_ = -1;
}

void http_server::state::answer(const httplib::Request &request,
                                httplib::Response &response) const {
  if (options_.token.empty() && !is_loopback(request.get_header_value("Host"))) {
    response.status = 403;
    return;
  }
  bool const is_admitted = options_.token.empty() ||
                           is_authorized(request.get_header_value("Authorization"), options_.token);
  if (!is_admitted) {
    response.status = 401;
    response.set_header("WWW-Authenticate", "Basic realm=\"tanada-poold\", charset=\"UTF-8\"");
    return;
  }
  if (request.method != "GET" && request.method != "HEAD") {
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
    return;
  }
  for (http_page const &page : pages_) {
    if (page.path != request.path)
      continue;
    response.set_header("Cache-Control", "no-store");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; script-src "
                        "'unsafe-inline'; connect-src 'self'; "
                        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    response.set_content(page.body(), page.content_type.c_str());
    return;
  }
  response.status = 404;
}

void http_server::state::serve(bounded_stream &stream) {
  auto const without_ranges = [](httplib::Request &request) {
    request.ranges.clear();
  };
  bool closed = false;
  try {
    process_request(stream, true, closed, without_ranges);
  } catch (const std::exception &error) {
    log(log_level::warning, "HTTP: a request was dropped: {}", error.what());
  }
}

bool http_server::state::process_and_close_socket(socket_t socket) {
  if (is_refusing) {
    send_at_once(socket, refusal);
  } else {
    auto const deadline =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.timeout_ns);
    bounded_stream stream{socket, {options_.request_size_max, deadline, stop_file_}};
    if (stream.is_readable() && !begins_with_text(socket))
      send_at_once(socket, bad_request);
    else
      serve(stream);
  }
  // Unread bytes would turn close() into a reset, which can overtake the response.
  ::shutdown(socket, SHUT_WR);
  std::array<char, 4096> unread;
  for (int i = 0; i < 16 && ::recv(socket, unread.data(), unread.size(), MSG_DONTWAIT) > 0; i++)
    continue;
  ::close(socket);
  return true;
}

http_server::http_server(std::unique_ptr<state> server_state) : state_{std::move(server_state)} {}

http_server::~http_server() {
  state_->stop();
}

uint16_t http_server::port() const noexcept {
  return state_->port();
}

result<std::unique_ptr<http_server>> http_server::start(const http_server_options &options,
                                                        std::vector<http_page> pages) {
  std::unique_ptr<http_server> server{
      new http_server(std::make_unique<state>(options, std::move(pages)))};
  if (status const code = server->state_->start(); code != status::ok)
    return code;
  return server;
}

}  // namespace tanada::backends
