// products/gfile/host/range_set.hpp: the bytes of a page that hold data which the store does not
// have yet.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"

namespace tanada::gfile {

struct byte_range {
  uint32_t begin, end;  // bytes; begin < end
};

// Disjoint, sorted ranges; adjacent ones are merged.
class range_set {
 public:
  void add(byte_range added) {
    TND_ASSERT(added.begin < added.end);
    std::vector<byte_range> merged;
    merged.reserve(ranges_.size() + 1);
    for (byte_range const &old : ranges_) {
      if (old.end < added.begin || old.begin > added.end) {
        merged.push_back(old);
      } else {
        added.begin = old.begin < added.begin ? old.begin : added.begin;
        added.end = old.end > added.end ? old.end : added.end;
      }
    }
    auto it = merged.begin();
    while (it != merged.end() && it->begin < added.begin)
      ++it;
    merged.insert(it, added);
    ranges_ = std::move(merged);
  }

  bool empty() const {
    return ranges_.empty();
  }
  bool covers(byte_range wanted) const {
    for (byte_range const &range : ranges_)
      if (range.begin <= wanted.begin && range.end >= wanted.end)
        return true;
    return false;
  }
  const std::vector<byte_range> &ranges() const {
    return ranges_;
  }
  std::vector<byte_range> take() {
    std::vector<byte_range> result;
    result.swap(ranges_);
    return result;
  }

 private:
  std::vector<byte_range> ranges_;
};

}  // namespace tanada::gfile
