// tests/e2e/pool/load_record.hpp: what the clients of a real cluster did and saw, and whether that
// is right: the history of all names, their versions, the statuses of calls, and how long clients
// were without service.
#pragma once

#include <tanada/status.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/mutex.hpp"
#include "sim/history.hpp"

namespace tanada::test {

// A call of a client. Names begin with the namespace.
struct load_call {
  operation_kind kind = operation_kind::get;
  std::vector<std::string> names;
  std::vector<value_id> values;  // of puts and commits
  // It has a handle, or several calls as an object of stripes has, so -ESTALE is one of its
  // statuses.
  bool has_handle = false;
};

struct load_outcome {
  tnd_status code = TND_OK;
  std::vector<name_observation> observed = {};  // get, list
  uint64_t version = 0;                         // that a change assigned or a read saw; 0: unknown
};

// What clients met since the last mark().
struct load_summary {
  uint64_t change_count = 0, read_count = 0;         // with an answer
  uint64_t change_gap_ns = 0, read_gap_ns = 0;       // the longest time that a client had no answer
  std::map<std::string, uint64_t> failure_counts;    // by call and status
  std::map<std::string, std::string> last_messages;  // the same
};

/**
 * Records the calls of all clients. Clients below `writer_count` change objects, others only read.
 *
 * **Thread safety** All calls, by any thread.
 */
class load_record {
 public:
  load_record(uint32_t writer_count, uint32_t reader_count);

  struct token {
    history::operation_id id = 0;
    uint64_t begin_ns = 0;
    uint64_t version_min = 0;  // that the call may see
  };
  token begin(uint32_t client, const load_call &call);
  void end(uint32_t client, const token &begun, const load_call &call, load_outcome outcome);

  // Statuses that changes may also return from now on, such as -ENOSPC while a disk is full.
  void allow(std::set<tnd_status> codes);

  // An object's size is that of its value.
  value_id next_value(bool is_large) {
    return (next_value_.fetch_add(1) << 1) | (is_large ? 1 : 0);
  }
  // The value whose contents these bytes are, whole; otherwise a problem, and value_unknown.
  static constexpr value_id value_unknown = ~value_id{0} - 1;
  value_id value_of(const std::string &name, const char *bytes, uint64_t size);

  void report_problem(const std::string &text);
  std::vector<std::string> take_problems();

  void mark();
  load_summary summary() const;

  // Checks the history. No call is under way. It goes on with the values that the last reads of all
  // names saw.
  std::string check_history(const std::vector<name_observation> &present);
  uint64_t operation_count() const;
  // Objects whose put or commit returned TND_OK since the last call.
  uint64_t take_acknowledged_count();

 private:
  struct service {
    uint64_t answered_ns = 0, gap_ns = 0;
  };
  void note_answer(uint32_t client, uint64_t time_ns) TND_REQUIRES(mutex_);
  void note_version(const load_call &call, const token &begun, const load_outcome &outcome)
      TND_REQUIRES(mutex_);
  void check_status(const load_call &call, tnd_status code) TND_REQUIRES(mutex_);
  void end_history(const token &begun,
                   const load_call &call,
                   const load_outcome &outcome,
                   uint64_t time_ns) TND_REQUIRES(mutex_);
  void add_problem(const std::string &text) TND_REQUIRES(mutex_);

  uint32_t const writer_count_;
  std::atomic<uint64_t> next_value_{1};
  mutable mutex mutex_;
  history history_ TND_GUARDED_BY(mutex_);
  std::vector<service> clients_ TND_GUARDED_BY(mutex_);
  load_summary summary_ TND_GUARDED_BY(mutex_);
  uint64_t acknowledged_count_ TND_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> versions_ TND_GUARDED_BY(mutex_);  // the highest one, by name
  std::set<tnd_status> allowed_ TND_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ TND_GUARDED_BY(mutex_);
};

// The bytes of a value.
std::vector<char> load_contents(value_id value);

// Names of one namespace. Objects are renamed only among `moved`, committed together only in `set`.
struct load_names {
  static constexpr int plain_count = 6, moved_count = 2, set_count = 3, large_count = 2;
  static std::vector<std::string> all();
  // Whether objects keep their names, so that a name's versions only grow.
  static bool is_fixed(const std::string &name) {
    return name.find("/moved") == std::string::npos;
  }
};

}  // namespace tanada::test
