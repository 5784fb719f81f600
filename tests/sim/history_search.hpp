// tests/sim/history_search.hpp: the search for an order of operations on one group of names.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "history.hpp"

namespace tanada::test {

// A value that no operation identified: all of these are one, since nothing distinguishes them.
constexpr value_id value_unobserved = ~value_id{0};

// The values of a group's names.
using name_state = std::vector<value_id>;

struct condition {
  uint32_t name = 0;
  observation expected;

  auto operator<=>(const condition &) const = default;
};

struct assignment {
  uint32_t name = 0;
  value_id value = value_absent;
  std::optional<uint32_t> source;  // the name whose value before the step is assigned

  auto operator<=>(const assignment &) const = default;
};

// What an operation means for a group: conditions on the state, then changes of it. A step without
// assignments is an observer.
struct search_step {
  std::vector<condition> conditions;
  std::vector<assignment> assignments;
  bool needs_one_condition = false;  // one condition suffices
  uint64_t begin = 0;
  uint64_t end = 0;  // 0: the step is optional, at any moment after `begin`
  size_t operation = 0;
};

struct search_result {
  enum class verdict : uint8_t { accepted, rejected, undecided };
  verdict outcome = verdict::accepted;
  // rejected: a step whose response has no explanation, given what is observed later. undecided:
  // the last step that was reached.
  size_t step = 0;
  uint64_t step_end = 0;  // the position of this event
  // accepted: the states after the last response. Steps that are outstanding then need not have
  // taken effect.
  std::vector<name_state> states;
  bool has_all_states = false;  // otherwise there may be others
  uint64_t configuration_count = 0;
  size_t alternative_count = 0;  // not accepted: configurations before the step
  size_t optional_count = 0;     // not accepted: optional steps then
};

struct search_options {
  uint64_t configuration_count_max = 0;  // the search visits at most so many
  // States contain values that no operation identified as they were put. This takes longer.
  bool has_all_values = false;
};

search_result search(std::vector<search_step> steps,
                     name_state initial,
                     const search_options &options);

}  // namespace tanada::test
