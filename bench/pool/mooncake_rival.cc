#include <filesystem>

#include "python_rival.hpp"
#include "socket.hpp"

namespace bench {
namespace {

class mooncake : public rival {
 protected:
  explicit mooncake(const rival_options &options) : python_{options.mooncake_python} {
    if (python_.empty())
      throw not_here("no --mooncake-python");
  }
  std::string beside_python(const char *name) const {
    std::string found = (std::filesystem::path(python_).parent_path() / name).string();
    if (!std::filesystem::exists(found))
      throw not_here(found + " is not there");
    return found;
  }
  python_role role(const char *name, const std::string &peer, uint64_t size) const {
    return {python_, "mooncake_rival.py", name, peer, size};
  }
  std::string log() const {
    return scratch_.path() + "/log";
  }

 private:
  scratch_folder scratch_;
  std::string python_;
};

class store final : public mooncake {
 public:
  explicit store(const rival_options &options) : mooncake{options} {
    uint16_t const port = free_port();
    master_at_ = "127.0.0.1:" + std::to_string(port);
    std::vector<std::string> const words{beside_python("mooncake_master"),
                                         "-rpc_address=127.0.0.1",
                                         "-rpc_port=" + std::to_string(port),
                                         "-metrics_host=127.0.0.1",
                                         "-metrics_port=" + std::to_string(free_port())};
    master_ = std::make_unique<server>(words, log());
    master_->wait_until([port] { return socket_place{"", port}.answers(); }, 20);
    owner_ =
        std::make_unique<python_owner>(role("store_owner", master_at_, uint64_t{1} << 30), log());
  }
  std::unique_ptr<client> connect() override {
    return std::make_unique<python_client>(role("store_client", master_at_, bulk_size), log());
  }

 private:
  std::string master_at_;
  std::unique_ptr<server> master_;
  std::unique_ptr<python_owner> owner_;  // ends before its master
};

class engine final : public mooncake {
 public:
  explicit engine(const rival_options &options)
      : mooncake{options}, owner_{role("engine_owner", "none", bulk_size), log()} {}
  std::unique_ptr<client> connect() override {
    return std::make_unique<python_client>(role("engine_client", owner_.said(), bulk_size), log());
  }

 private:
  python_owner owner_;
};

}  // namespace

std::unique_ptr<rival> mooncake_rival(const rival_options &options) {
  return std::make_unique<store>(options);
}
std::unique_ptr<rival> mooncake_engine_rival(const rival_options &options) {
  return std::make_unique<engine>(options);
}

}  // namespace bench
