// backends/libfabric/libfabric_endpoint.cc: opening, waiting and waking of a libfabric endpoint.
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "backends/libfabric/libfabric_queue.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t slice_ns_max =
    100'000'000;  // longest wait on a descriptor: bounds the delay of a missed wake-up
// between polls of a queue that has no descriptor
constexpr uint64_t poll_interval_ns_min = 20'000;
constexpr uint64_t poll_interval_ns_max = 1'000'000;
static_assert(poll_interval_ns_min <= poll_interval_ns_max && poll_interval_ns_max <= slice_ns_max);

}  // namespace

libfabric_endpoint::libfabric_endpoint(std::unique_ptr<libfabric_domain> domain,
                                       const libfabric_options &options)
    : time_{*options.time},
      cache_limits_{options.cache},
      domain_{std::move(domain)},
      ops_{options.depth, domain_->properties().path},
      contexts_(2 * size_t(options.depth)),
      flights_(options.depth),
      // Allocated without being touched, so it takes no memory unless messages are copied.
      copies_{new std::byte[options.depth * domain_->properties().copied_size_max]},
      peers_{*domain_} {}

libfabric_endpoint::~libfabric_endpoint() {
  // Operations in flight end with the endpoints. After that nothing uses the memory.
  for (auto &entry : flights_)
    entry.lane.reset();
  peers_.lanes_close();
  if (domain_->has_mode(FI_MR_ENDPOINT)) {
    contexts_region_.reset();
    copies_region_.reset();
    regions_.reset();
  }
  endpoint_.reset();
  if (wake_descriptor_ != -1)
    close(wake_descriptor_);
}

status libfabric_endpoint::open() {
  TND_ASSERT(!endpoint_ && wake_descriptor_ == -1);
  wake_descriptor_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_descriptor_ == -1)
    return fail(status::too_many_files, "libfabric: cannot create an eventfd");
  auto opened = domain_->endpoint_open("");
  if (!opened.ok())
    return opened.error();
  endpoint_ = std::move(opened).value();
  regions_ = std::make_unique<libfabric_regions>(
      *domain_, endpoint_.get(), cache_limits_, ops_.counters());
  address_.size = address_.bytes.size();
  if (int const code = fi_getname(&endpoint_->fid, address_.bytes.data(), &address_.size);
      code != 0) {
    return fail(libfabric_status(-code),
                "libfabric: cannot get the endpoint's address: {}",
                fi_strerror(-code));
  }
  if (domain_->has_mode(FI_MR_LOCAL)) {
    TND_TRY(register_internal(contexts_region_,
                              reinterpret_cast<std::byte *>(contexts_.data()),
                              contexts_.size() * sizeof(libfabric_context)));
    TND_TRY(register_internal(
        copies_region_, copies_.get(), ops_.depth() * properties().copied_size_max));
  }
  vector_size_max_ = libfabric_vector_size_max(endpoint_.get());
  if (vector_size_max_ == 0)
    domain_->deny_atomics();
  if (domain_->atomics_must_fetch())
    discarded_.reset(new std::byte[vector_size_max_]);
  return status::ok;
}

status libfabric_endpoint::register_internal(libfabric_handle<fid_mr> &target,
                                             std::byte *addr,
                                             size_t size) {
  TND_ASSERT(regions_ != nullptr && !target);
  auto region = regions_->open({.addr = addr, .size = size}, FI_READ | FI_WRITE);
  if (!region.ok())
    return region.error();
  target.reset(region.value());
  return status::ok;
}

result<seams::fabric_peer> libfabric_endpoint::peer_add(std::span<const std::byte> address) {
  return peers_.add(address, address_.span());
}

status libfabric_endpoint::peer_remove(seams::fabric_peer id) {
  auto *const peer = peers_.find(id);
  if (peer == nullptr)
    return status::no_entry;
  progress();
  drop_waiting(*peer, status::canceled);
  peers_.detach(*peer);
  removed_.insert(id);
  reap_queue();
  // The connection is closed, so no further completions come from it.
  if (domain_->ends_on_remove())
    settle_in_flight(id, status::canceled);
  erase_removed();
  return status::ok;
}

result<seams::fabric_region> libfabric_endpoint::region_register(const seams::fabric_memory &memory,
                                                                 seams::fabric_access access) {
  return regions_->add(memory, access);
}

status libfabric_endpoint::region_release(seams::fabric_region_id region) {
  return regions_->remove(region);
}

void libfabric_endpoint::memory_forget(const std::byte *addr, size_t size) {
  regions_->forget(addr, size);
}

size_t libfabric_endpoint::poll(std::span<seams::fabric_completion> completions) {
  // Completions that a wait found are returned immediately; the next poll reads the queue.
  if (!ops_.has_ready())
    progress();
  return ops_.reap(completions);
}

status libfabric_endpoint::wait(uint64_t deadline_ns) {
  bool is_resting = true;  // this round sleeps
  for (uint64_t poll_interval_ns = poll_interval_ns_min;;
       poll_interval_ns = std::min(2 * poll_interval_ns, poll_interval_ns_max)) {
    progress();
    if (ops_.has_ready())
      return status::ok;
    if (woken_.exchange(false)) {
      uint64_t count = 0;
      if (domain_->queue_wait() == nullptr)
        (void)!read(wake_descriptor_, &count, sizeof count);
      return status::interrupted;
    }
    uint64_t const now_ns = time_.now_ns();
    if (now_ns >= deadline_ns)
      return status::timed_out;

    sleep(now_ns, std::min(deadline_ns, ops_.next_deadline_ns()), poll_interval_ns, is_resting);
  }
}

status libfabric_endpoint::wait_for_change(uint64_t deadline_ns) {
  progress();
  if (ops_.has_ready())
    return status::ok;
  if (woken_.exchange(false))
    return status::interrupted;
  uint64_t const now_ns = time_.now_ns();
  if (now_ns >= deadline_ns)
    return status::timed_out;
  auto *const changes = domain_->change_counter();
  if (changes == nullptr) {
    bool is_resting = true;
    sleep(now_ns, deadline_ns, poll_interval_ns_max, is_resting);
    progress();
    return status::ok;
  }
  TND_ASSERT(domain_->queue_wait() != nullptr);
  uint64_t const slice_end_ns =
      std::min({deadline_ns, ops_.next_deadline_ns(), now_ns + slice_ns_max});
  bool const has_changed = domain_->queue_wait()->wait_for_count(
                               domain_->queue(), changes, changes_seen_, slice_end_ns) == 0;
  changes_seen_ = fi_cntr_read(changes);
  progress();
  if (woken_.exchange(false))
    return status::interrupted;
  return has_changed ? status::ok : status::timed_out;
}

// Sleeps within a wait, at most until `end_ns` or, where the provider can signal it, an event.
// `is_resting` is the state of the caller's loop; see below.
void libfabric_endpoint::sleep(uint64_t now_ns,
                               uint64_t end_ns,
                               uint64_t poll_interval_ns,
                               bool &is_resting) {
  // An operation that the network refused is posted again. No event reports when the network would
  // accept it.
  bool const retries = !backlog_.empty() || !receives_waiting_.empty();
  if (const auto *const provider_wait = domain_->queue_wait(); provider_wait != nullptr) {
    (void)provider_wait->wait(
        domain_->queue(), std::min(end_ns, now_ns + (retries ? poll_interval_ns : slice_ns_max)));
    return;
  }
  int const queue = domain_->queue_descriptor();
  auto *queue_fid = &domain_->queue()->fid;
  bool const blocks = queue != -1 && fi_trywait(domain_->fabric(), &queue_fid, 1) == 0;
  // When libfabric forbids blocking there is work to do, but it may forbid it forever. Then every
  // second round sleeps.
  is_resting = queue == -1 || blocks || !is_resting;
  uint64_t const slice_ns = blocks && !retries ? slice_ns_max : is_resting ? poll_interval_ns : 0;
  uint64_t const sleep_ns = end_ns <= now_ns ? 0 : std::min(slice_ns, end_ns - now_ns);
  if (sleep_ns == 0)
    return;
  pollfd watched[2] = {{wake_descriptor_, POLLIN, 0}, {queue, POLLIN, 0}};
  timespec const limit{time_t(sleep_ns / 1'000'000'000), long(sleep_ns % 1'000'000'000)};
  (void)ppoll(watched, blocks ? 2 : 1, &limit, nullptr);
}

void libfabric_endpoint::wake() noexcept {
  woken_ = true;
  if (domain_->queue_wait() != nullptr) {
    (void)fi_cq_signal(domain_->queue());
    return;
  }
  uint64_t const value = 1;
  (void)!write(wake_descriptor_, &value, sizeof value);
}

result<std::unique_ptr<seams::fabric_endpoint>> libfabric_endpoint_open(
    const libfabric_options &options) {
  if (options.depth == 0 || options.depth > seams::fabric_depth_max || options.time == nullptr ||
      options.provider.empty() || options.message_size_max < 64 ||
      options.message_size_max > libfabric_message_size_cap) {
    return fail(
        status::invalid,
        "libfabric: invalid options: depth must be 1 to {}, and message_size_max 64 to {} bytes",
        seams::fabric_depth_max,
        libfabric_message_size_cap);
  }
  if (options.provider == "shm")
    shm_names_sweep();
  auto domain = libfabric_domain::open(options);
  if (!domain.ok())
    return domain.error();
  auto opened = std::make_unique<libfabric_endpoint>(std::move(domain).value(), options);
  TND_TRY(opened->open());
  return std::unique_ptr<seams::fabric_endpoint>{std::move(opened)};
}

}  // namespace tanada::backends
