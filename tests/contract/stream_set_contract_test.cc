// The stream_set contract on the system's sockets and on the simulated network: as it is, and with
// everything going wrong that may go wrong. With --plant FAULT on one that does what none may do:
// the suite must then fail (stream_set.cmake sees to it).
#include <sys/resource.h>

#include <cstring>
#include <map>

#include "contract/stream_set_contract_sockets.hpp"
#include "sim/clock.hpp"
#include "sim/stream_set.hpp"

namespace tanada::contract {
namespace {

class socket_subject final : public stream_set_subject {
 public:
  using factory = result<std::unique_ptr<seams::stream_set>> (*)(const seams::stream_set_options &);
  socket_subject(factory make, size_t connection_count_max)
      : make_{make}, connection_count_max_{connection_count_max} {}
  result<std::unique_ptr<seams::stream_set>> open(
      const seams::stream_set_options &options) override {
    return make_(options);
  }
  size_t connection_count_max() const override {
    return connection_count_max_;
  }

 private:
  factory const make_;
  size_t const connection_count_max_;
};

stream_set_case socket_case(const char *name,
                            socket_subject::factory make,
                            size_t connection_count_max = 1'500) {
  return {name, [make, connection_count_max] {
            return std::make_unique<socket_subject>(make, connection_count_max);
          }};
}

class simulated_subject final : public stream_set_subject {
 public:
  explicit simulated_subject(const sim::stream_set_faults &faults) : network_{world_, faults} {}
  result<std::unique_ptr<seams::stream_set>> open(
      const seams::stream_set_options &options) override {
    return network_.open(options);
  }
  seams::clock &time() override {
    return clock_;
  }
  void idle() override {
    if (!world_.step())
      world_.advance(1'000);  // nothing is under way: time passes all the same
  }
  bool has_sockets() const override {
    return false;
  }
  uint64_t patience_ns() const override {
    return 1'000'000'000;
  }

 private:
  sim::world world_{1};
  sim::clock clock_{world_};
  sim::stream_network network_;
};

stream_set_case simulated_case(const char *name, const sim::stream_set_faults &faults) {
  return {name, [faults] {
            return std::make_unique<simulated_subject>(faults);
          }};
}

// Without cuts and refusals: the suite expects success of what it has not broken itself.
constexpr sim::stream_set_faults bad_network{.delay_ns_max = 20'000,
                                             .connect_delay_ns_max = 100'000,
                                             .segment_size_max = 3'000,
                                             .chunk_size_max = 2'000,
                                             .window_size = 40'000,
                                             .partial_percent = 30,
                                             .again_percent = 20};

std::map<std::string, sim::stream_set_faults> plants() {
  return {{"corrupt", {.corrupt_permyriad = 500}},
          {"lose", {.lose_permyriad = 500}},
          {"tells_no_room", {.loses_writable = true}},
          {"ends_twice", {.reports_end_twice = true}},
          {"loses_wakes", {.loses_wakes = true}},
          {"forgets_rest", {.loses_unaccepted = true}}};
}

std::vector<stream_set_case> simulated_cases{simulated_case("simulated", {}),
                                             simulated_case("simulated_bad_network", bad_network)};
std::vector<stream_set_case> const socket_cases{
    socket_case("epoll", seams::epoll_stream_set_create),
    socket_case("io_uring", seams::uring_stream_set_create),
    // Two descriptors each, below FD_SETSIZE.
    socket_case("select", seams::select_stream_set_create, 400)};

std::string case_name(const testing::TestParamInfo<stream_set_case> &which) {
  return which.param.name;
}

INSTANTIATE_TEST_SUITE_P(simulated,
                         stream_set_contract,
                         testing::ValuesIn(simulated_cases),
                         case_name);
INSTANTIATE_TEST_SUITE_P(sockets, stream_set_contract, testing::ValuesIn(socket_cases), case_name);
INSTANTIATE_TEST_SUITE_P(sockets,
                         stream_set_sockets_contract,
                         testing::ValuesIn(socket_cases),
                         case_name);

}  // namespace
}  // namespace tanada::contract

int main(int argc, char **argv) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16'384);
  setrlimit(RLIMIT_NOFILE, &files);
  using namespace tanada::contract;
  if (argc >= 3 && strcmp(argv[1], "--plant") == 0)
    simulated_cases = {simulated_case("planted", plants().at(argv[2]))};
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
