// sim/persistent_memory.cc: see persistent_memory.hpp.
#include "sim/persistent_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::sim {

class persistent_memory::mapping final : public seams::persistent_mapping {
 public:
  explicit mapping(persistent_memory &owner) : owner_{owner} {
    TND_ASSERT(!owner.is_mapped_);
    owner.is_mapped_ = true;
  }
  // The process may have ended: what it has not drained is in no buffer any more.
  ~mapping() override {
    owner_.is_mapped_ = false;
    owner_.flushed_.clear();
  }
  std::byte *addr() const noexcept override {
    return owner_.cached_.get();
  }
  uint64_t size() const noexcept override {
    return owner_.size_;
  }
  uint64_t granule() const noexcept override {
    return owner_.granule_;
  }
  void flush(const std::byte *begin, uint64_t size) override {
    TND_ASSERT(begin >= addr() && begin + size <= addr() + owner_.size_);
    owner_.flush(uint64_t(begin - addr()), size);
  }
  void drain() override {
    owner_.drain();
  }

 private:
  persistent_memory &owner_;
};

void persistent_memory::page_deleter::operator()(std::byte *bytes) const noexcept {
  ::operator delete[](bytes, std::align_val_t{granule_max});
}

persistent_memory::persistent_memory(uint64_t size, std::byte initial)
    : size_{size},
      cached_{static_cast<std::byte *>(::operator new[](size, std::align_val_t{granule_max}))},
      durable_(size, initial) {
  TND_ASSERT(size % page_size == 0);
  std::memcpy(cached_.get(), durable_.data(), size);
}

result<std::unique_ptr<seams::persistent_mapping>> persistent_memory::map(int) {
  if (!is_ordinary_)
    return std::unique_ptr<seams::persistent_mapping>{std::make_unique<mapping>(*this)};
  set_last_message("it is ordinary memory");
  return status::not_supported;
}

// Whole lines are written back.
void persistent_memory::flush(uint64_t offset, uint64_t size) {
  counted_.flushes++;
  counted_.flushed_size += size;
  if (fault_ == flush_fault::no_effect || size == 0)
    return;
  uint64_t const begin = offset & ~(line_size - 1);
  uint64_t end = (offset + size + line_size - 1) & ~(line_size - 1);
  if (fault_ == flush_fault::first_line)
    end = begin + line_size;
  flushed_.push_back({begin, {cached_.get() + begin, cached_.get() + end}});
}

void persistent_memory::drain() {
  counted_.drains++;
  auto written = std::exchange(flushed_, {});
  if (fault_ == flush_fault::late)
    written.swap(late_);
  for (const line_range &range : written)
    std::memcpy(durable_.data() + range.offset, range.bytes.data(), range.bytes.size());
}

void persistent_memory::fail_power(prng &random) {
  TND_ASSERT(!is_mapped_);
  for (uint64_t page = 0; page < size_; page += page_size) {
    if (std::memcmp(cached_.get() + page, durable_.data() + page, page_size) == 0)
      continue;
    for (uint64_t line = page; line < page + page_size; line += line_size) {
      if (random.chance(50))
        std::memcpy(durable_.data() + line, cached_.get() + line, line_size);
      else
        std::memcpy(cached_.get() + line, durable_.data() + line, line_size);
    }
  }
}

}  // namespace tanada::sim
