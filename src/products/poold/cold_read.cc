// Reads of cold objects: the order of requests, checksums, and the budget of buffers.
#include "products/poold/cold_read.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "products/poold/log/block_buffer.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t budget_size_min = uint64_t{16} << 20, budget_size_max = uint64_t{1} << 30;
constexpr uint64_t budget_share = 16;
constexpr size_t part_range_count_max = 64;  // requests of one part

}  // namespace

cold_load::cold_load(std::shared_ptr<cold_reader> reader, target memory, read_notice notice)
    : reader_{std::move(reader)},
      owner_{std::move(memory.owner)},
      notice_{std::move(notice)},
      rest_{std::move(memory.parts)} {
  TND_ASSERT(reader_ != nullptr && notice_ != nullptr);
}

void cold_load::start() {
  for (size_t i = 0; i < cold_part_count_max; i++)
    post_next();
}

void cold_load::post_next() {
  uint64_t offset = 0;
  pool::part_list list;
  {
    lock_guard lock{mutex_};
    if (outcome_ != status::ok || rest_.is_at_end())
      return;
    rest_.add_to(list, cold_part_size);
    (void)rest_.advance(list.size());
    offset = posted_size_;
    posted_size_ += list.size();
    pending_count_++;
  }
  std::vector<seams::store_buffer> buffers;
  for (const iovec &part : list.parts())
    buffers.push_back({static_cast<std::byte *>(part.iov_base), part.iov_len});
  reader_->read(offset, std::move(buffers), [self = shared_from_this()](status code) {
    self->finish_part(code);
  });
}

void cold_load::finish_part(status code) {
  bool is_last = false;
  {
    lock_guard lock{mutex_};
    TND_ASSERT(pending_count_ > 0);
    pending_count_--;
    if (code != status::ok && outcome_ == status::ok)
      outcome_ = code;
    is_last = pending_count_ == 0 && (outcome_ != status::ok || rest_.is_at_end());
  }
  if (is_last)
    notice_();
  else
    post_next();
}

bool cold_load::is_done() const {
  lock_guard lock{mutex_};
  return pending_count_ == 0 && (outcome_ != status::ok || rest_.is_at_end());
}

status cold_load::outcome() const {
  lock_guard lock{mutex_};
  return outcome_;
}

bool read_budget::acquire(uint64_t amount) noexcept {
  if (used_.fetch_add(amount, std::memory_order_relaxed) + amount <= size_)
    return true;
  release(amount);
  return false;
}

uint64_t read_budget::size_for(uint64_t capacity) noexcept {
  return std::clamp(capacity / budget_share, budget_size_min, budget_size_max);
}

cold_stream::part::part(uint64_t part_size)
    : bytes{static_cast<std::byte *>(
          std::aligned_alloc(pool::block_size, pool::whole_blocks(part_size)))},
      size{part_size} {
  TND_ASSERT(bytes != nullptr);
}

cold_stream::cold_stream(selection source, std::shared_ptr<read_budget> budget, read_notice notice)
    : source_{std::move(source)}, budget_{std::move(budget)}, notice_{std::move(notice)} {
  for (const wire::pool::range &interval : source_.ranges)
    total_size_ += interval.size;
}

result<std::shared_ptr<cold_stream>> cold_stream::create(selection source,
                                                         std::shared_ptr<read_budget> budget,
                                                         bool is_lone,
                                                         read_notice notice) {
  std::shared_ptr<cold_stream> created{
      new cold_stream{std::move(source), std::move(budget), std::move(notice)}};
  uint64_t const window = std::min(created->total_size_, cold_part_count_max * cold_part_size);
  if (created->budget_ == nullptr || created->budget_->acquire(window)) {
    created->charged_size_ = window;
    created->part_size_ = cold_part_size;
    created->part_count_max_ = cold_part_count_max;
  } else if (!is_lone) {
    return status::busy;
  }
  return created;
}

cold_stream::~cold_stream() {
  if (budget_ != nullptr)
    budget_->release(charged_size_);
}

void cold_stream::post_parts() {
  while (parts_.size() < part_count_max_ && posted_size_ < total_size_)
    post_part();
}

// Request the next part of the bytes to be sent, from one or more ranges.
void cold_stream::post_part() {
  TND_ASSERT(posted_size_ < total_size_);
  struct piece {
    uint64_t offset, size, position;
  };
  std::vector<piece> pieces;
  uint64_t size = 0;
  while (size < part_size_ && range_ < source_.ranges.size() &&
         pieces.size() < part_range_count_max) {
    const wire::pool::range &interval = source_.ranges[range_];
    uint64_t const part_size = std::min(part_size_ - size, interval.size - range_offset_);
    if (part_size > 0)
      pieces.push_back({interval.offset + range_offset_, part_size, size});
    size += part_size;
    range_offset_ += part_size;
    if (range_offset_ == interval.size) {
      range_++;
      range_offset_ = 0;
    }
  }
  auto const target = std::make_shared<part>(size);
  posted_size_ += size;
  target->pending_count = uint32_t(pieces.size());
  parts_.push_back(target);
  for (const piece &next : pieces) {
    source_.reader->read(next.offset,
                         {{target->bytes.get() + next.position, size_t(next.size)}},
                         [target, notice = notice_](status code) {
                           if (code != status::ok)
                             target->code.store(code);
                           if (target->pending_count.fetch_sub(1, std::memory_order_acq_rel) == 1)
                             notice();
                         });
  }
}

bool cold_stream::is_window_read() const {
  return std::all_of(
      parts_.begin(), parts_.end(), [](auto const &target) { return target->is_read(); });
}

status cold_stream::check_window() {
  TND_ASSERT(is_window_read());
  for (auto const &target : parts_)
    TND_TRY(check_part(*target));
  return status::ok;
}

// Add a part to the checksum, which is compared after the last one. In order.
status cold_stream::check_part(part &target) {
  if (status const code = target.code.load(); code != status::ok)
    return code;
  if (!source_.is_whole || target.is_summed)
    return status::ok;
  logged_checksum const expected = source_.reader->checksum();
  if (sum_ == nullptr)
    sum_ = std::make_unique<pool::checksum>(expected.kind);
  sum_->add(target.bytes.get(), target.size);
  target.is_summed = true;
  summed_size_ += target.size;
  bool const is_wrong = summed_size_ == total_size_ && !expected.matches(*sum_);
  if (is_wrong)
    target.code.store(status::corrupt);
  return target.code.load();
}

void cold_stream::copy_to(std::span<const iovec> parts) const {
  TND_ASSERT(is_complete());
  pool::part_cursor position{{parts.begin(), parts.end()}};
  for (auto const &source : parts_) {
    size_t const size = position.fill({source->bytes.get(), size_t(source->size)});
    TND_ASSERT(size == source->size);
  }
}

status cold_stream::next_state() {
  if (parts_.empty())
    return is_at_end() ? status::ok : status::again;
  part &next = *parts_.front();
  return next.is_read() ? check_part(next) : status::again;
}

bool cold_stream::add_to(pool::part_list &list, uint64_t size_max) {
  for (auto const &source : parts_) {
    if (size_max == 0 || list.is_full() || !source->is_read() || check_part(*source) != status::ok)
      return false;
    uint64_t const size = std::min(size_max, source->size - source->sent_size);
    list.add(source->bytes.get() + source->sent_size, size);
    size_max -= size;
    if (source->sent_size + size < source->size)
      return false;
  }
  return posted_size_ == total_size_;
}

uint64_t cold_stream::advance(uint64_t size) {
  while (size > 0 && !parts_.empty()) {
    part &sent = *parts_.front();
    uint64_t const part_size = std::min(size, sent.size - sent.sent_size);
    sent.sent_size += part_size;
    sent_size_ += part_size;
    size -= part_size;
    if (sent.sent_size < sent.size)
      break;
    parts_.pop_front();
  }
  post_parts();
  return size;
}

}  // namespace tanada::poold
