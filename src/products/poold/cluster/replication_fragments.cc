// The erasure codes of a cluster's namespaces, and what sessions need of its fragments.
#include <utility>

#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/cluster/replication.hpp"

namespace tanada::poold {

void replication::set_fragments(std::map<std::string, wire::pool::erasure_scheme> schemes,
                                fragment_counts counts) {
  lock_guard lock{mutex_};
  schemes_ = std::move(schemes);
  fragment_counts_ = std::move(counts);
}

std::vector<server_presence> replication::servers() const {
  lock_guard lock{mutex_};
  std::vector<server_presence> present;
  for (auto const &[name, server] : servers_)
    present.push_back(server);
  return present;
}

wire::pool::erasure_scheme replication::erasure_of(const std::string &namespace_name) const {
  lock_guard lock{mutex_};
  auto const scheme = schemes_.find(namespace_name);
  return scheme == schemes_.end() ? wire::pool::erasure_scheme{} : scheme->second;
}

status replication::set_erasure(const wire::pool::erasure_setting &setting,
                                std::function<void(status)> done) {
  size_t server_count = 0;
  for (const server_presence &server : servers())
    server_count += server.is_draining == 0;
  if (server_count < setting.scheme.width())
    return fail(status::invalid,
                "an erasure code of {} needs {} servers, and the cluster has {} that run and are "
                "not draining",
                to_string(setting.scheme),
                setting.scheme.width(),
                server_count);
  {
    lock_guard lock{mutex_};
    if (setting.scheme.is_on() && !schemes_.contains(setting.namespace_name) &&
        schemes_.size() >= wire::pool::erasure_setting_count_max)
      return fail(status::invalid,
                  "the cluster has an erasure code for {} namespaces, the maximum",
                  schemes_.size());
  }
  options_.set_erasure(setting, std::move(done));
  return status::ok;
}

std::vector<uint8_t> replication::note_fragments(
    catalog &objects, const wire::pool::fragment_report_request &report) {
  uint64_t const now_ns = options_.clock->now_ns();
  std::vector<uint8_t> is_kept;
  for (const wire::pool::fragment_entry &entry : report.entries) {
    striped_key const key{report.namespace_name, entry.id};
    bool const is_known = entry.index < wire::pool::fragment_count_max && has_striped(objects, key);
    bool const stays =
        is_known && fragments_.add_report({key, entry.index, {report.server, report.run}}, now_ns);
    is_kept.push_back(stays ? 1 : 0);
  }
  return is_kept;
}

wire::pool::fragment_places_reply replication::fragment_places(const striped_key &key) const {
  return fragments_.places_of(key, options_.clock->now_ns());
}

status replication::build_fragment(const wire::pool::fragment_build_request &request,
                                   std::function<void(status)> done) {
  return options_.build && options_.build(request, std::move(done))
             ? status::ok
             : fail(status::busy, "this server builds as many fragments as it can");
}

}  // namespace tanada::poold
