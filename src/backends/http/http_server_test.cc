#include "backends/http/http_server.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <thread>

namespace tanada::backends {
namespace {

using clock = std::chrono::steady_clock;

// A connection to the server as a byte stream; reads time out after 10 s.
class connection {
 public:
  explicit connection(uint16_t port) : socket_{::socket(AF_INET, SOCK_STREAM, 0)} {
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_port = htons(port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval const limit = {10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr *>(&addr), sizeof addr), 0);
  }
  ~connection() {
    ::close(socket_);
  }
  connection(const connection &) = delete;
  connection &operator=(const connection &) = delete;

  bool send(const std::string &text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size());
  }
  // Reads until the server closes.
  std::string receive() const {
    std::string text;
    char part[4096];
    ssize_t got = ::recv(socket_, part, sizeof part, 0);
    while (got > 0) {
      text.append(part, size_t(got));
      got = ::recv(socket_, part, sizeof part, 0);
    }
    return text;
  }

 private:
  int socket_;
};

std::string send_request(uint16_t port, const std::string &request) {
  connection const client{port};
  client.send(request);
  return client.receive();
}

std::string get(uint16_t port, const std::string &path, const std::string &host = "localhost") {
  return send_request(port, "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
}

bool has_status(const std::string &answer, int code) {
  return answer.starts_with("HTTP/1.1 " + std::to_string(code) + " ");
}

std::vector<http_page> pages() {
  return {{"/",
           "text/html",
           [] {
             return std::string("<p>here</p>");
           }},
          {"/broken", "text/plain", []() -> std::string {
             throw std::runtime_error("secret");
           }}};
}

std::unique_ptr<http_server> start_server(const http_server_options &options = {},
                                          std::vector<http_page> page_list = pages()) {
  auto server = http_server::start(options, std::move(page_list));
  EXPECT_TRUE(server.ok());
  return std::move(server).value();
}

TEST(http_server, refuses_another_protocol_at_once) {
  auto const server = start_server();
  auto const before = clock::now();
  EXPECT_TRUE(has_status(send_request(server->port(), std::string("TND1\1\0\0\0", 8)), 400));
  EXPECT_LT(clock::now() - before, std::chrono::seconds(2)) << "the time limit is 5 s";
}

TEST(http_server, answers_its_pages_and_nothing_else) {
  auto const server = start_server();
  std::string const page = get(server->port(), "/");
  EXPECT_TRUE(has_status(page, 200)) << page;
  EXPECT_NE(page.find("<p>here</p>"), page.npos);
  EXPECT_NE(page.find("Content-Type: text/html"), page.npos);
  EXPECT_NE(page.find("Content-Security-Policy: default-src 'none'"), page.npos);
  std::string const head =
      send_request(server->port(), "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(has_status(head, 200));
  EXPECT_EQ(head.find("here"), head.npos);
  EXPECT_TRUE(has_status(get(server->port(), "/other"), 404));
  EXPECT_TRUE(has_status(get(server->port(), "/../etc/passwd"), 404));
  EXPECT_TRUE(
      has_status(send_request(server->port(),
                              "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"),
                 405));
  EXPECT_TRUE(has_status(send_request(server->port(), "rubbish\r\n\r\n"), 400));
}

TEST(http_server, what_a_page_throws_stays_here) {
  auto const server = start_server();
  std::string const answer = get(server->port(), "/broken");
  EXPECT_TRUE(has_status(answer, 500));
  EXPECT_EQ(answer.find("secret"), answer.npos);
  EXPECT_TRUE(has_status(get(server->port(), "/"), 200));
}

// A web page whose DNS name resolves to 127.0.0.1 still sends that name as Host.
TEST(http_server, other_hosts_names_are_refused) {
  auto const server = start_server();
  for (const char *host :
       {"localhost", "localhost:9", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80"})
    EXPECT_TRUE(has_status(get(server->port(), "/", host), 200)) << host;
  for (const char *host :
       {"evil.example", "evil.example:80", "", "localhost.evil.example", "[::2]"})
    EXPECT_TRUE(has_status(get(server->port(), "/", host), 403)) << host;
}

TEST(http_server, ranges_are_not_served) {
  auto const server = start_server();
  std::string ranges = "bytes=0-0";
  for (int i = 0; i < 500; i++)
    ranges += ",0-0";
  for (const std::string &range :
       {ranges, std::string("bytes=5-1"), std::string("bytes=99999999999999999999-")}) {
    std::string const answer = send_request(
        server->port(), "GET / HTTP/1.1\r\nHost: localhost\r\nRange: " + range + "\r\n\r\n");
    EXPECT_TRUE(has_status(answer, 200) || has_status(answer, 416)) << answer;
  }
}

TEST(http_server, a_request_that_never_ends_is_cut_off) {
  auto const server = start_server({.timeout_ns = 60'000'000'000});
  auto const start = clock::now();
  connection const client{server->port()};
  EXPECT_TRUE(client.send("GET / HTTP/1.1\r\nHost: localhost\r\n"));
  std::string const header = "A: " + std::string(1000, 'a') + "\r\n";
  int sent = 0;
  while (sent < 200 && client.send(header))
    sent++;
  std::string const answer = client.receive();
  EXPECT_TRUE(answer.empty() || has_status(answer, 400)) << answer;
  EXPECT_LT(clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(has_status(get(server->port(), "/"), 200));
}

TEST(http_server, slow_clients_lose_their_threads) {
  auto const server = start_server({.thread_count = 1, .timeout_ns = 300'000'000});
  connection const slow{server->port()};
  auto const start = clock::now();
  std::jthread const slow_sender(
      [&](std::stop_token ended) {  // a byte now and then, so that no single read times out
        for (int i = 0; i < 100 && !ended.stop_requested() && slow.send("G"); i++)
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
      });
  EXPECT_TRUE(has_status(get(server->port(), "/"), 200));
  EXPECT_LT(clock::now() - start, std::chrono::seconds(4));
}

TEST(http_server, connections_past_the_limit_are_refused_at_once) {
  std::latch entered{1}, leave{1};
  std::vector<http_page> page_list = pages();
  page_list.push_back({"/slow", "text/plain", [&] {
                         entered.count_down();
                         leave.wait();
                         return std::string("late");
                       }});
  auto const server =
      start_server({.thread_count = 1, .waiting_count_max = 1}, std::move(page_list));
  std::string slow;
  std::thread slow_client([&] { slow = get(server->port(), "/slow"); });
  entered.wait();
  connection const waiting{server->port()};  // takes the only place in the queue
  waiting.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(has_status(get(server->port(), "/"), 503));
  leave.count_down();
  slow_client.join();
  EXPECT_TRUE(has_status(slow, 200));
  EXPECT_TRUE(has_status(waiting.receive(), 200));
}

TEST(http_server, its_end_waits_for_nobody) {
  auto server = start_server({.timeout_ns = 60'000'000'000});
  connection const idle{server->port()};
  idle.send("GET / HT");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  auto const start = clock::now();
  server.reset();
  EXPECT_LT(clock::now() - start, std::chrono::seconds(5));
}

TEST(http_server, a_port_that_is_taken_is_told) {
  auto const server = start_server();
  auto const second = http_server::start({.port = server->port()}, pages());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error(), status::busy);
}

TEST(http_server, listens_on_loopback_alone) {
  auto const server = start_server();
  int const socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_port = htons(server->port());
  addr.sin_addr.s_addr =
      htonl(0x7f000002);  // 127.0.0.2 is also this machine, but the server does not bind it
  EXPECT_NE(::connect(socket, reinterpret_cast<sockaddr *>(&addr), sizeof addr), 0);
  ::close(socket);
}

std::string get_with(uint16_t port, const std::string &authorization) {
  return send_request(
      port,
      "GET / HTTP/1.1\r\nHost: other.example\r\nAuthorization: " + authorization + "\r\n\r\n");
}

TEST(http_server, a_token_is_required_of_each_request) {
  auto const server = start_server({.token = "0123456789abcdef"});
  EXPECT_TRUE(has_status(get(server->port(), "/"), 401));
  EXPECT_TRUE(has_status(get_with(server->port(), "Bearer 0123456789abcdef"), 200));
  // user:0123456789abcdef and user:0123456789abcdeF
  EXPECT_TRUE(has_status(get_with(server->port(), "Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVm"), 200));
  EXPECT_TRUE(has_status(get_with(server->port(), "Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVG"), 401));
  for (const char *wrong : {"Bearer ",
                            "Bearer 0123456789abcdeg",
                            "Bearer 0123456789abcde",
                            "Bearer 0123456789abcdef0123456789abcdef",
                            "Basic ",
                            "Basic !!!!",
                            "Basic MDEyMzQ1Njc4OWFiY2RlZg==",
                            "0123456789abcdef"})
    EXPECT_TRUE(has_status(get_with(server->port(), wrong), 401)) << wrong;
}

TEST(http_server, other_addresses_than_loopback_need_a_token) {
  auto const open = http_server::start({.address = "0.0.0.0"}, pages());
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error(), status::access);
  auto const guarded = start_server({.address = "0.0.0.0", .token = "0123456789abcdef"});
  EXPECT_TRUE(has_status(get_with(guarded->port(), "Bearer 0123456789abcdef"), 200));
}

}  // namespace
}  // namespace tanada::backends
