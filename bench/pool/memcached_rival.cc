#include <algorithm>
#include <cstring>

#include "rival.hpp"
#include "server.hpp"
#include "socket.hpp"

namespace bench {
namespace {

// Of the text protocol, with contents sent from and received in place: libmemcached, which copies them through buffers and
// blocks of its own, reached half of that for 64 MiB puts and a quarter for gets.
class connection final : public plain_client {
 public:
  explicit connection(stream_socket socket) : socket_{std::move(socket)} {}

 protected:
  void put_once(const std::string &key, const uint8_t *source, uint64_t size) override {
    std::string const asked = "set " + key + " 0 0 " + std::to_string(size) + "\r\n";
    socket_.send({{asked.data(), asked.size()}, {source, size}, {"\r\n", 2}});
    std::string const answer = line();
    if (answer != "STORED") throw std::runtime_error("memcached does not store: " + answer);
  }
  void get_once(const std::string &key, uint8_t *target, uint64_t size) override {
    std::string const asked = "get " + key + "\r\n";
    socket_.send({{asked.data(), asked.size()}});
    std::string const answer = line(), wanted = "VALUE " + key + " 0 " + std::to_string(size);
    if (answer != wanted) throw std::runtime_error("memcached: " + answer);
    uint64_t const here = std::min<uint64_t>(size, early_.size());
    std::memcpy(target, early_.data(), here);
    early_.erase(0, here);
    socket_.receive(target + here, size - here);
    if (!line().empty() || line() != "END") throw std::runtime_error("memcached: no end of the value");
  }

 private:
  // A line without its end; what came with it is kept in early_.
  std::string line() {
    for (;;) {
      size_t const end = early_.find("\r\n");
      if (end != std::string::npos) {
        std::string found = early_.substr(0, end);
        early_.erase(0, end + 2);
        return found;
      }
      char text[8192];
      early_.append(text, socket_.receive_some(text, sizeof text));
    }
  }
  stream_socket socket_;
  std::string early_;
};

class memcached final : public rival {
 public:
  explicit memcached(bool is_unix) : path_{folder_.path() + "/socket"}, is_unix_{is_unix}, port_{free_port()} {
    std::vector<std::string> words{find_program("memcached"), "-u", "root", "-m", "1024", "-I", "128m", "-U", "0"};
    if (is_unix) words.insert(words.end(), {"-s", path_});
    else words.insert(words.end(), {"-l", "127.0.0.1", "-p", std::to_string(port_)});
    server_ = std::make_unique<server>(words, folder_.path() + "/log");
    server_->wait_until([this] { return is_there(); }, 10);
  }
  std::unique_ptr<client> connect() override { return std::make_unique<connection>(open()); }

 private:
  stream_socket open() { return is_unix_ ? stream_socket::to_path(path_) : stream_socket::to_port(port_); }
  bool is_there() {
    try {
      (void)open();
      return true;
    } catch (const std::runtime_error &) {
      return false;
    }
  }
  scratch_folder folder_;
  std::string path_;
  bool is_unix_;
  uint16_t port_;
  std::unique_ptr<server> server_;
};

}  // namespace

std::unique_ptr<rival> memcached_unix_rival(const rival_options &) { return std::make_unique<memcached>(true); }
std::unique_ptr<rival> memcached_tcp_rival(const rival_options &) { return std::make_unique<memcached>(false); }

}  // namespace bench
