#include <filesystem>
#include <nlohmann/json.hpp>

#include "rival.hpp"
#include "server.hpp"

namespace bench {
namespace {

constexpr double start_limit_s = 60, call_limit_s = 120;

std::string hear_ready(server &program) {
  // The library says things on standard output, too.
  for (;;)
    if (std::string line = program.hear(start_limit_s); line == "ready") return line;
}

// A Python process with the store's client; the clock is there.
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

// A master, and a process that owns the memory: another than the client, so that bytes cross TCP.
class mooncake final : public rival {
 public:
  explicit mooncake(const rival_options &options) : python_{options.mooncake_python} {
    if (python_.empty()) throw not_here("no --mooncake-python");
    std::string const program = (std::filesystem::path(python_).parent_path() / "mooncake_master").string();
    if (!std::filesystem::exists(program)) throw not_here(program + " is not there");
    uint16_t const port = free_port();
    master_at_ = "127.0.0.1:" + std::to_string(port);
    std::vector<std::string> const words{program, "-rpc_address=127.0.0.1", "-rpc_port=" + std::to_string(port),
                                         "-metrics_host=127.0.0.1", "-metrics_port=" + std::to_string(free_port())};
    master_ = std::make_unique<server>(words, log());
    master_->wait_until([port] { return answers(port); }, 20);
    memory_ = std::make_unique<server>(role("serve", uint64_t{1} << 30), log());
    (void)hear_ready(*memory_);
  }
  ~mooncake() override {
    memory_.reset();
    master_.reset();
  }
  std::unique_ptr<client> connect() override { return std::make_unique<helper>(role("client", bulk_size), log()); }

 private:
  std::string log() const { return scratch_.path() + "/log"; }
  std::vector<std::string> role(const char *name, uint64_t size) const {
    return {python_, BENCH_POOL_SOURCE "/mooncake_rival.py", name, master_at_, "127.0.0.1:" + std::to_string(free_port()),
            std::to_string(size)};
  }
  scratch_folder scratch_;
  std::string python_, master_at_;
  std::unique_ptr<server> master_, memory_;
};

}  // namespace

std::unique_ptr<rival> mooncake_rival(const rival_options &options) { return std::make_unique<mooncake>(options); }

}  // namespace bench
