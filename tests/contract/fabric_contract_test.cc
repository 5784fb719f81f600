// The fabric contract on the simulated fabric: as it is, and with everything going wrong that may
// go wrong on a network. With --plant FAULT on one that does what no network may do: the suite must
// then fail (fabric.cmake sees to it).
#include <cstring>
#include <map>

#include "contract/fabric_contract_atomics.hpp"
#include "contract/fabric_contract_faults.hpp"
#include "contract/fabric_contract_order.hpp"
#include "contract/fabric_sim_subject.hpp"

namespace tanada::contract {
namespace {

// retry_count_max is such that nothing is given up: the suite expects success of what it has not
// broken itself.
sim::fabric_faults bad_network() {
  sim::fabric_faults faults;
  faults.delay_ns_max = 40'000;
  faults.drop_percent = 20;
  faults.retry_count_max = 1'000;
  faults.again_percent = 5;
  return faults;
}

fabric_case sim_case(const char *name,
                     sim::fabric_faults faults,
                     sim::fabric_options options = {}) {
  return {name, [faults, options] {
            return std::make_unique<fabric_sim_subject>(faults, options);
          }};
}

constexpr sim::fabric_options best{.is_ordered = true, .has_auto_progress = true};

std::map<std::string, sim::fabric_faults> plants() {
  return {{"corrupt", {.corrupt_percent = 50}},
          {"duplicate", {.duplicate_percent = 5}},
          {"swap", {.delay_ns_max = 40'000, .swap_percent = 20}},
          {"lost", {.loss_percent = 5}},
          {"overtake", {.delay_ns_max = 40'000, .overtake_percent = 20}},
          {"uncopied", {.uncopied_percent = 5}}};
}

std::vector<fabric_case> cases{sim_case("sim", {}),
                               sim_case("sim_bad_network", bad_network()),
                               sim_case("sim_ordered", {}, best),
                               sim_case("sim_ordered_bad_network", bad_network(), best)};

std::string case_name(const testing::TestParamInfo<fabric_case> &which) {
  return which.param.name;
}

INSTANTIATE_TEST_SUITE_P(fabrics, fabric_contract, testing::ValuesIn(cases), case_name);
INSTANTIATE_TEST_SUITE_P(fabrics, fabric_contract_atomics, testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace tanada::contract

int main(int argc, char **argv) {
  using namespace tanada::contract;
  if (argc >= 3 && strcmp(argv[1], "--plant") == 0)
    cases = {sim_case("planted", plants().at(argv[2]), best)};
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
