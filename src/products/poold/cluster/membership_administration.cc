// What operators change in a cluster: servers that are drained or removed, and losses that are
// cleared.
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/membership.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t administration_ns_max = 5'000'000'000;
constexpr uint64_t administration_retry_ns = 50'000'000;
constexpr size_t administration_count_max = 64;
constexpr uint64_t count_period_ns = 500'000'000;  // at least between two reports of fragments

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

void membership::set_erasure(const std::string &namespace_name,
                             const wire::pool::erasure_scheme &scheme,
                             std::function<void(status)> done) {
  seams::transaction_change change = removal_of(erasure_prefix() + namespace_name);
  if (scheme.is_on()) {
    change.type = seams::transaction_change::kind::put;
    change.value = to_string(scheme);
  }
  store_.transact({},
                  {std::move(change)},
                  [done = std::move(done)](result<seams::transaction_outcome> outcome) {
                    done(outcome.error());
                  });
}

namespace {

// "4+2" or "5 7"; empty: it is something else.
std::optional<std::pair<uint32_t, uint32_t>> parse_pair(const std::string &text, char separator) {
  uint32_t first = 0, second = 0;
  const char *const end = text.data() + text.size();
  auto const begin = std::from_chars(text.data(), end, first);
  if (begin.ec != std::errc{} || begin.ptr == end || *begin.ptr != separator)
    return std::nullopt;
  auto const rest = std::from_chars(begin.ptr + 1, end, second);
  if (rest.ec != std::errc{} || rest.ptr != end)
    return std::nullopt;
  return std::pair{first, second};
}

}  // namespace

// False: the entry is no setting, and no count.
bool membership::apply_setting(const seams::coordinated_entry &entry) {
  bool const is_scheme = entry.key.starts_with(erasure_prefix());
  if (!is_scheme && !entry.key.starts_with(count_prefix()))
    return false;
  auto const numbers = parse_pair(entry.value, is_scheme ? '+' : ' ');
  if (!is_scheme && numbers)
    fragment_counts_[entry.key.substr(count_prefix().size())] = {numbers->first, numbers->second};
  if (!is_scheme)
    return true;
  constexpr uint32_t count_max = 255;
  std::string const namespace_name = entry.key.substr(erasure_prefix().size());
  bool const is_small = numbers && numbers->first <= count_max && numbers->second <= count_max;
  wire::pool::erasure_scheme scheme;
  if (is_small)
    scheme = {uint8_t(numbers->first), uint8_t(numbers->second)};
  if (scheme.is_on() && is_valid(scheme))
    schemes_[namespace_name] = scheme;
  else
    log(log_level::error,
        "pool: the erasure code of namespace {} in etcd is not valid: it is ignored",
        namespace_name);
  return true;
}

void membership::remove_setting(const std::string &key) {
  if (key.starts_with(erasure_prefix()))
    schemes_.erase(key.substr(erasure_prefix().size()));
  if (key.starts_with(count_prefix()))
    fragment_counts_.erase(key.substr(count_prefix().size()));
}

// The counts have no lease: those of a server that does not run are not used.
void membership::report_fragments() {
  auto const known = fragment_counts_.find(self().server);
  bool const is_current = known == fragment_counts_.end() ? fragment_count_ == fragment_count{}
                                                          : known->second == fragment_count_;
  bool const is_due =
      stage_ == stage::watching && !is_reporting_ && now_ns() >= reported_ns_ + count_period_ns;
  if (is_current || !is_due)
    return;
  is_reporting_ = true;
  reported_ns_ = now_ns();
  seams::transaction_change change;
  change.key = count_prefix() + self().server;
  change.value =
      std::to_string(fragment_count_.held) + " " + std::to_string(fragment_count_.missing);
  store_.transact({}, {std::move(change)}, [this](const result<seams::transaction_outcome> &) {
    is_reporting_ = false;
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
    changes.push_back(removal_of(count_prefix() + request.server));
    changes.push_back(removal_of(version_prefix() + request.server));
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
