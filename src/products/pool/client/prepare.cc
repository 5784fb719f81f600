// products/pool/client/prepare.cc: what a client prepares for a GPU before the first transfer.
#include "core/base/log.hpp"
#include "products/pool/client/client.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

// Bytes that are registered ahead of their use: a large object's, or a few smaller ones.
constexpr uint64_t ahead_size = uint64_t{4} << 30;

}  // namespace

// What fails here is reported by the transfer that needs it.
void client::prepare_device() {
  if (!shared_ || !settings_.uses_device(settings_.device_index))
    return;
  port::clock &clock = port::monotonic_clock();
  uint64_t const start_ns = clock.now_ns();
  if (device_ready() != status::ok)
    return;
  device_->prepare_thread();
  uint64_t const opened_ns = clock.now_ns();
  auto const mappings = reserve_ahead();
  uint64_t const reserved_ns = clock.now_ns();
  // The first put may come at once.
  bool const has_huge_pages = !mappings.empty() && mappings.front()->has_huge_pages();
  if (has_huge_pages)
    device_->register_now(mappings.front());
  using enum device_copy::urgency;
  device_->prepare_in_background(has_huge_pages ? later : at_once);
  log(log_level::debug,
      "pool: GPU %u opened in %.3f ms, %zu segments reserved in %.3f ms, the first registered in "
      "%.3f ms%s",
      settings_.device_index, double(opened_ns - start_ns) / 1e6, mappings.size(),
      double(reserved_ns - opened_ns) / 1e6, double(clock.now_ns() - reserved_ns) / 1e6,
      has_huge_pages ? "" : " (small pages: in the background)");
}

// One connection of the process is enough for each namespace: the others find what it has had
// registered.
client::device_mappings client::reserve_ahead() {
  if (!channel_->terms().can_write)
    return {};
  if (namespace_claim_ == nullptr)
    namespace_claim_ = device_->claim_namespace(space_url(where_));
  if (namespace_claim_ == nullptr)
    return {};
  reserve_reply in;
  if (call(kind::reserve, reserve_request{ahead_size}, in) != status::ok)
    return {};
  std::erase_if(in.segments, [this](uint32_t segment) { return segments_.holds(segment); });
  ahead_.insert(in.segments.begin(), in.segments.end());
  auto mappings = borrow_ahead(in.segments);
  for (auto const &mapping : mappings)
    device_->add(mapping);
  return mappings;
}

// All requests at once. A segment that has gone to another namespace meanwhile is left out.
client::device_mappings client::borrow_ahead(const std::vector<uint32_t> &wanted) {
  device_mappings mappings;
  size_t answer_count = 0;
  for (uint32_t const segment : wanted) {
    channel_->post(
        kind::segment, segment_request{segment}, {}, {}, [&, segment](const reply &come) {
          answer_count++;
          lent_segment lent;
          if (come.code != status::ok || wire::decode(come.body, lent.about) != status::ok)
            return;
          lent.file = descriptor{channel_->take_descriptor()};
          if (lent.file.get() < 0)
            return;
          auto mapping = segments_.add_for_device(segment, std::move(lent));
          if (mapping.ok())
            mappings.push_back(std::move(mapping).value());
        });
  }
  uint64_t const deadline_ns = deadline();
  while (answer_count < wanted.size()) {
    // Descriptors that come later would be nobody's. To end the connection calls the takers that
    // are left.
    if (channel_->progress(deadline_ns) != status::ok)
      channel_->end(status::timed_out);
  }
  return mappings;
}

// After a write: objects to come find registered memory while the caller computes.
void client::note_ahead_used(const std::vector<piece> &pieces) {
  if (ahead_.empty())
    return;
  for (const piece &one : pieces)
    ahead_used_ += ahead_.erase(one.segment);
  if (ahead_used_ == 0 || ahead_used_ < ahead_.size())
    return;
  ahead_used_ = 0;
  (void)reserve_ahead();
}

}  // namespace tanada::pool
