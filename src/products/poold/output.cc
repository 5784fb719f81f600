// Sending queued replies, with objects' bytes straight from the pool's memory.
#include "products/poold/output.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/base/assert.hpp"

namespace tanada::poold {
namespace {

constexpr size_t send_part_count_max = 64;      // of one send
constexpr uint64_t joined_size_max = 64 << 10;  // frames are joined up to this size

}  // namespace

void output::clear() {
  for (item const &queued : items_)
    if (queued.descriptor >= 0)
      close(queued.descriptor);
  items_.clear();
  size_ = 0;
}

void output::add(std::vector<std::byte> frame, std::vector<iovec> parts, object_ref hold,
                 int descriptor) {
  size_ += frame.size() + parts.size() * sizeof(iovec);
  TND_ASSERT(!frame.empty());
  if (!items_.empty() && descriptor < 0) {
    item &last = items_.back();
    if (last.parts.empty() && last.descriptor < 0 &&
        last.frame.size() + frame.size() <= joined_size_max) {
      last.frame.insert(last.frame.end(), frame.begin(), frame.end());
      last.parts = std::move(parts);
      last.hold = std::move(hold);
      return;
    }
  }
  items_.push_back({std::move(frame), std::move(parts), std::move(hold), descriptor, 0, 0});
}

// Collect parts up to the next item that has a descriptor, which must be the first of its send.
size_t output::collect_parts(std::vector<iovec> &parts, uint64_t budget) const {
  for (size_t i = 0; i < items_.size() && parts.size() < send_part_count_max && budget > 0; i++) {
    const item &queued = items_[i];
    if (i > 0 && queued.descriptor >= 0)
      break;
    auto const take = [&](void *addr, uint64_t size) {
      if (size == 0 || budget == 0 || parts.size() == send_part_count_max)
        return;
      parts.push_back({addr, std::min(size, budget)});
      budget -= parts.back().iov_len;
    };
    take(const_cast<std::byte *>(queued.frame.data()) + queued.frame_sent,
         queued.frame.size() - queued.frame_sent);
    for (size_t k = queued.part; k < queued.parts.size(); k++)
      take(queued.parts[k].iov_base, queued.parts[k].iov_len);
  }
  return parts.size();
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
    while (size > 0 && queued.part < queued.parts.size()) {
      iovec &part = queued.parts[queued.part];
      uint64_t const part_size = std::min<uint64_t>(size, part.iov_len);
      part.iov_base = static_cast<std::byte *>(part.iov_base) + part_size;
      part.iov_len -= part_size;
      size -= part_size;
      if (part.iov_len == 0)
        queued.part++;
    }
    if (queued.frame_sent < queued.frame.size() || queued.part < queued.parts.size())
      continue;
    TND_ASSERT(size_ >= queued.parts.size() * sizeof(iovec));
    size_ -= queued.parts.size() * sizeof(iovec);
    items_.pop_front();
  }
  return true;
}

status output::flush(seams::stream &stream, uint64_t budget, uint64_t &moved) {
  std::vector<iovec> parts;
  while (!items_.empty() && moved < budget) {
    parts.clear();
    collect_parts(parts, budget - moved);
    item &first = items_.front();
    auto const size = stream.send(parts, first.descriptor);
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
