// PEs of other nodes: an endpoint that answers for this one's memory, and lanes that start
// operations on theirs.
#include <algorithm>
#include <cstring>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "onesided/job/job_inside.hpp"
#include "seams/fabric/fabric_plugin.hpp"
#include "seams/stream/interfaces.hpp"

namespace tanada::pgas {
namespace {

// Best first, when nobody chose.
constexpr const char *providers[] = {"o2g", "tcp;ofi_rxm"};

// What libfabric takes for a node: a host or an address. The name of an interface becomes its first
// address.
std::string node_of(const std::string &interface) {
  if (interface.empty())
    return interface;
  auto const found = port::interface_addresses(interface.c_str(), true);
  if (found.empty())
    return interface;
  auto text = port::to_text(found.front().address);  // "10.0.0.1:0", "[::1]:0"
  text.erase(text.rfind(':'));
  return text.front() == '[' ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

result<std::unique_ptr<port::fabric_endpoint>> job::open_endpoint(bool needs_cuda) {
  auto &provider = inside_->provider;
  auto const open = [&](const std::string &which) {
    return port::fabric_open(
        {.provider = which, .node = node_of(options_.interface), .cuda = needs_cuda});
  };
  if (!provider.empty())
    return open(provider);
  if (!options_.fabric.empty()) {
    auto made = open(options_.fabric);
    if (made.ok())
      provider = options_.fabric;
    return made;
  }
  result<std::unique_ptr<port::fabric_endpoint>> made{status::no_plugin};
  for (const char *const each : providers) {
    made = open(each);
    if (!made.ok())
      continue;
    provider = each;
    break;
  }
  return made;
}

status job::register_segments(port::fabric_endpoint &endpoint, pe_contact &contact) const {
  for (size_t i = 0; i < map_.segment_count(); i++) {
    auto const &each = map_.at(i);
    bool const is_heap = i == 0;
    if (each.size == 0 || each.kind == memory_kind::device || (is_heap && !options_.offers_heap))
      continue;
    size_t const kept =
        each.is_own ? control_.size() - std::min(control_.size(), options_.control_offered_size)
                    : 0;
    auto region = endpoint.region_register({.addr = each.base, .size = each.size - kept},
                                           {.remote_read = true, .remote_write = true});
    if (!region.ok())
      return region.error();
    contact.segments[i] = region.value().remote;
  }
  return status::ok;
}

status job::start_fabric() {
  auto opened = open_endpoint();
  if (!opened.ok())
    return opened.error();
  if (!opened.value()->properties().has_atomics) {
    return fail(status::not_supported, "fabric %s has no atomic operations",
                inside_->provider.c_str());
  }
  auto endpoint = std::move(opened).value();
  pe_contact mine;
  TND_TRY(register_segments(*endpoint, mine));
  std::strncpy(mine.provider.data(), inside_->provider.c_str(), mine.provider.size() - 1);
  mine.address_size = endpoint->address().size;
  mine.address = endpoint->address().bytes;
  // A fabric that does not progress alone is looked after from now on: others may be ahead.
  bool const is_alone = endpoint->properties().progresses_alone;
  if (!is_alone) {
    inside_->answering = std::make_unique<responder>(std::move(endpoint), *time_);
    inside_->answering->drives([inner = inside_.get()] { return inner->attend_lanes(); });
    inside_->answering->start();
  }
  TND_TRY(launcher_.publish("pgas.contact", std::as_bytes(std::span{&mine, 1})));
  TND_TRY(launcher_.exchange(options_.timeout_ns));
  for (size_t i = 0; i < map_.segment_count(); i++)
    map_.remotes(i).resize(size_t(count()));
  inside_->addresses.resize(size_t(count()));
  for (pe_index pe = 0; pe < count(); pe++) {
    auto found = launcher_.lookup(pe, "pgas.contact");
    if (!found.ok())
      return found.error();
    pe_contact contact;
    if (found.value().size() != sizeof contact)
      return fail(status::protocol, "PE %d runs another version of the library", pe);
    std::memcpy(&contact, found.value().data(), sizeof contact);
    if (std::strncmp(contact.provider.data(), mine.provider.data(), contact.provider.size()) != 0) {
      return fail(status::invalid,
                  "PE %d has chosen the fabric %.*s, this one %s: set TND_PGAS_FABRIC", pe,
                  int(contact.provider.size()), contact.provider.data(), inside_->provider.c_str());
    }
    inside_->addresses[size_t(pe)] = {
        contact.address, std::min<size_t>(contact.address_size, contact.address.size())};
    for (size_t i = 0; i < map_.segment_count(); i++)
      map_.remotes(i)[size_t(pe)] = contact.segments[i];
  }
  if (is_alone)
    inside_->home = add_lane(std::move(endpoint), true);
  answers_ = true;
  has_both_ = node_pes_.size() > 1;
  return status::ok;
}

lane *job::add_lane(std::unique_ptr<port::fabric_endpoint> endpoint, bool answers) {
  lane::options const chosen{
      .timeout_ns = options_.timeout_ns,
      .time = time_,
      // One that answers looks after itself while it waits.
      .attend = answers ? std::function<void()>{} : [this] { attend(); },
      .begins = answers || !inside_->answering ? std::function<void()>{}
                                               : [this] { inside_->answering->stir(); },
      .lost =
          [this] {
            return inside_->is_finishing.load(std::memory_order_relaxed) ? pe_index{-1}
                                                                         : launcher_.lost();
          },
      .is_crowded = is_crowded_};
  auto &lanes = inside_->lanes;
  lanes.push_back({std::make_unique<lane>(std::move(endpoint), inside_->addresses, chosen), 0});
  lane *const made = lanes.back().made.get();
  inside_->attended[lanes.size() - 1].store(made, std::memory_order_release);
  return made;
}

result<lane *> job::lane_acquire(bool own) {
  if (is_one_node())
    return static_cast<lane *>(nullptr);
  lock_guard lock{inside_->lanes_mutex};
  auto &lanes = inside_->lanes;
  auto const lease = [](inside::leased &which) {
    which.users++;
    return which.made.get();
  };
  if (own && !lanes.empty()) {
    auto const unused =
        std::find_if(lanes.begin() + 1, lanes.end(), [](auto &each) { return each.users == 0; });
    if (unused != lanes.end())
      return lease(*unused);
    if (lanes.size() >= options_.lane_count_max) {
      return lease(*std::min_element(lanes.begin(), lanes.end(), [](auto &one, auto &other) {
        return one.users < other.users;
      }));
    }
  }
  if (own || lanes.empty()) {
    auto opened = open_endpoint();
    if (!opened.ok())
      return opened.error();
    (void)add_lane(std::move(opened).value(), false);
    return lease(lanes.back());
  }
  return lease(lanes.front());
}

void job::lane_release(lane *which) {
  if (which == nullptr)
    return;
  lock_guard lock{inside_->lanes_mutex};
  for (auto &each : inside_->lanes) {
    if (each.made.get() == which)
      each.users--;
  }
}

}  // namespace tanada::pgas
