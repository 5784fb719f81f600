// What operators change in a cluster: servers that are drained or removed, and losses that are
// cleared.
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/membership.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t administration_ns_max = 5'000'000'000;
constexpr uint64_t administration_retry_ns = 50'000'000;
constexpr size_t administration_count_max = 64;

seams::transaction_change removal_of(std::string key) {
  seams::transaction_change change;
  change.type = seams::transaction_change::kind::remove;
  change.key = std::move(key);
  return change;
}

}  // namespace

void membership::set_draining(const std::string &server,
                              bool is_draining,
                              std::function<void(status)> done) {
  seams::transaction_change change = removal_of(drain_prefix() + server);
  if (is_draining)
    change.type = seams::transaction_change::kind::put;
  store_.transact({},
                  {std::move(change)},
                  [done = std::move(done)](result<seams::transaction_outcome> outcome) {
                    done(outcome.error());
                  });
}

void membership::administer(administration request) {
  if (administrations_.size() >= administration_count_max)
    return request.done(status::busy);
  request.deadline_ns = now_ns() + administration_ns_max;
  administrations_.push_back(std::move(request));
}

void membership::finish_administration(status code) {
  TND_ASSERT(!administrations_.empty());
  auto const done = std::move(administrations_.front().done);
  administrations_.pop_front();
  administered_ns_ = 0;
  done(code);
}

// One at a time. A transaction whose outcome is unknown, or that another change of the map has
// overtaken, is made again: it has the same effect twice.
void membership::administer_some() {
  if (administrations_.empty() || is_administering_ || now_ns() < administered_ns_)
    return;
  const administration &request = administrations_.front();
  bool const is_ready = stage_ == stage::watching && map() != nullptr;
  if (!is_ready || now_ns() >= request.deadline_ns) {
    if (now_ns() >= request.deadline_ns)
      finish_administration(status::again);
    return;
  }
  cluster_map candidate = *map();
  candidate.epoch++;
  bool const is_removal = request.type == administration::kind::remove_server;
  if (is_removal && !may_remove(request))
    return finish_administration(status::busy);
  if (is_removal)
    forget_server(candidate, request.server, present_);
  else
    for (partition_record &partition : candidate.partitions)
      partition.was_lost = 0;
  send_administration(candidate);
}

bool membership::may_remove(const administration &request) const {
  return !presences_.contains(presence_prefix() + request.server) &&
         (request.is_forced || count_sole_copies(*map(), request.server, present_) == 0);
}

void membership::send_administration(const cluster_map &candidate) {
  const administration &request = administrations_.front();
  std::vector<seams::transaction_condition> conditions{{map_key(), map_revision_}};
  std::vector<seams::transaction_change> changes;
  if (candidate.partitions != map()->partitions) {
    changes.emplace_back();
    changes.back().key = map_key();
    changes.back().value = encode_map(candidate);
  }
  if (request.type == administration::kind::remove_server) {
    conditions.push_back({presence_prefix() + request.server, 0});
    changes.push_back(removal_of(known_prefix() + request.server));
    changes.push_back(removal_of(drain_prefix() + request.server));
  }
  if (changes.empty())
    return finish_administration(status::ok);
  is_administering_ = true;
  store_.transact(std::move(conditions),
                  std::move(changes),
                  [this](const result<seams::transaction_outcome> &outcome) {
                    is_administering_ = false;
                    administered_ns_ = now_ns() + administration_retry_ns;
                    if (outcome.ok() && outcome.value().is_applied)
                      finish_administration(status::ok);
                  });
}

}  // namespace tanada::poold
