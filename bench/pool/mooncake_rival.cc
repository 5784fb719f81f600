#include <filesystem>
#include <nlohmann/json.hpp>

#include "rival.hpp"
#include "server.hpp"
#include "socket.hpp"

namespace bench {
namespace {

constexpr double start_limit_s = 60, call_limit_s = 120;

// What the program says after "ready". The library says things on standard output, too.
std::string hear_ready(server &program) {
  for (;;)
    if (std::string const line = program.hear(start_limit_s); line.rfind("ready", 0) == 0) return line.substr(std::min<size_t>(6, line.size()));
}

// A Python process with the library's client; the clock is there.
class helper final : public client {
 public:
  helper(const std::vector<std::string> &words, const std::string &log) : process_{words, log} { (void)hear_ready(process_); }

  std::vector<double> put(const std::string &key, const uint8_t *, uint64_t size, unsigned count) override {
    return seconds("put " + key + " " + std::to_string(size) + " " + std::to_string(count));
  }
  std::vector<double> get(const std::string &key, uint8_t *, uint64_t size, unsigned count) override {
    return seconds("get " + key + " " + std::to_string(size) + " " + std::to_string(count));
  }
  bool is_here() const override { return false; }
  double put_many(const std::string &prefix, const uint8_t *, double duration_s) override {
    return ask("many " + prefix + " " + std::to_string(duration_s)).at("rate").get<double>();
  }

 private:
  std::vector<double> seconds(const std::string &line) { return ask(line).at("seconds").get<std::vector<double>>(); }
  nlohmann::json ask(const std::string &line) {
    process_.say(line);
    for (;;)
      if (std::string const answer = process_.hear(call_limit_s); answer.rfind('{', 0) == 0) return nlohmann::json::parse(answer);
  }
  server process_;
};

// Memory is owned by another process than the client, so that bytes cross TCP.
class mooncake : public rival {
 protected:
  explicit mooncake(const rival_options &options) : python_{options.mooncake_python} {
    if (python_.empty()) throw not_here("no --mooncake-python");
  }
  std::string beside_python(const char *name) const {
    std::string found = (std::filesystem::path(python_).parent_path() / name).string();
    if (!std::filesystem::exists(found)) throw not_here(found + " is not there");
    return found;
  }
  std::vector<std::string> role(const char *name, const std::string &peer, uint64_t size) const {
    return {python_, BENCH_POOL_SOURCE "/mooncake_rival.py", name, peer, "127.0.0.1:" + std::to_string(free_port()),
            std::to_string(size)};
  }
  std::string log() const { return scratch_.path() + "/log"; }

 private:
  scratch_folder scratch_;
  std::string python_;
};

class store final : public mooncake {
 public:
  explicit store(const rival_options &options) : mooncake{options} {
    uint16_t const port = free_port();
    master_at_ = "127.0.0.1:" + std::to_string(port);
    std::vector<std::string> const words{beside_python("mooncake_master"), "-rpc_address=127.0.0.1", "-rpc_port=" + std::to_string(port),
                                         "-metrics_host=127.0.0.1", "-metrics_port=" + std::to_string(free_port())};
    master_ = std::make_unique<server>(words, log());
    master_->wait_until([port] { return socket_place{"", port}.answers(); }, 20);
    owner_ = std::make_unique<server>(role("store_owner", master_at_, uint64_t{1} << 30), log());
    (void)hear_ready(*owner_);
  }
  std::unique_ptr<client> connect() override { return std::make_unique<helper>(role("store_client", master_at_, bulk_size), log()); }

 private:
  std::string master_at_;
  std::unique_ptr<server> master_, owner_;  // ended in the reverse order
};

class engine final : public mooncake {
 public:
  explicit engine(const rival_options &options) : mooncake{options} {
    owner_ = std::make_unique<server>(role("engine_owner", "none", bulk_size), log());
    owner_at_ = hear_ready(*owner_);
  }
  std::unique_ptr<client> connect() override { return std::make_unique<helper>(role("engine_client", owner_at_, bulk_size), log()); }

 private:
  std::string owner_at_;
  std::unique_ptr<server> owner_;
};

}  // namespace

std::unique_ptr<rival> mooncake_rival(const rival_options &options) { return std::make_unique<store>(options); }
std::unique_ptr<rival> mooncake_engine_rival(const rival_options &options) { return std::make_unique<engine>(options); }

}  // namespace bench
