#include "line_store.hpp"

namespace bench {
namespace {

class connection final : public line_client {
 public:
  using line_client::line_client;

 protected:
  void put_once(const std::string &key, const uint8_t *source, uint64_t size) override {
    std::string const asked =
        "*3\r\n$3\r\nSET\r\n" + word(key) + "$" + std::to_string(size) + "\r\n";
    lines_.socket().send({{asked.data(), asked.size()}, {source, size}, {"\r\n", 2}});
    std::string const answer = lines_.line();
    if (answer != "+OK")
      throw std::runtime_error("Redis does not store: " + answer);
  }
  void get_once(const std::string &key, uint8_t *target, uint64_t size) override {
    std::string const asked = "*2\r\n$3\r\nGET\r\n" + word(key);
    lines_.socket().send({{asked.data(), asked.size()}});
    std::string const answer = lines_.line();
    if (answer != "$" + std::to_string(size))
      throw std::runtime_error("Redis: " + answer);
    lines_.bytes(target, size);
    if (!lines_.line().empty())
      throw std::runtime_error("Redis: no end of the value");
  }

 private:
  static std::string word(const std::string &text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
};

class redis final : public line_store<connection> {
 public:
  explicit redis(bool is_unix) : line_store{is_unix} {
    std::vector<std::string> words{find_program("redis-server"),
                                   "--save",
                                   "",
                                   "--appendonly",
                                   "no",
                                   "--dir",
                                   folder(),
                                   "--bind",
                                   "127.0.0.1",
                                   "--port",
                                   std::to_string(at().port)};
    if (is_unix)
      words.insert(words.end(), {"--unixsocket", at().path});
    start(words);
  }
};

}  // namespace

std::unique_ptr<rival> redis_unix_rival(const rival_options &) {
  return std::make_unique<redis>(true);
}
std::unique_ptr<rival> redis_tcp_rival(const rival_options &) {
  return std::make_unique<redis>(false);
}

}  // namespace bench
