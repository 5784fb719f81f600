#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rival.hpp"
#include "server.hpp"
#include "socket.hpp"

namespace bench {
namespace {

// The minimum cost of the bytes: a header of 16 bytes describes the request, a put is answered by
// one byte, a get by the bytes.
struct header {
  uint64_t is_put, size;
};

void serve(stream_socket one, std::vector<uint8_t> &area) {
  for (header asked;;) {
    one.receive(&asked, sizeof asked);
    if (asked.size > area.size())
      throw std::runtime_error("raw TCP: too large");
    if (asked.is_put != 0)
      one.receive(area.data(), asked.size);
    one.send({{area.data(), asked.is_put != 0 ? 1 : asked.size}});
  }
}

class connection final : public plain_client {
 public:
  explicit connection(uint16_t port) : socket_{stream_socket::to_port(port)} {}

 protected:
  void put_once(const std::string &, const uint8_t *source, uint64_t size) override {
    header const asked{1, size};
    socket_.send({{&asked, sizeof asked}, {source, size}});
    uint8_t answer;
    socket_.receive(&answer, 1);
  }
  void get_once(const std::string &, uint8_t *target, uint64_t size) override {
    header const asked{0, size};
    socket_.send({{&asked, sizeof asked}});
    socket_.receive(target, size);
  }

 private:
  stream_socket socket_;
};

class raw_tcp final : public rival {
 public:
  explicit raw_tcp(uint64_t size_max) {
    int const listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in addr{};
    socklen_t size = sizeof addr;
    addr.sin_family = AF_INET;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, reinterpret_cast<sockaddr *>(&addr), size) != 0 ||
        listen(listener, 8) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr *>(&addr), &size) != 0)
      throw std::runtime_error(std::string("raw TCP: ") + std::strerror(errno));
    port_ = ntohs(addr.sin_port);
    server_ = std::make_unique<server>([listener, size_max] {
      std::vector<uint8_t> area(size_max, 1);
      for (;;) {  // one connection after the other
        try {
          // Other rivals may be measured for long before the next request.
          serve(stream_socket{accept(listener, nullptr, nullptr), 0}, area);
        } catch (const std::runtime_error &) {
          // The connection has ended: accept the next.
        }
      }
    });
    (void)close(listener);
  }
  std::unique_ptr<client> connect() override {
    return std::make_unique<connection>(port_);
  }

 private:
  uint16_t port_;
  std::unique_ptr<server> server_;
};

}  // namespace

std::unique_ptr<rival> tcp_rival(const rival_options &options) {
  return std::make_unique<raw_tcp>(options.size_max);
}

}  // namespace bench
