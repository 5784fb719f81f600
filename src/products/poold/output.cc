#include "products/poold/output.hpp"

#include <unistd.h>

#include <algorithm>

namespace tanada::poold {
namespace {

constexpr size_t send_part_count_max = 64;      // of one send
constexpr uint64_t joined_size_max = 64 << 10;  // frames are joined up to here

}  // namespace

void output::clear() {
  for (item const &one : items_)
    if (one.descriptor >= 0)
      close(one.descriptor);
  items_.clear();
  size_ = 0;
}

void output::add(std::vector<std::byte> frame, std::vector<iovec> parts, object_ref hold,
                 int descriptor) {
  size_ += frame.size() + parts.size() * sizeof(iovec);
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

// Of items up to the next one that has a descriptor, which must be the first of its send.
size_t output::gather(std::vector<iovec> &parts, uint64_t budget) const {
  for (size_t i = 0; i < items_.size() && parts.size() < send_part_count_max && budget > 0; i++) {
    const item &one = items_[i];
    if (i > 0 && one.descriptor >= 0)
      break;
    auto const take = [&](void *addr, uint64_t size) {
      if (size == 0 || budget == 0 || parts.size() == send_part_count_max)
        return;
      parts.push_back({addr, std::min(size, budget)});
      budget -= parts.back().iov_len;
    };
    take(const_cast<std::byte *>(one.frame.data()) + one.frame_sent,
         one.frame.size() - one.frame_sent);
    for (size_t k = one.part; k < one.parts.size(); k++)
      take(one.parts[k].iov_base, one.parts[k].iov_len);
  }
  return parts.size();
}

// False: of an object that has lost bytes.
bool output::sent(uint64_t size) {
  while (size > 0) {
    item &one = items_.front();
    if (one.hold != nullptr && !one.hold->is_whole_now())
      return false;
    uint64_t const head = std::min<uint64_t>(size, one.frame.size() - one.frame_sent);
    one.frame_sent += head;
    size -= head;
    size_ -= head;
    while (size > 0 && one.part < one.parts.size()) {
      iovec &part = one.parts[one.part];
      uint64_t const taken = std::min<uint64_t>(size, part.iov_len);
      part.iov_base = static_cast<std::byte *>(part.iov_base) + taken;
      part.iov_len -= taken;
      size -= taken;
      if (part.iov_len == 0)
        one.part++;
    }
    if (one.frame_sent < one.frame.size() || one.part < one.parts.size())
      continue;
    size_ -= one.parts.size() * sizeof(iovec);
    items_.pop_front();
  }
  return true;
}

status output::flush(port::stream &to, uint64_t budget, uint64_t &moved) {
  std::vector<iovec> parts;
  while (!items_.empty() && moved < budget) {
    parts.clear();
    gather(parts, budget - moved);
    item &first = items_.front();
    auto const size = to.send(parts, first.descriptor);
    if (!size.ok())
      return size.error();
    if (first.descriptor >= 0) {
      close(first.descriptor);
      first.descriptor = -1;
    }
    uint64_t const count = const_cast<result<size_t> &>(size).value();
    moved += count;
    if (!sent(count))
      return status::fault;
  }
  return status::ok;
}

}  // namespace tanada::poold
