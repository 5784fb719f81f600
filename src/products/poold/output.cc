// Sending queued replies, with objects' bytes straight from the pool's memory.
#include "products/poold/output.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/base/assert.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t joined_size_max = 64 << 10;  // frames are joined up to this size

}  // namespace

void output::clear() {
  for (item const &queued : items_)
    if (queued.descriptor >= 0)
      close(queued.descriptor);
  items_.clear();
  size_ = 0;
}

void output::add(std::vector<std::byte> frame,
                 std::vector<iovec> parts,
                 object_ref hold,
                 int descriptor) {
  size_ += frame.size() + parts.size() * sizeof(iovec);
  TND_ASSERT(!frame.empty());
  if (!items_.empty() && descriptor < 0) {
    item &last = items_.back();
    if (last.data.part_count() == 0 && last.stream == nullptr && last.descriptor < 0 &&
        last.barrier == barrier_ && last.frame.size() + frame.size() <= joined_size_max) {
      last.frame.insert(last.frame.end(), frame.begin(), frame.end());
      last.data = pool::part_cursor{std::move(parts)};
      last.hold = std::move(hold);
      return;
    }
  }
  items_.push_back({std::move(frame),
                    pool::part_cursor{std::move(parts)},
                    std::move(hold),
                    descriptor,
                    barrier_});
}

void output::add_stream(std::vector<std::byte> frame, std::shared_ptr<cold_stream> stream) {
  TND_ASSERT(stream != nullptr);
  add(std::move(frame));
  items_.back().stream = std::move(stream);
}

status output::item::next_state() const {
  bool const reads = stream != nullptr && frame_sent == frame.size() && data.is_at_end();
  return reads ? stream->next_state() : status::ok;
}

bool output::is_reading() const {
  return !items_.empty() && items_.front().next_state() == status::again;
}

// Collect parts up to the next item that has a descriptor, which must be the first of its send, or
// that is not settled.
pool::part_list output::collect_parts(uint64_t budget, uint64_t settled_position) const {
  pool::part_list list;
  for (size_t i = 0; i < items_.size() && !list.is_full() && list.size() < budget; i++) {
    const item &queued = items_[i];
    if ((i > 0 && queued.descriptor >= 0) || queued.barrier > settled_position)
      break;
    list.add(const_cast<std::byte *>(queued.frame.data()) + queued.frame_sent,
             std::min(queued.frame.size() - queued.frame_sent, budget - list.size()));
    queued.data.add_to(list, budget - list.size());
    bool const has_rest =
        queued.stream != nullptr && !queued.stream->add_to(list, budget - list.size());
    if (has_rest)
      break;
  }
  return list;
}

// Remove `size` sent bytes from the queue. False: some of them belong to an object that lost bytes.
bool output::consume_sent(uint64_t size) {
  while (size > 0) {
    TND_ASSERT(!items_.empty());
    item &queued = items_.front();
    if (queued.hold != nullptr && !queued.hold->check_intact())
      return false;
    uint64_t const head = std::min<uint64_t>(size, queued.frame.size() - queued.frame_sent);
    queued.frame_sent += head;
    size -= head;
    size_ -= head;
    size = queued.data.advance(size);
    if (queued.stream != nullptr)
      size = queued.stream->advance(size);
    if (!queued.is_sent())
      continue;
    TND_ASSERT(size_ >= queued.data.part_count() * sizeof(iovec));
    size_ -= queued.data.part_count() * sizeof(iovec);
    items_.pop_front();
  }
  return true;
}

status output::flush(seams::stream &stream,
                     uint64_t budget,
                     uint64_t &moved,
                     uint64_t settled_position) {
  while (!items_.empty() && moved < budget && first_barrier() <= settled_position) {
    item &first = items_.front();
    if (status const state = first.next_state(); state != status::ok)
      return state == status::again ? status::ok : status::fault;
    auto const size =
        stream.send(collect_parts(budget - moved, settled_position).parts(), first.descriptor);
    if (!size.ok())
      return size.error();
    if (first.descriptor >= 0) {
      close(first.descriptor);
      first.descriptor = -1;
    }
    uint64_t const count = const_cast<result<size_t> &>(size).value();
    moved += count;
    if (!consume_sent(count))
      return status::fault;
  }
  return status::ok;
}

}  // namespace tanada::poold
