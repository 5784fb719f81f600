// What a server does while its log does not work.
//
// A change that the log could not write is not settled, and is written again. So a short failure
// is not noticed. After a while the server gives up: as a backup it refuses the change, and as a
// primary it lets another server take over. Only if it has the only copy, it serves on, and durable
// commits return the error.
#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/replication.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t patience_ns = 1'000'000'000;

// What other servers know the failure as.
status refusal_of(status cause) {
  return cause == status::no_space ? status::no_space : status::io;
}

}  // namespace

status replication::check_log() const {
  if (options_.local == nullptr)
    return status::ok;
  auto const condition = options_.local->condition();
  if (condition.is_whole)
    return status::ok;
  set_last_message("the server's log does not work");
  return refusal_of(condition.cause);
}

// The outcome of changes of another server, whose primary waits for the disk.
void replication::finish_replica(const journal_callback &done, status code) {
  if (code == status::ok)
    return done(code);
  lock_guard lock{mutex_};
  held_.push_back({done, refusal_of(code)});
}

void replication::follow_log(callbacks &due) {
  TND_ASSERT(mutex_.is_held());
  if (options_.local == nullptr)
    return;
  uint64_t const now_ns = options_.clock->now_ns();
  bool const was_whole = std::exchange(is_whole_, options_.local->condition().is_whole);
  if (is_whole_ || was_whole)
    failed_ns_ = now_ns;
  bool const was_ailing =
      std::exchange(is_ailing_, !is_whole_ && now_ns - failed_ns_ >= patience_ns);
  if (is_whole_ || is_ailing_)
    for (held_reply &reply : std::exchange(held_, {}))
      due.push_back([reply = std::move(reply), is_whole = is_whole_] {
        reply.done(is_whole ? status::ok : reply.code);
      });
  bool const has_news = was_whole != is_whole_ || was_ailing != is_ailing_;
  if (!has_news && !has_failed_)
    return;
  has_failed_ = false;
  for (uint32_t i = 0; i < partition_count; i++)
    if (partitions_[i].is_primary)
      release_failed(i, due);
  if (has_news)
    has_edits_.store(true);
}

// The log has the changes now that it had failed to write, or the only copy goes on without.
void replication::release_failed(uint32_t partition, callbacks &due) {
  TND_ASSERT(mutex_.is_held());
  partition_state &state = partitions_[partition];
  const partition_record &record = map_.load()->partitions[partition];
  bool const is_sole = record.replicas.size() == 1;
  for (const std::shared_ptr<group> &waiting : state.pending) {
    if (!waiting->has_failed)
      continue;
    waiting->has_failed = !is_whole_ && !(is_ailing_ && is_sole);
    waiting->is_on_disk = !waiting->has_failed;
    waiting->code = is_whole_ ? status::ok : waiting->code;
    has_failed_ |= waiting->has_failed;
  }
  update_links(state, record);
  settle(state, due);
}

// A primary whose log lacks something serves only if no other server has it.
bool replication::may_open(const partition_record &record) const {
  TND_ASSERT(mutex_.is_held());
  return is_whole_ || record.replicas.size() == 1;
}

// Whether another replica is the better primary: this server's log does not work, or the other one
// has objects whose bytes are damaged here. Its own damaged objects were sent to it.
bool replication::should_yield_to(const partition_state &state, const replica &run) const {
  TND_ASSERT(mutex_.is_held());
  auto const link = state.links.find(run.server);
  return link != state.links.end() && link->second.stage == link_stage::synced &&
         !link->second.has_refused && (is_ailing_ || state.is_yielding || link->second.is_intact);
}

// Gives the partition to another replica, which has all that is settled, and gives up this one,
// which is then brought up to date. What is not settled ends without a known outcome, as if the
// server were lost.
bool replication::yield_primary(cluster_map &candidate, uint32_t partition) {
  TND_ASSERT(mutex_.is_held());
  partition_state &state = partitions_[partition];
  std::vector<replica> const replicas = candidate.partitions[partition].replicas;
  auto const next = std::find_if(replicas.begin() + 1, replicas.end(), [&](const replica &run) {
    return should_yield_to(state, run);
  });
  if (next == replicas.end() || !hand_over(candidate, partition, options_.self, *next))
    return false;
  (void)remove_replica(candidate, partition, options_.self);
  state.is_closing = true;
  state.is_yielding = true;
  state.is_open.store(false, std::memory_order_release);
  return true;
}

void replication::report_damaged(const replica &peer, const assignment &target, bool is_intact) {
  lock_guard lock{mutex_};
  partition_state &state = partitions_[target.partition];
  auto const link = state.links.find(peer.server);
  if (!state.is_primary || state.term != target.term || link == state.links.end())
    return;
  link->second.is_intact |= is_intact;
  link->second.is_lacking |= !is_intact;
}

// A server that lacks damaged objects joins only once no other one has them. It would remove them
// there if it became primary.
bool replication::may_complete_join(const partition_state &state, const link_state &joining) const {
  TND_ASSERT(mutex_.is_held());
  return !joining.is_lacking ||
         std::all_of(state.links.begin(), state.links.end(), [](auto const &link) {
           return link.second.stage == link_stage::synced && !link.second.is_intact;
         });
}

bool replication::may_be_repaired(uint32_t partition) const {
  auto const map = map_.load();
  if (map == nullptr)
    return false;
  const partition_record &record = map->partitions[partition];
  bool const is_complete = record.replicas.size() >= map->copies && record.joining.empty();
  lock_guard lock{mutex_};
  auto const &links = partitions_[partition].links;
  return record.replicas.front() != options_.self || !is_complete ||
         std::any_of(
             links.begin(), links.end(), [](auto const &link) { return link.second.is_intact; });
}

}  // namespace tanada::poold
