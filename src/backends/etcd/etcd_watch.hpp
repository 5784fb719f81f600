// backends/etcd/etcd_watch.hpp: the watch of an etcd_coordinator.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "backends/etcd/etcd_members.hpp"

namespace tanada::backends {

/**
 * Two threads: one receives the answers of the watch, the other checks that they can arrive.
 *
 * A connection that is open proves nothing: etcd may hang, or its member may have lost the others,
 * and a watch is then silent like one without changes. The second thread therefore reads through
 * the same member. A linearizable read fails without a quorum, and finds changes that the watch
 * should have reported. A peer that vanished is found by TCP's keep-alive.
 *
 * **Thread safety** start() and the destructor by one thread at a time.
 */
class etcd_watch {
 public:
  using events = std::vector<seams::watch_event>;
  // Called by a thread of the watch. An error is the last call for its number. False: the watch
  // ends without another call.
  using receiver = std::function<bool(uint64_t number, result<events>)>;

  etcd_watch(etcd_members &members, uint64_t timeout_ns, receiver receive);
  ~etcd_watch();

  // Ends the current watch and begins another one.
  void start(uint64_t number, const std::string &prefix, uint64_t after_revision);

 private:
  struct target {
    uint64_t number = 0;  // 0: none
    std::string prefix{};
    uint64_t after_revision = 0;
  };
  // Of the check of one watch.
  struct probe_state {
    uint64_t number = 0;
    uint64_t last_success_ns = 0, lag_begin_ns = 0;
    uint64_t lag_revision = 0;  // 0: none
  };

  void run_watch();
  void run_probe();
  void follow(const target &wanted);
  etcd_attempt follow_member(size_t member, const target &wanted);
  status handle_line(etcd_stream &stream, const target &wanted, std::string_view line);
  status report_events(const target &wanted, events list);
  bool is_current(uint64_t number);
  void end_as_silent(uint64_t number);
  void probe(probe_state &state, size_t member, const target &wanted);

  etcd_members &members_;
  uint64_t const timeout_ns_;
  receiver const receive_;
  etcd_interrupt watch_interrupt_, probe_interrupt_;

  mutex mutex_;
  condition_variable changed_;
  target target_ TND_GUARDED_BY(mutex_);
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  bool is_created_ TND_GUARDED_BY(mutex_) = false;  // the member has accepted the current watch
  bool is_silent_ TND_GUARDED_BY(mutex_) = false;   // the probe has ended the current watch
  size_t member_ TND_GUARDED_BY(mutex_) = 0;        // of the current watch
  uint64_t reported_revision_ TND_GUARDED_BY(mutex_) = 0;

  std::thread watch_thread_, probe_thread_;
};

}  // namespace tanada::backends
