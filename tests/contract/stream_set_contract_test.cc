// The stream_set contract on the system's sockets.
#include <sys/resource.h>

#include "contract/stream_set_contract_sockets.hpp"

namespace tanada::port {
namespace {

class socket_subject final : public stream_set_subject {
 public:
  using factory = result<std::unique_ptr<stream_set>> (*)(const stream_set_options &);
  explicit socket_subject(factory make) : make_{make} {}
  result<std::unique_ptr<stream_set>> open(const stream_set_options &options) override { return make_(options); }

 private:
  factory const make_;
};

stream_set_case socket_case(const char *name, socket_subject::factory make) {
  return {name, [make] { return std::make_unique<socket_subject>(make); }};
}

std::vector<stream_set_case> const socket_cases{socket_case("epoll", epoll_stream_set_create)};

std::string case_name(const testing::TestParamInfo<stream_set_case> &which) { return which.param.name; }

INSTANTIATE_TEST_SUITE_P(sockets, stream_set_contract, testing::ValuesIn(socket_cases), case_name);
INSTANTIATE_TEST_SUITE_P(sockets, stream_set_sockets_contract, testing::ValuesIn(socket_cases), case_name);

}  // namespace
}  // namespace tanada::port

int main(int argc, char **argv) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16'384);
  setrlimit(RLIMIT_NOFILE, &files);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
