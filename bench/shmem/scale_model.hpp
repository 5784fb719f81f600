// bench/shmem/scale_model.hpp: an event simulation of PEs that exchange messages, with the costs of
// a LogGP model: processor time a message, latency and time a byte. PEs of a host share its
// processors and its network interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace tanada::bench {

// Microseconds, or microseconds a byte.
struct costs {
  double call = 0.05;    // of processor time an operation takes by itself
  double line = 0.1;     // until a store is seen by a PE that polls
  double wake = 2;       // to wake a PE that sleeps
  double resume = 2;     // of a PE that gets a processor again
  double read = 0.1;     // to read what another PE has left, or to store into its memory
  double copy = 0.0002;  // a byte copied in memory
  double send = 1;       // to send a message
  double receive = 1;    // to receive a message
  // Until a PE that waits for the network runs again, for each further PE on its processor: they
  // poll.
  double crowd = 0;
  double latency = 5;     // of the network
  double byte = 0.001;    // on the network interface of a host
  double byte_work = 0;   // of processor time, at either end
  double processors = 2;  // of a host

  bool set(const std::string &name, double value);
};

// Where the PEs are. PEs of a node map one another's memory. Both are assigned in blocks.
struct placement {
  int32_t pes, nodes, hosts;

  int32_t node_of(int32_t pe) const noexcept {
    return int32_t(int64_t{pe} * nodes / pes);
  }
  int32_t host_of(int32_t pe) const noexcept {
    return int32_t(int64_t{pe} * hosts / pes);
  }
  int32_t first_of_node(int32_t node) const noexcept {
    return int32_t((int64_t{node} * pes + nodes - 1) / nodes);
  }
  bool are_mapped(int32_t a, int32_t b) const noexcept {
    return node_of(a) == node_of(b);
  }
  double pes_per_processor(const costs &cost) const noexcept {
    return double(pes) / hosts / cost.processors;
  }
  bool is_oversubscribed(const costs &cost) const noexcept {
    return pes_per_processor(cost) > 1;
  }
};

enum class action_kind : uint8_t {
  work,     // `time` of the processor
  send,     // `bytes` to `peer`, counted by its word
  fetch,    // `bytes` from `peer`, counted by the own word
  await,    // until the own word has been counted `count` times
  stamp,    // the measured time begins or ends
  publish,  // counts the word of all `count` PEs from `peer` on, by one store or one wake each
  meet,     // the last of these `count` PEs publishes, and counts its own word
};

struct action {
  action_kind kind;
  int32_t peer = 0, word = 0, count = 0;
  double bytes = 0, time = 0;
  bool is_remote = false;  // await: for messages of the network
};

using program = std::vector<action>;

// Runs the PEs' programs.
class simulation {
 public:
  simulation(const placement &where, const costs &cost, std::vector<program> programs);

  struct outcome {
    double last_us;       // when the last PE has finished
    double mean_call_us;  // of all intervals between stamps
  };
  outcome run();

 private:
  struct pe_state {
    size_t next = 0;
    bool is_asleep = false, is_waiting = false;
    double stamped = -1;
    double line_free = 0;  // stores to one cache line follow one another
    std::map<int32_t, int32_t> words;
  };
  struct host_state {
    double free_processors = 0;
    std::deque<int32_t> ready;
    double wire_free = 0;
    std::map<std::pair<int32_t, int32_t>, int32_t> met;  // by first PE and word
  };
  enum class event_kind : uint8_t { run, release, arrival };
  struct event {
    double at;
    uint64_t order;
    event_kind kind;
    int32_t pe, word;

    bool operator<(const event &other) const noexcept {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void post(double at, event_kind kind, int32_t pe, int32_t word = 0);
  void advance(int32_t pe, double now);
  double perform(int32_t pe, const action &step, double now);
  double send(int32_t pe, const action &step, double now);
  double publish(int32_t pe, const action &step, double now);
  double meet(int32_t pe, const action &step, double now);
  void arrive(int32_t pe, int32_t word, double now);
  void release(int32_t pe, double now);
  bool consume(int32_t pe, const action &step);

  placement where_;
  costs cost_;
  bool is_oversubscribed_;
  std::vector<program> programs_;
  std::vector<pe_state> pes_;
  std::vector<host_state> hosts_;
  std::priority_queue<event> events_;
  uint64_t order_ = 0;
  double last_ = 0, stamped_sum_ = 0;
  size_t stamped_count_ = 0;
};

}  // namespace tanada::bench
