// The reports of a server's fragments.
#include "products/poold/cluster/fragment_reporter.hpp"

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/pool/checksum.hpp"

namespace tanada::poold {

using namespace wire::pool;

fragment_reporter::fragment_reporter(options settings,
                                     peer_channels &channels,
                                     replication &changes,
                                     catalog &objects)
    : options_{std::move(settings)}, channels_{channels}, changes_{changes}, objects_{objects} {
  TND_ASSERT(options_.page_size > 0);
}

bool fragment_reporter::progress() {
  uint64_t const now_ns = options_.clock->now_ns();
  if (now_ns >= search_ns_ && outstanding_count_ == 0) {
    search_ns_ = now_ns + options_.period_ns;
    check_some();
    search();
  }
  return outstanding_count_ > 0;
}

void fragment_reporter::search() {
  std::map<std::string, std::vector<fragment_entry>> reports;  // by namespace
  std::vector<catalog::object_place> damaged;
  catalog::object_place position;
  uint32_t held_count = 0;
  auto const visit = [&](const catalog::object_place &place, const object_ref &object) {
    position = place;
    auto owner = hidden_space_owner(place.namespace_name);
    auto const id = stripe_name_parse(place.name);
    auto const index = stripe_index_parse(place.name);
    bool const is_fragment = owner && id && index && *index < fragment_count_max;
    if (object->is_damaged || !is_fragment) {
      damaged.push_back(place);
      return true;
    }
    held_count++;
    reports[*owner].push_back({*id, uint32_t(*index)});
    return true;
  };
  for (bool more = true; more;)
    more = objects_.visit_objects(is_fragment_space, position, options_.page_size, visit);
  held_count_.store(held_count, std::memory_order_relaxed);
  for (const catalog::object_place &place : damaged)
    remove(place);
  for (auto const &[namespace_name, entries] : reports)
    for (size_t i = 0; i < entries.size(); i += stripe_id_count_max)
      send(namespace_name,
           {entries.begin() + long(i),
            entries.begin() + long(std::min(i + stripe_id_count_max, entries.size()))});
}

void fragment_reporter::send(const std::string &namespace_name,
                             std::vector<fragment_entry> entries) {
  auto const location = changes_.locate(namespace_name);
  pool::channel *const channel =
      location.servers.empty() ? nullptr : channels_.channel_to(location.servers.front().text);
  if (channel == nullptr)
    return;  // the next report comes in a period
  fragment_report_request const request{
      namespace_name, changes_.self().server, changes_.self().run, std::move(entries)};
  outstanding_count_++;
  channel->post(
      kind::fragment_report, request, {}, {}, [this, request](const pool::reply &received) {
        outstanding_count_--;
        finish_report(request, received);
      });
  (void)channel->progress(0);
}

void fragment_reporter::finish_report(const fragment_report_request &request,
                                      const pool::reply &received) {
  stripe_check_reply answer;
  bool const is_good = received.code == status::ok &&
                       wire::decode(received.body, answer) == status::ok &&
                       answer.is_known.size() == request.entries.size();
  if (!is_good)
    return;
  for (size_t i = 0; i < request.entries.size(); i++)
    if (answer.is_known[i] == 0)
      remove({fragment_space_name(request.namespace_name),
              stripe_name(request.entries[i].id, request.entries[i].index)});
}

void fragment_reporter::remove(const catalog::object_place &place) {
  uint64_t const namespace_id = objects_.hold_namespace(place.namespace_name);
  (void)objects_.remove(namespace_id, place.name, {});
  objects_.close_namespace(namespace_id, true, 0);
}

namespace {

bool has_its_sum(const object &target) {
  std::vector<iovec> parts;
  target.append_parts(0, target.metadata.size, parts);
  pool::checksum sum{pool::checksum_kind::xxh3};
  for (const iovec &part : parts)
    sum.add(part.iov_base, part.iov_len);
  return target.metadata.checksum_kind == uint32_t(pool::checksum_kind::xxh3) &&
         sum.value() == target.metadata.checksum;
}

}  // namespace

// Goes through all fragments in many periods, and then begins again. The bytes are compared without
// the catalog's mutex.
void fragment_reporter::check_some() {
  std::vector<std::pair<catalog::object_place, object_ref>> targets;
  uint64_t size = 0;
  bool const more =
      objects_.visit_objects(is_fragment_space,
                             checked_,
                             options_.page_size,
                             [&](const catalog::object_place &place, const object_ref &object) {
                               targets.emplace_back(place, object);
                               size += object->metadata.size;
                               return size < options_.check_size;
                             });
  checked_ = more && !targets.empty() ? targets.back().first : catalog::object_place{};
  for (auto const &[place, object] : targets) {
    // Bytes on flash are compared when they are read, and when the server starts.
    bool const is_in_memory = !object->is_cold() && !object->is_damaged && object->check_intact();
    if (!is_in_memory || has_its_sum(*object))
      continue;
    log(log_level::error,
        "pool: fragment {} of namespace {} has changed in the memory of this server: it is "
        "removed, and rebuilt from others",
        place.name,
        place.namespace_name);
    remove(place);
  }
}

}  // namespace tanada::poold
