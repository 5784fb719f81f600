#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "backends/libfabric/libfabric_queue.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/log.hpp"

namespace tanada::port {
namespace {

constexpr uint64_t slice_ns_max =
    100'000'000;  // of a wait on a descriptor: bounds the harm of a wake-up that is missed
constexpr uint64_t look_ns_min = 20'000, look_ns_max = 1'000'000;  // between two looks without one

}  // namespace

libfabric_endpoint::libfabric_endpoint(std::unique_ptr<libfabric_domain> domain,
                                       const libfabric_options &options)
    : time_{*options.time},
      cache_limits_{options.cache},
      domain_{std::move(domain)},
      ops_{options.depth, domain_->properties().path},
      contexts_(2 * size_t(options.depth)),
      flights_(options.depth),
      // Not touched, so not there, where nothing is copied.
      copies_{new std::byte[options.depth * domain_->properties().copied_size_max]},
      peers_{*domain_} {}

libfabric_endpoint::~libfabric_endpoint() {
  // Whatever is still out ends with the endpoints; then nothing uses the memory.
  for (auto &each : flights_)
    each.lane.reset();
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
  wake_descriptor_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_descriptor_ == -1)
    return fail(status::too_many_files, "libfabric: no descriptor for an event");
  auto opened = domain_->endpoint_open("");
  if (!opened.ok())
    return opened.error();
  endpoint_ = std::move(opened).value();
  regions_ = std::make_unique<libfabric_regions>(*domain_, endpoint_.get(), cache_limits_,
                                                 ops_.counters());
  address_.size = address_.bytes.size();
  if (int const code = fi_getname(&endpoint_->fid, address_.bytes.data(), &address_.size);
      code != 0) {
    return fail(libfabric_status(-code), "libfabric: the endpoint's address: %s",
                fi_strerror(-code));
  }
  if (domain_->has_mode(FI_MR_LOCAL)) {
    TND_TRY(own_register(contexts_region_, reinterpret_cast<std::byte *>(contexts_.data()),
                         contexts_.size() * sizeof(libfabric_context)));
    TND_TRY(
        own_register(copies_region_, copies_.get(), ops_.depth() * properties().copied_size_max));
  }
  vector_size_max_ = libfabric_vector_size_max(endpoint_.get());
  if (vector_size_max_ == 0)
    domain_->deny_atomics();
  if (domain_->atomics_must_fetch())
    discarded_.reset(new std::byte[vector_size_max_]);
  return status::ok;
}

status libfabric_endpoint::own_register(libfabric_handle<fid_mr> &into, std::byte *addr,
                                        size_t size) {
  auto region = regions_->open({.addr = addr, .size = size}, FI_READ | FI_WRITE);
  if (!region.ok())
    return region.error();
  into.reset(region.value());
  return status::ok;
}

result<fabric_peer> libfabric_endpoint::peer_add(std::span<const std::byte> address) {
  return peers_.add(address, address_.span());
}

status libfabric_endpoint::peer_remove(fabric_peer id) {
  auto *const peer = peers_.find(id);
  if (peer == nullptr)
    return status::no_entry;
  progress();
  drop_waiting(*peer, status::canceled);
  peers_.detach(*peer);
  leaving_.insert(id);
  reap_queue();
  // The connection is closed: what it has not said by now it will not say.
  if (domain_->ends_on_remove())
    settle_out(id, status::canceled);
  forget_removed();
  return status::ok;
}

result<fabric_region> libfabric_endpoint::region_register(const fabric_memory &memory,
                                                          fabric_access access) {
  return regions_->add(memory, access);
}

status libfabric_endpoint::region_release(fabric_region_id region) {
  return regions_->remove(region);
}

void libfabric_endpoint::memory_forget(const std::byte *addr, size_t size) {
  regions_->forget(addr, size);
}

size_t libfabric_endpoint::poll(std::span<fabric_completion> completions) {
  // What a wait has found is handed over at once; the next poll looks further.
  if (!ops_.has_ready())
    progress();
  return ops_.reap(completions);
}

status libfabric_endpoint::wait(uint64_t deadline_ns) {
  bool rests = true;  // this round sleeps
  for (uint64_t look_ns = look_ns_min;; look_ns = std::min(2 * look_ns, look_ns_max)) {
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

    sleep(now_ns, std::min(deadline_ns, ops_.next_deadline_ns()), look_ns, rests);
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
  auto *const changes = domain_->changes();
  if (changes == nullptr) {
    bool rests = true;
    sleep(now_ns, deadline_ns, look_ns_max, rests);
    progress();
    return status::ok;
  }
  uint64_t const until_ns = std::min({deadline_ns, ops_.next_deadline_ns(), now_ns + slice_ns_max});
  bool const has_come = domain_->queue_wait()->wait_for_count(domain_->queue(), changes,
                                                              changes_seen_, until_ns) == 0;
  changes_seen_ = fi_cntr_read(changes);
  progress();
  if (woken_.exchange(false))
    return status::interrupted;
  return has_come ? status::ok : status::timed_out;
}

// For a while within a wait: until something has come, if that is told. `rests`: see there.
void libfabric_endpoint::sleep(uint64_t now_ns, uint64_t end_ns, uint64_t look_ns, bool &rests) {
  // An operation that the network has refused is offered again; nothing tells when it would be
  // taken.
  bool const retries = !backlog_.empty() || !receives_waiting_.empty();
  if (const auto *const own = domain_->queue_wait(); own != nullptr) {
    (void)own->wait(domain_->queue(),
                    std::min(end_ns, now_ns + (retries ? look_ns : slice_ns_max)));
    return;
  }
  int const queue = domain_->queue_descriptor();
  auto *queue_fid = &domain_->queue()->fid;
  bool const blocks = queue != -1 && fi_trywait(domain_->fabric(), &queue_fid, 1) == 0;
  // When libfabric says that it must not block there is something to do; it may say so without end.
  rests = queue == -1 || blocks || !rests;
  uint64_t const slice_ns = blocks && !retries ? slice_ns_max : rests ? look_ns : 0;
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
  uint64_t const one = 1;
  (void)!write(wake_descriptor_, &one, sizeof one);
}

result<std::unique_ptr<fabric_endpoint>> libfabric_endpoint_open(const libfabric_options &options) {
  if (options.depth == 0 || options.depth > fabric_depth_max || options.time == nullptr ||
      options.provider.empty() || options.message_size_max < 64 ||
      options.message_size_max > libfabric_message_size_cap) {
    return fail(status::invalid,
                "libfabric: a depth of 1 to %u and messages of 64 to %zu bytes are possible",
                fabric_depth_max, libfabric_message_size_cap);
  }
  if (options.provider == "shm")
    shm_names_sweep();
  auto domain = libfabric_domain::open(options);
  if (!domain.ok())
    return domain.error();
  auto made = std::make_unique<libfabric_endpoint>(std::move(domain).value(), options);
  TND_TRY(made->open());
  return std::unique_ptr<fabric_endpoint>{std::move(made)};
}

}  // namespace tanada::port
