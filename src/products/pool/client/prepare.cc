// products/pool/client/prepare.cc: a client's preparation of a GPU before the first transfer.
#include "core/base/log.hpp"
#include "products/pool/client/client.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

// Bytes that are registered before they are used: one large object, or several smaller ones.
constexpr uint64_t reserve_size = uint64_t{4} << 30;

}  // namespace

// The transfer that needs the device reports a failure.
void client::prepare_device() {
  if (!shared_ || !settings_.prepares_device || !settings_.uses_device(settings_.device_index))
    return;
  seams::clock &clock = seams::monotonic_clock();
  uint64_t const start_ns = clock.now_ns();
  if (ensure_device() != status::ok)
    return;
  device_->prepare_thread();
  uint64_t const opened_ns = clock.now_ns();
  auto const mappings = reserve_segments();
  uint64_t const reserved_ns = clock.now_ns();
  // The first put may follow at once.
  bool const has_huge_pages = !mappings.empty() && mappings.front()->has_huge_pages();
  if (has_huge_pages)
    device_->register_now(mappings.front());
  using enum device_copy::urgency;
  device_->prepare_in_background(has_huge_pages ? later : at_once);
  log(log_level::debug,
      "pool: GPU {} opened in {:.3f} ms, {} segments reserved in {:.3f} ms, the first registered "
      "in {:.3f} ms{}",
      settings_.device_index,
      double(opened_ns - start_ns) / 1e6,
      mappings.size(),
      double(reserved_ns - opened_ns) / 1e6,
      double(clock.now_ns() - reserved_ns) / 1e6,
      has_huge_pages ? "" : " (small pages: in the background)");
}

// One connection of the process is enough for each namespace: the others use the memory that it has
// registered.
client::device_mappings client::reserve_segments() {
  TND_ASSERT(channel_ != nullptr && device_ != nullptr);
  if (!channel_->terms().can_write)
    return {};
  if (namespace_claim_ == nullptr)
    namespace_claim_ = device_->claim_namespace(space_url(daemon_));
  if (namespace_claim_ == nullptr)
    return {};
  reserve_reply answer;
  if (call(kind::reserve, reserve_request{reserve_size}, answer) != status::ok)
    return {};
  std::erase_if(answer.segments, [this](uint32_t segment) { return segments_.is_mapped(segment); });
  reserved_segments_.insert(answer.segments.begin(), answer.segments.end());
  auto mappings = fetch_segments(answer.segments);
  for (auto const &mapping : mappings)
    device_->add(mapping);
  return mappings;
}

// Posts all requests at once. A segment that was given to another namespace meanwhile is omitted.
client::device_mappings client::fetch_segments(const std::vector<uint32_t> &wanted) {
  device_mappings mappings;
  size_t answer_count = 0;
  for (uint32_t const segment : wanted) {
    channel_->post(
        kind::segment, segment_request{segment}, {}, {}, [&, segment](const reply &received) {
          answer_count++;
          received_segment received_file;
          if (received.code != status::ok ||
              wire::decode(received.body, received_file.about) != status::ok)
            return;
          received_file.file = descriptor{channel_->take_descriptor()};
          if (received_file.file.get() < 0)
            return;
          auto mapping = segments_.add_for_device(segment, std::move(received_file));
          if (mapping.ok())
            mappings.push_back(std::move(mapping).value());
        });
  }
  uint64_t const deadline_ns = deadline();
  while (answer_count < wanted.size()) {
    // Nobody would own descriptors that are received later. Ending the connection calls the
    // remaining handlers.
    if (channel_->progress(deadline_ns) != status::ok)
      channel_->end(status::timed_out);
  }
  return mappings;
}

// Called after a write: memory for later objects is registered while the caller computes.
void client::note_reserved_used(const std::vector<pool_extent> &pieces) {
  if (reserved_segments_.empty())
    return;
  for (const pool_extent &piece : pieces)
    reserved_used_count_ += reserved_segments_.erase(piece.segment);
  if (reserved_used_count_ == 0 || reserved_used_count_ < reserved_segments_.size())
    return;
  reserved_used_count_ = 0;
  (void)reserve_segments();
}

}  // namespace tanada::pool
