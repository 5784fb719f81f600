#include "line_store.hpp"

namespace bench {
namespace {

// The text protocol, with contents sent and received in place. libmemcached copies them through
// buffers and blocks of its own: it reached half of this rate for 64 MiB puts and a quarter for
// gets.
class connection final : public line_client {
 public:
  using line_client::line_client;

 protected:
  void put_once(const std::string &key, const uint8_t *source, uint64_t size) override {
    std::string const asked = "set " + key + " 0 0 " + std::to_string(size) + "\r\n";
    lines_.socket().send({{asked.data(), asked.size()}, {source, size}, {"\r\n", 2}});
    std::string const answer = lines_.line();
    if (answer != "STORED")
      throw std::runtime_error("memcached does not store: " + answer);
  }
  void get_once(const std::string &key, uint8_t *target, uint64_t size) override {
    std::string const asked = "get " + key + "\r\n";
    lines_.socket().send({{asked.data(), asked.size()}});
    std::string const answer = lines_.line(),
                      wanted = "VALUE " + key + " 0 " + std::to_string(size);
    if (answer != wanted)
      throw std::runtime_error("memcached: " + answer);
    lines_.bytes(target, size);
    if (!lines_.line().empty() || lines_.line() != "END")
      throw std::runtime_error("memcached: no end of the value");
  }
};

class memcached final : public line_store<connection> {
 public:
  explicit memcached(bool is_unix) : line_store{is_unix} {
    std::vector<std::string> words{
        find_program("memcached"), "-u", "root", "-m", "1024", "-I", "128m", "-U", "0"};
    if (is_unix)
      words.insert(words.end(), {"-s", at().path});
    else
      words.insert(words.end(), {"-l", "127.0.0.1", "-p", std::to_string(at().port)});
    start(words);
  }
};

}  // namespace

std::unique_ptr<rival> memcached_unix_rival(const rival_options &) {
  return std::make_unique<memcached>(true);
}
std::unique_ptr<rival> memcached_tcp_rival(const rival_options &) {
  return std::make_unique<memcached>(false);
}

}  // namespace bench
