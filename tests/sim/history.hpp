// tests/sim/history.hpp: records what the clients of a cluster did to named registers, and checks
// that some order of these operations explains all that they observed.
//
// A history is linearizable if every operation took effect at one moment between its invocation and
// its response. An operation without a known outcome took effect at some moment after its
// invocation, or never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tanada::test {

// The identity of a value that was put: neither 0 nor ~0. Values should be unique in a history.
// The check never rejects a right history because of a repeated value, but it may miss mistakes.
using value_id = uint64_t;
constexpr value_id value_absent = 0;  // the name does not exist

// What an operation observed of one name.
struct observation {
  enum class kind : uint8_t { absent, present, value };
  kind type = kind::absent;
  value_id id = value_absent;  // of type `value`

  static constexpr observation absent() {
    return {};
  }
  // Some value, which the operation did not identify.
  static constexpr observation present() {
    return {kind::present, value_absent};
  }
  static constexpr observation value(value_id id) {
    return {kind::value, id};
  }
  auto operator<=>(const observation &) const = default;
};
using name_observation = std::pair<std::string, observation>;
using name_value = std::pair<std::string, value_id>;

// An exclusive operation requires that its target names are absent.
enum class operation_kind : uint8_t {
  put,
  put_exclusive,
  remove,
  get,
  rename,
  rename_exclusive,
  commit,
  commit_exclusive,
  list,
};
enum class operation_status : uint8_t { unknown, ok, failed };
// What a definite failure observed. `exists`: a target name is present; of several names, at least
// one. `not_found`: the name that is removed or renamed is absent. `unspecified`: nothing, as when
// there is no space.
enum class failure_cause : uint8_t { exists, not_found, unspecified };

struct operation {
  operation_kind kind = operation_kind::get;
  operation_status status = operation_status::unknown;
  failure_cause cause = failure_cause::unspecified;
  uint32_t client = 0;
  // put, commit: the values. get, list: what was observed. rename: the old name and the new name.
  std::vector<name_observation> names;
  uint64_t begin_time = 0;
  uint64_t end_time = 0;
  // The order of events in the history, from 1. 0 as an end: there is no response.
  uint64_t begin_position = 0;
  uint64_t end_position = 0;
};

// The operations of all clients. Calls are made in the order of events, which also orders events of
// the same time. An operation that is never ended has an unknown outcome.
class history {
 public:
  using operation_id = size_t;
  // Where and when an operation is invoked. The unit of time is the caller's.
  struct invocation {
    uint32_t client;
    uint64_t time;
  };

  // `name` has this value before the first operation. Names are absent otherwise.
  void preset(std::string name, value_id value);

  operation_id put(invocation start, std::string name, value_id value);
  operation_id put_exclusive(invocation start, std::string name, value_id value);
  operation_id remove(invocation start, std::string name);
  operation_id get(invocation start, std::string name);
  // Moves the value of `old_name` to `new_name`, and replaces a value there.
  operation_id rename(invocation start, std::string old_name, std::string new_name);
  operation_id rename_exclusive(invocation start, std::string old_name, std::string new_name);
  // All names get their values at one moment, or none does.
  operation_id commit(invocation start, const std::vector<name_value> &values);
  operation_id commit_exclusive(invocation start, const std::vector<name_value> &values);
  // Looks at several names. `names`: those that the list would have contained if they exist.
  operation_id list(invocation start, const std::vector<std::string> &names);

  // The response of an operation that changes names: it took effect.
  void end_ok(operation_id id, uint64_t time);
  void end_get(operation_id id, uint64_t time, observation observed);
  // Names of the list's invocation that `observed` omits are observed as absent.
  void end_list(operation_id id, uint64_t time, const std::vector<name_observation> &observed);
  // It had no effect, and will have none.
  void end_failed(operation_id id, uint64_t time, failure_cause cause);
  // The client does not wait any longer: the connection was lost or the operation timed out.
  void end_unknown(operation_id id, uint64_t time);

  const std::vector<operation> &operations() const {
    return operations_;
  }
  const std::vector<name_value> &presets() const {
    return presets_;
  }

 private:
  operation_id begin(invocation start, operation_kind kind, std::vector<name_observation> names);
  operation &end(operation_id id, uint64_t time, operation_status status);

  std::vector<operation> operations_;
  std::vector<bool> has_ended_;
  std::vector<name_value> presets_;
  uint64_t event_count_ = 0;
  uint64_t time_ = 0;
};

// One line: its number, client, times, names and outcome.
std::string describe(const history &source, history::operation_id id);

struct check_options {
  // A list observes all its names at one moment. Otherwise each name at its own.
  bool has_atomic_lists = false;
  // A successful remove does not require that the name existed.
  bool has_idempotent_remove = false;
  // Bounds the work for one group of names. The search visits some 1,500,000 in a second.
  uint64_t configuration_count_max = 6'000'000;
  // Checks that may be made to find a small part of a history that fails. Together they visit as
  // many configurations as above.
  uint32_t reduction_count_max = 400;
};

// Empty: the history is linearizable. Otherwise the first response that nothing explains, with the
// operations that exclude it; or `undecided`, with numbers, where a bound was reached or more than
// 64 operations on one group are outstanding. Names that operations on several names connect are
// checked together, all others one by one.
std::string check(const history &checked, const check_options &options = {});

}  // namespace tanada::test
