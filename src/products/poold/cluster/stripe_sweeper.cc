// The search for stripes without an object, and their removal.
#include "products/poold/cluster/stripe_sweeper.hpp"

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {

using namespace wire::pool;

stripe_sweeper::stripe_sweeper(options settings,
                               peer_channels &channels,
                               replication &changes,
                               catalog &objects)
    : options_{std::move(settings)}, channels_{channels}, changes_{changes}, objects_{objects} {
  TND_ASSERT(options_.page_size > 0);
  search_ns_ = options_.clock->now_ns() + options_.period_ns;
}

bool stripe_sweeper::progress() {
  send_hints();
  if (options_.clock->now_ns() >= search_ns_) {
    search_ns_ = options_.clock->now_ns() + options_.period_ns;
    search();
  }
  std::map<std::string, std::vector<striped_id>> suspects;
  for (const striped_key &key : objects_.striped()->take_suspects())
    if (!outstanding_.contains(key) && has_served_stripes(key))
      suspects[key.first].push_back(key.second);
  for (auto &[namespace_name, ids] : suspects)
    for (size_t i = 0; i < ids.size(); i += stripe_id_count_max)
      ask(namespace_name,
          {ids.begin() + long(i),
           ids.begin() + long(std::min(i + stripe_id_count_max, ids.size()))});
  return !outstanding_.empty();
}

// What this server has dropped may have stripes at any server.
void stripe_sweeper::send_hints() {
  std::map<std::string, std::vector<striped_id>> dropped;
  for (const striped_key &key : objects_.striped()->take_dropped()) {
    bool const is_served = changes_.check_serving(partition_of(key.first)) == status::ok;
    auto &ids = dropped[key.first];
    if (!is_served || ids.size() >= stripe_id_count_max)
      continue;  // the search finds it
    ids.push_back(key.second);
    objects_.striped()->add_suspect(key);
  }
  for (auto const &[namespace_name, ids] : dropped) {
    if (ids.empty())
      continue;
    for (const server_address &member : changes_.locate(namespace_name).members) {
      pool::channel *const channel =
          member.text == options_.address ? nullptr : channels_.channel_to(member.text);
      if (channel == nullptr)
        continue;
      channel->post(kind::stripe_hint,
                    stripe_ids_request{namespace_name, ids},
                    {},
                    {},
                    [](const pool::reply &) {});
      (void)channel->progress(0);
    }
  }
}

// Suspect every object that has stripes here.
void stripe_sweeper::search() {
  catalog::object_place position;
  auto const is_served_space = [this](const std::string &name) {
    return stripe_space_parse(name) && changes_.check_serving(partition_of(name)) == status::ok;
  };
  for (bool more = true; more;) {
    size_t count = 0;
    more = objects_.visit_objects(is_served_space,
                                  position,
                                  options_.page_size,
                                  [&](const catalog::object_place &place, const object_ref &) {
                                    position = place;
                                    count++;
                                    auto const space = stripe_space_parse(place.namespace_name);
                                    auto const id = stripe_name_parse(place.name);
                                    if (space && id)
                                      objects_.striped()->add_suspect({space->namespace_name, *id});
                                    return true;
                                  });
    more = more && count > 0;
  }
}

bool stripe_sweeper::has_served_stripes(const striped_key &key) {
  auto const places = objects_.find_stripes(key);
  return std::any_of(places.begin(), places.end(), [this](const catalog::object_place &place) {
    return changes_.check_serving(partition_of(place.namespace_name)) == status::ok;
  });
}

void stripe_sweeper::ask(const std::string &namespace_name, std::vector<striped_id> ids) {
  auto const location = changes_.locate(namespace_name);
  if (location.servers.empty())
    return;
  pool::channel *const channel = channels_.channel_to(location.servers.front().text);
  if (channel == nullptr)
    return;  // the next search asks again
  for (const striped_id &id : ids)
    outstanding_.insert({namespace_name, id});
  stripe_ids_request const request{namespace_name, std::move(ids)};
  channel->post(kind::stripe_check, request, {}, {}, [this, request](const pool::reply &received) {
    finish_ask(request, received);
  });
  (void)channel->progress(0);
}

void stripe_sweeper::finish_ask(const stripe_ids_request &request, const pool::reply &received) {
  for (const striped_id &id : request.ids)
    outstanding_.erase({request.namespace_name, id});
  stripe_check_reply answer;
  bool const is_good = received.code == status::ok &&
                       wire::decode(received.body, answer) == status::ok &&
                       answer.is_known.size() == request.ids.size();
  if (!is_good)
    return;
  for (size_t i = 0; i < request.ids.size(); i++)
    if (answer.is_known[i] == 0)
      remove_stripes({request.namespace_name, request.ids[i]});
}

void stripe_sweeper::remove_stripes(const striped_key &key) {
  for (const catalog::object_place &place : objects_.find_stripes(key)) {
    if (changes_.check_serving(partition_of(place.namespace_name)) != status::ok)
      continue;
    uint64_t const namespace_id = objects_.hold_namespace(place.namespace_name);
    (void)objects_.remove(namespace_id, place.name, {});
    objects_.close_namespace(namespace_id, true, 0);
  }
}

}  // namespace tanada::poold
