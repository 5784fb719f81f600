// The clock contract on the machine's clock and on a simulated one.
#include "contract/clock_contract.hpp"

#include "sim/clock.hpp"

namespace tanada::contract {
namespace {

struct monotonic_subject {
  seams::clock &clock() {
    return seams::monotonic_clock();
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(monotonic, clock_contract, monotonic_subject);

struct simulated_subject {
  seams::clock &clock() {
    return clock_;
  }
  sim::world world_{1};
  sim::clock clock_{world_};
};
INSTANTIATE_TYPED_TEST_SUITE_P(simulated, clock_contract, simulated_subject);

}  // namespace
}  // namespace tanada::contract
