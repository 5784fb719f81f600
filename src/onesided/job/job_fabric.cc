// Unmapped PEs: an endpoint that serves this PE's memory, and lanes that start operations on
// theirs.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/base/log.hpp"
#include "core/base/message.hpp"
#include "core/base/mutex.hpp"
#include "onesided/job/job_impl.hpp"
#include "seams/fabric/fabric_plugin.hpp"
#include "seams/stream/interfaces.hpp"

namespace tanada::onesided {
namespace {

// The best first, if the options select none.
constexpr const char *providers[] = {"o2g", "tcp;ofi_rxm"};

// Returns what libfabric accepts as a node: a host or an address. The name of an interface is
// replaced by its first address.
std::string fabric_node(const std::string &interface) {
  if (interface.empty())
    return interface;
  auto const addresses = seams::interface_addresses(interface.c_str(), true);
  if (addresses.empty())
    return interface;
  auto text = seams::to_text(addresses.front().address);  // "10.0.0.1:0", "[::1]:0"
  text.erase(text.rfind(':'));
  return text.front() == '[' ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

result<std::unique_ptr<seams::fabric_endpoint>> job::open_endpoint(bool needs_cuda) {
  auto &provider = impl_->provider;
  auto const open = [&](const std::string &name) {
    return seams::fabric_open(
        {.provider = name, .node = fabric_node(options_.interface), .cuda = needs_cuda});
  };
  if (!provider.empty())
    return open(provider);
  if (!options_.fabric.empty()) {
    auto endpoint = open(options_.fabric);
    if (endpoint.ok())
      provider = options_.fabric;
    return endpoint;
  }
  result<std::unique_ptr<seams::fabric_endpoint>> endpoint{status::no_plugin};
  for (const char *const candidate : providers) {
    // One PE reports that a better provider is missing. If others have it, the exchange of contacts
    // fails with both names.
    std::optional<message_silence> silence;
    if (me() != 0 && candidate != std::end(providers)[-1])
      silence.emplace();
    endpoint = open(candidate);
    if (!endpoint.ok())
      continue;
    provider = candidate;
    break;
  }
  return endpoint;
}

status job::register_segments(seams::fabric_endpoint &endpoint, pe_contact &contact) const {
  for (size_t i = 0; i < map_.segment_count(); i++) {
    auto const &segment = map_.segment_at(i);
    bool const is_heap = i == 0;
    if (segment.size == 0 || segment.kind == memory_kind::device ||
        (is_heap && !options_.exposes_heap))
      continue;
    size_t const hidden_size =
        segment.is_internal
            ? control_.size() - std::min(control_.size(), options_.control_exposed_size)
            : 0;
    auto region =
        endpoint.region_register({.addr = segment.base, .size = segment.size - hidden_size},
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
    return fail(status::not_supported, "fabric {} has no atomic operations", impl_->provider);
  }
  auto endpoint = std::move(opened).value();
  pe_contact own_contact;
  TND_TRY(register_segments(*endpoint, own_contact));
  std::strncpy(
      own_contact.provider.data(), impl_->provider.c_str(), own_contact.provider.size() - 1);
  own_contact.address_size = endpoint->address().size;
  own_contact.address = endpoint->address().bytes;
  // A fabric without automatic progress is driven from now on: other PEs may be ahead.
  bool const has_auto_progress = endpoint->properties().has_auto_progress;
  if (!has_auto_progress)
    start_responder(std::move(endpoint));
  TND_TRY(exchange_contacts(own_contact));
  if (has_auto_progress)
    impl_->serving_lane = add_lane(std::move(endpoint), true);
  serves_remote_ = true;
  has_both_wake_sources_ = node_pes_.size() > 1;
  return status::ok;
}

void job::start_responder(std::unique_ptr<seams::fabric_endpoint> endpoint) {
  TND_ASSERT(impl_->serving_responder == nullptr);
  impl_->serving_responder = std::make_unique<responder>(std::move(endpoint), *time_);
  impl_->serving_responder->set_extra_progress(
      [inner = impl_.get()] { return inner->progress_lanes(); });
  impl_->serving_responder->start();
}

status job::exchange_contacts(const pe_contact &own_contact) {
  TND_TRY(launcher_.publish("pgas.contact", std::as_bytes(std::span{&own_contact, 1})));
  TND_TRY(launcher_.exchange(options_.timeout_ns));
  for (size_t i = 0; i < map_.segment_count(); i++)
    map_.remotes(i).resize(size_t(count()));
  impl_->addresses.resize(size_t(count()));
  for (pe_index pe = 0; pe < count(); pe++) {
    auto published = launcher_.lookup(pe, "pgas.contact");
    if (!published.ok())
      return published.error();
    pe_contact contact;
    if (published.value().size() != sizeof contact)
      return fail(status::protocol, "PE {} runs another version of the library", pe);
    std::memcpy(&contact, published.value().data(), sizeof contact);
    TND_TRY(adopt_contact(pe, contact, own_contact));
  }
  return status::ok;
}

status job::adopt_contact(pe_index pe, const pe_contact &contact, const pe_contact &own_contact) {
  TND_ASSERT(map_.is_pe(pe) && impl_->addresses.size() == size_t(count()));
  auto const &provider = contact.provider;
  if (std::strncmp(provider.data(), own_contact.provider.data(), provider.size()) != 0) {
    return fail(status::invalid,
                "PE {} has chosen the fabric {}, this one {}: set TND_PGAS_FABRIC",
                pe,
                std::string_view(provider.data(), strnlen(provider.data(), provider.size())),
                impl_->provider);
  }
  impl_->addresses[size_t(pe)] = {contact.address,
                                  std::min<size_t>(contact.address_size, contact.address.size())};
  for (size_t i = 0; i < map_.segment_count(); i++)
    map_.remotes(i)[size_t(pe)] = contact.segments[i];
  return status::ok;
}

lane *job::add_lane(std::unique_ptr<seams::fabric_endpoint> endpoint, bool serves_remote) {
  lane::options const chosen{
      .timeout_ns = options_.timeout_ns,
      .time = time_,
      // A lane that serves makes progress itself while it waits.
      .make_progress = serves_remote ? std::function<void()>{} : [this] { progress(); },
      .on_first_outstanding = serves_remote || !impl_->serving_responder
                                  ? std::function<void()>{}
                                  : [this] { impl_->serving_responder->wake_thread(); },
      .failed_pe = [this] { return launcher_failed_pe(); },
      .is_oversubscribed = is_oversubscribed_};
  auto &lanes = impl_->lanes;
  TND_ASSERT(endpoint != nullptr && lanes.size() < lane_count_cap);
  lanes.push_back({std::make_unique<lane>(std::move(endpoint), impl_->addresses, chosen), 0});
  lane *const added = lanes.back().lane_ptr.get();
  impl_->active_lanes[lanes.size() - 1].store(added, std::memory_order_release);
  return added;
}

result<lane *> job::lane_acquire(bool is_exclusive) {
  if (is_one_node())
    return static_cast<lane *>(nullptr);
  lock_guard lock{impl_->lanes_mutex};
  auto &lanes = impl_->lanes;
  auto const lease = [](impl::leased_lane &leased) {
    leased.users++;
    return leased.lane_ptr.get();
  };
  if (is_exclusive && !lanes.empty()) {
    auto const unused = std::find_if(
        lanes.begin() + 1, lanes.end(), [](auto &candidate) { return candidate.users == 0; });
    if (unused != lanes.end())
      return lease(*unused);
    if (lanes.size() >= options_.lane_count_max) {
      return lease(
          *std::min_element(lanes.begin(), lanes.end(), [](auto &left_lane, auto &right_lane) {
            return left_lane.users < right_lane.users;
          }));
    }
  }
  if (is_exclusive || lanes.empty()) {
    auto opened = open_endpoint();
    if (!opened.ok())
      return opened.error();
    (void)add_lane(std::move(opened).value(), false);
    return lease(lanes.back());
  }
  return lease(lanes.front());
}

void job::lane_release(lane *released) {
  if (released == nullptr)
    return;
  lock_guard lock{impl_->lanes_mutex};
  for (auto &leased : impl_->lanes) {
    if (leased.lane_ptr.get() != released)
      continue;
    TND_ASSERT(leased.users != 0);
    leased.users--;
  }
}

}  // namespace tanada::onesided
