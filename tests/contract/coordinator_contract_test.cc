// The coordinator contract on the simulated store: as it is, and with the delays that a store may
// have. With --plant MISTAKE on one that does what none may do: the suite must then fail
// (coordinator.cmake checks that).
#include <cstring>

#include "contract/coordinator_contract.hpp"
#include "sim/clock.hpp"
#include "sim/coordinator.hpp"

namespace tanada::contract {
namespace {

class simulated_subject final : public coordinator_subject {
 public:
  simulated_subject(uint64_t seed, const sim::coordinator_faults &faults)
      : world_{seed}, store_{world_, faults} {}
  std::unique_ptr<seams::coordinator> open() override {
    return store_.open();
  }
  void restart() override {
    store_.set_down(true);
    world_.schedule(world_.now_ns() + 500'000'000, [this] { store_.set_down(false); });
  }
  void compact() override {
    store_.compact();
  }
  void set_frozen(seams::coordinator &client, bool is_frozen) override {
    store_.set_reachable(client, !is_frozen);
  }
  seams::clock &time() override {
    return clock_;
  }

 private:
  sim::world world_;
  sim::clock clock_{world_};
  sim::coordinator_store store_;
};

coordinator_case simulated_case(const std::string &name,
                                uint64_t seed,
                                const sim::coordinator_faults &faults) {
  return {name, [seed, faults] {
            return std::make_unique<simulated_subject>(seed, faults);
          }};
}

// Without losses: the suite expects success of what it has not broken itself.
sim::coordinator_faults slow_store() {
  sim::coordinator_faults faults;
  faults.delay_ns_max = 50'000'000;
  faults.watch_delay_ns_max = 100'000'000;
  faults.lease_delay_ns_max = 1'000'000'000;
  return faults;
}

std::vector<coordinator_case> simulated_cases() {
  std::vector<coordinator_case> cases{simulated_case("simulated", 1, {})};
  for (uint64_t seed = 1; seed <= 20; seed++)
    cases.push_back(simulated_case("slow_" + std::to_string(seed), seed, slow_store()));
  return cases;
}

sim::coordinator_faults planted(const std::string &mistake) {
  sim::coordinator_faults faults;
  faults.drops_events = mistake == "drops_events";
  faults.repeats_events = mistake == "repeats_events";
  faults.ignores_conditions = mistake == "ignores_conditions";
  faults.ends_leases_early = mistake == "ends_leases_early";
  faults.ignores_renewals = mistake == "ignores_renewals";
  faults.keeps_keys_of_leases = mistake == "keeps_keys_of_leases";
  faults.loses_wakes = mistake == "loses_wakes";
  return faults;
}

std::vector<coordinator_case> cases = simulated_cases();

INSTANTIATE_TEST_SUITE_P(simulated,
                         coordinator_contract,
                         testing::ValuesIn(cases),
                         [](const auto &tested) { return tested.param.name; });

}  // namespace
}  // namespace tanada::contract

int main(int argc, char **argv) {
  using namespace tanada::contract;
  if (argc >= 3 && std::strcmp(argv[1], "--plant") == 0)
    cases = {simulated_case("planted", 1, planted(argv[2]))};
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
