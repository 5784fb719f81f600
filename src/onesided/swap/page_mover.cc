// The page mover's moves: swapping processes out and in, and the buffers and store operations for
// it.
#include "onesided/swap/page_mover.hpp"

#include <sys/mman.h>
#include <tanada/status.h>

#include <algorithm>
#include <array>

#include "core/base/bounded_text.hpp"
#include "core/base/log.hpp"
#include "onesided/swap/page_mover_state.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::onesided::swap {
namespace {

constexpr uint32_t reserved_for_requests = 2;  // buffers that moves leave for requests
// So few clean pages between others are moved along, because one operation is faster than two.
constexpr uint32_t bridge_pages = 16;
constexpr uint32_t left_out_pages_min = 64;  // shorter runs of cold pages are read with the others
constexpr uint32_t drop_pages_max = 1024;    // at a time
constexpr uint32_t grow_pages = 1024;
constexpr uint32_t rounds_max = 8;  // until completions are polled again
constexpr uint64_t drain_timeout_ns = 5'000'000'000;
constexpr size_t buffer_alignment = size_t{2} << 20;  // a large page
static_assert(buffer_alignment % page_size == 0);

// Maps memory for `size` bytes of buffers and their alignment. Large pages are used where the
// system provides them, so that a device needs few descriptors for an operation.
std::span<std::byte> map_buffers(size_t size) {
  size_t const mapped_size = size + buffer_alignment;
  void *const mapping = mmap(nullptr,
                             mapped_size,
                             PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                             -1,
                             0);
  TND_ASSERT(mapping != MAP_FAILED);
  // The kernel writes to it whenever a read completes.
  (void)madvise(mapping, mapped_size, MADV_DONTFORK);
  (void)madvise(mapping, mapped_size, MADV_HUGEPAGE);
  return {static_cast<std::byte *>(mapping), mapped_size};
}

// The `size` aligned bytes of the memory. Touches them now, so that the memory of this process
// measured at the start includes them.
std::byte *prepare_buffers(std::span<std::byte> memory, size_t size) {
  size_t const excess = reinterpret_cast<uintptr_t>(memory.data()) % buffer_alignment;
  auto *const buffers = memory.data() + (buffer_alignment - excess) % buffer_alignment;
  for (size_t offset = 0; offset < size; offset += page_size)
    buffers[offset] = std::byte{0};
  return buffers;
}

}  // namespace

page_mover::page_mover(seams::store_queue &queue,
                       std::vector<swappable_memory> ranks,
                       const page_mover_options &options,
                       std::span<std::byte> copies)
    : queue_{queue}, options_{options}, copies_{copies} {
  TND_ASSERT(options.depth > reserved_for_requests &&
             options.chunk_pages >= page_request::page_count_max);
  size_t const chunk_size = options.chunk_pages * page_size, size = buffer_size(options);
  memory_ = map_buffers(size);
  auto *const buffers = prepare_buffers(memory_, size);
  auto const copy_count = uint32_t(copies.size() / node_table::copy_size);
  chunks_.resize(options.depth + (copy_count == 0 ? 0 : copy_depth));
  for (uint32_t i = 0; i < options.depth; i++)
    chunks_[i].buffer = buffers + i * chunk_size;
  for (uint32_t i = copy_count; i > 0; i--)
    free_copies_.push_back(i - 1);
  for (auto &rank : ranks) {
    uint32_t const page_count = rank.memory.page_count();
    ranks_.push_back(
        std::make_unique<rank_space>(uint32_t(ranks_.size()), std::move(rank), page_count));
  }
}

page_mover::~page_mover() {
  auto &time = seams::monotonic_clock();
  std::array<seams::store_completion, 16> completions;
  for (uint64_t const deadline_ns = time.now_ns() + drain_timeout_ns;
       busy_count_ != 0 && time.now_ns() < deadline_ns;) {
    size_t const count = queue_.poll(completions);
    busy_count_ -= uint32_t(count);
    if (count == 0)
      time.sleep_ns(50'000);
  }
  // A store may still write to memory of operations in flight, so that memory stays mapped.
  if (busy_count_ == 0)
    munmap(memory_.data(), memory_.size());
  else
    for (auto &rank : ranks_)
      (void)rank->window.release();
}

void page_mover::begin(const move_order &order) {
  TND_ASSERT(order.rank < ranks_.size());
  auto &rank = *ranks_[order.rank];
  TND_ASSERT(!rank.move && rank.current_phase == (order.dir == move_order::direction::swap_out
                                                      ? phase::resident
                                                      : phase::swapped_out));
  rank.move = order;
  rank.has_begun = false;
  rank.cursor = 0;
  rank.moved_pages = 0;
  move_count_++;
  if (order.dir == move_order::direction::swap_out) {
    moves_out_++;
    return;
  }
  moves_in_++;
  rank.current_phase = phase::swapping_in;
  rank.has_begun = true;
  rank.epoch++;  // the cached pages belong to the process again
  TND_ASSERT(!failure_.empty() || cached_pages_ >= rank.resident_count);
  cached_pages_ -= rank.resident_count;
  choose_left_out(rank);
}

// Pages in DRAM, or being read, are the process's again.
void page_mover::choose_left_out(rank_space &rank) {
  if (!rank.may_leave_out())
    return;
  TND_ASSERT(rank.find_left_out(0, rank.extent) == rank.extent);
  rank.cold.for_each_run(true, rank.all_pages(), [&](page_run cold) {
    for (uint32_t first = rank.find_unread(cold.first, cold.end()); first < cold.end();) {
      uint32_t const end = rank.find_unread_end(first, cold.end());
      if (end - first >= left_out_pages_min)
        rank.left_out.set({first, end - first});
      first = rank.find_unread(end, cold.end());
    }
  });
}

bool page_mover::poll(page_mover_events &events) {
  if (!failure_.empty())
    return false;
  bool const has_reaped = reap();
  bool has_moved = false;
  uint32_t const count = uint32_t(ranks_.size());
  if (request_count_ != 0) {
    for (auto &rank : ranks_)
      has_moved |= advance_requests(*rank, events);
  }
  bool may_advance = move_count_ != 0;
  for (uint32_t round = 0; may_advance && round < rounds_max && failure_.empty(); round++) {
    may_advance = false;
    for (uint32_t i = 0; i < count; i++) {
      auto &rank = *ranks_[(next_rank_ + i) % count];
      if (rank.move)
        may_advance |= advance(rank);
    }
    has_moved |= may_advance;
  }
  if (count != 0)
    next_rank_ = (next_rank_ + 1) % count;
  for (uint32_t i = 0; move_count_ != 0 && i < count; i++) {
    if (ranks_[i]->move)
      has_moved |= finish_move(*ranks_[i], events);
  }
  return has_reaped || has_moved;
}

bool page_mover::reap() {
  if (busy_count_ == 0)
    return false;
  std::array<seams::store_completion, 4> completions;
  size_t const count = queue_.poll(completions);
  for (size_t i = 0; i < count; i++) {
    TND_ASSERT(completions[i].op_id < chunks_.size());
    complete(chunks_[completions[i].op_id], completions[i]);
  }
  return count != 0;
}

void page_mover::complete(chunk &transfer, const seams::store_completion &completion) {
  TND_ASSERT(transfer.kind != purpose::unused);
  auto &rank = *ranks_[transfer.rank];
  bool const is_read = reads(transfer.kind);
  status code = completion.code;
  if (code == status::ok && transfer.kind != purpose::grow &&
      completion.size != transfer.pages.size())
    code = status::io;
  if (code != status::ok) {
    record_failure(code, is_read ? "reading" : "writing", rank, transfer.pages);
  } else if (transfer.kind == purpose::grow) {
    rank.object_end = transfer.pages.end();
    rank.is_growing = false;
  } else if (transfer.kind == purpose::swap_out) {
    complete_swap_out(rank, transfer);
  } else if (transfer.kind == purpose::write_back) {
    complete_write_back(rank, transfer);
  } else if (transfer.kind == purpose::copy) {
    complete_copy(rank, transfer);
  } else {
    complete_read(rank, transfer);
  }
  release(transfer);
}

// Pages of zeros that were written along are not read back.
void page_mover::complete_swap_out(rank_space &rank, chunk &transfer) {
  rank.stored.clear(transfer.pages);
  uint32_t const count = transfer.pages.count;
  for (uint32_t first = find_zero_page(false, transfer.bytes, 0, count); first < count;) {
    uint32_t const end = find_zero_page(true, transfer.bytes, first, count);
    rank.stored.set({transfer.pages.first + first, end - first});
    first = find_zero_page(false, transfer.bytes, end, count);
  }
  rank.moved_pages += count;
  if (!transfer.is_direct)
    drop(rank, transfer.pages);
}

// Take only the pages that were to be read: other pages may be newer in memory.
void page_mover::complete_read(rank_space &rank, chunk &transfer) {
  rank.in_flight->for_each_run(true, transfer.pages, [&](page_run pages) {
    if (transfer.is_direct)
      mark_resident(rank, pages);
    else
      install_pages(rank, pages, transfer.buffer + (pages.offset() - transfer.pages.offset()));
    rank.in_flight->clear(pages);
    if (transfer.kind == purpose::swap_in)
      rank.moved_pages += pages.count;
    if (transfer.kind == purpose::serve)
      served_pages_ += pages.count;
  });
}

void page_mover::install_pages(rank_space &rank, page_run pages, const std::byte *source) {
  if (status const code = rank.memory.write(pages, source); code != status::ok)
    return record_failure(code, "copying in", rank, pages);
  mark_resident(rank, pages);
}

// From now on the pages are in DRAM.
void page_mover::mark_resident(rank_space &rank, page_run pages) {
  rank.resident->set(pages);
  rank.resident_count += pages.count;
  if (rank.may_leave_out()) {
    // Others access the pages as soon as they find the bits clear.
    std::atomic_thread_fence(std::memory_order_release);
    rank.left_out.clear(pages);
  }
  if (rank.current_phase != phase::swapped_out)
    return;
  cached_pages_ += pages.count;
  rank.recently_used->set(pages);
  cache_.push_back({rank.index, rank.epoch, pages});
}

void page_mover::drop(rank_space &rank, page_run pages) {
  if (status const code = rank.memory.drop(pages); code != status::ok)
    return record_failure(code, "dropping", rank, pages);
  TND_ASSERT(rank.resident_count >= pages.count);
  rank.resident->clear(pages);
  rank.resident_count -= pages.count;
  if (rank.window != nullptr)
    rank.window->forget(pages);
}

bool page_mover::advance(rank_space &rank) {
  TND_ASSERT(rank.move.has_value());
  if (rank.move->dir == move_order::direction::swap_in)
    return advance_swap_in(rank);
  if (!rank.has_begun && !begin_swap_out(rank))
    return false;
  return advance_swap_out(rank);
}

// False: origins may still access its pages.
bool page_mover::begin_swap_out(rank_space &rank) {
  if (rank.busy_count != 0 ||
      std::any_of(rank.requests.begin(), rank.requests.end(), [](auto &active) {
        return active.is_served && !active.is_copied();
      }))
    return false;
  for (auto &active : rank.requests)
    active.are_reads_posted = active.are_reads_posted && active.is_copied();
  rank.has_begun = true;
  rank.current_phase = phase::swapping_out;
  rank.resident->clear(rank.all_pages());
  rank.resident_count = 0;
  status const code = rank.memory.for_each_present([&](page_run pages) {
    rank.resident->set(pages);
    rank.resident_count += pages.count;
    rank.extent = std::max(rank.extent, pages.end());
  });
  if (code != status::ok)
    record_failure(code, "scanning", rank, rank.all_pages());
  forget_discarded(rank);
  if (rank.object_end < rank.extent)
    grow(rank);
  return true;
}

// Stored pages were read back before the process ran, or were left out. Any other stored page that
// is not in memory was dropped by its owner.
void page_mover::forget_discarded(rank_space &rank) {
  rank.resident->for_each_run(false, rank.all_pages(), [&](page_run pages) {
    for (uint32_t first = pages.first; first < pages.end();) {
      uint32_t const end = rank.find_left_out(first, pages.end());
      rank.stored.clear({first, end - first});
      first = end == pages.end() ? end : rank.left_out.find(false, end, pages.end());
    }
  });
  if (rank.may_leave_out())
    rank.left_out.clear(rank.all_pages());
}

// File systems serialize writes beyond the end of a file, so extend the object first.
void page_mover::grow(rank_space &rank) {
  chunk *const transfer = acquire(purpose::grow);
  if (transfer == nullptr)
    return;  // the writes extend the object, too
  uint32_t const end = (rank.extent + grow_pages - 1) / grow_pages * grow_pages;
  assign(rank, *transfer, {0, std::min(end, rank.memory.page_count())});
  rank.is_growing = true;
  post(*transfer);
}

uint32_t page_mover::rank_space::find_unread(uint32_t position, uint32_t end) const noexcept {
  for (;;) {
    uint32_t const next = stored.find(true, position, end);
    if (next == end)
      return end;
    position = resident->find(false, next, end);
    if (position != end && is_left_out(position))
      position = left_out.find(false, position, end);
    if (position == end)
      return end;
    if (resident->test(position))
      continue;
    if (stored.test(position) && !in_flight->test(position))
      return position;
    if (stored.test(position))
      position++;
  }
}

uint32_t page_mover::rank_space::find_unread_end(uint32_t first, uint32_t end) const noexcept {
  return std::min({stored.find(false, first, end),
                   resident->find(true, first, end),
                   find_left_out(first, end),
                   in_flight->find(true, first, end)});
}

uint32_t page_mover::rank_space::find_unstored_end(uint32_t first, uint32_t end) const noexcept {
  uint32_t run_end = stored.find(true, first, end);
  while (run_end < end) {
    uint32_t const next = stored.find(false, run_end, end);
    if (next == end || next - run_end > bridge_pages)
      break;
    run_end = stored.find(true, next, end);
  }
  return run_end;
}

bool page_mover::advance_swap_out(rank_space &rank) {
  TND_ASSERT(rank.current_phase == phase::swapping_out);
  if (rank.is_growing)
    return false;
  uint32_t const first = rank.resident->find(true, rank.cursor, rank.extent);
  rank.cursor = first;
  if (first == rank.extent)
    return false;
  if (rank.stored.test(first)) {
    uint32_t const limit = std::min(rank.extent, first + drop_pages_max);
    uint32_t const end = rank.stored.find(
        false, first, rank.resident->find(false, first, rank.end_in_block(first, limit)));
    if (!rank.is_large(first))
      drop(rank, {first, end - first});
    rank.cursor = end;
    return true;
  }
  uint32_t const pages_max =
      rank.is_large(first) ? memory_window::block_pages : options_.chunk_pages;
  uint32_t const limit = rank.resident->find(
      false, first, rank.end_in_block(first, std::min(rank.extent, first + pages_max)));
  return write_out(rank, {first, rank.find_unstored_end(first, limit) - first});
}

// Writes the pages from the first one on, up to a long run of zeros, and moves the cursor behind
// the handled ones.
bool page_mover::write_out(rank_space &rank, page_run pages) {
  chunk *const transfer = acquire(purpose::swap_out);
  if (transfer == nullptr)
    return false;
  transfer->is_direct = rank.is_large(pages.first);
  assign(rank, *transfer, pages);
  page_run const copied = transfer->is_direct ? pages : copy_out(rank, pages, *transfer);
  page_run const written =
      failure_.empty() ? find_write(rank, copied, transfer->bytes) : page_run{};
  if (written.count == 0) {
    release(*transfer);
    return failure_.empty();
  }
  transfer->bytes += (written.first - copied.first) * page_size;
  transfer->pages = written;
  post(*transfer);
  return true;
}

// Copies pages to the buffer, in parts, so that pages after a long run of zeros are not copied
// twice. Returns the copied pages.
page_run page_mover::copy_out(rank_space &rank, page_run pages, chunk &transfer) {
  constexpr uint32_t part_pages = 64;
  static_assert(part_pages >= bridge_pages);
  page_run copied{pages.first, 0};
  while (copied.count < pages.count) {
    page_run const part{copied.end(), std::min(part_pages, pages.count - copied.count)};
    std::byte *const bytes = transfer.buffer + copied.size();
    if (status const code = rank.memory.read(part, bytes); code != status::ok) {
      record_failure(code, "copying", rank, part);
      break;
    }
    copied.count += part.count;
    if (part.count == part_pages && find_zero_page(false, bytes, 0, part.count) == part.count)
      break;
  }
  return copied;
}

// The pages to write next: from the first one that is not zero to the next long run of zeros. The
// zeros before and after them are dropped, and the cursor is moved behind these. Empty: all pages
// are zeros.
page_run page_mover::find_write(rank_space &rank, page_run pages, const std::byte *bytes) {
  uint32_t const count = pages.count, first = find_zero_page(false, bytes, 0, count);
  uint32_t end = first, next = first;  // the end of the pages to write, and of the zeros after them
  while (next < count) {
    end = find_zero_page(true, bytes, next, count);
    next = find_zero_page(false, bytes, end, count);
    if (next - end > bridge_pages)
      break;
  }
  drop_zeros(rank, {pages.first, first});
  drop_zeros(rank, {pages.first + end, next - end});
  rank.cursor = pages.first + next;
  return {pages.first + first, end - first};
}

void page_mover::drop_zeros(rank_space &rank, page_run pages) {
  if (pages.count == 0)
    return;
  rank.stored.clear(pages);
  zero_pages_ += pages.count;
  if (!rank.is_large(pages.first))
    drop(rank, pages);
}

bool page_mover::advance_swap_in(rank_space &rank) {
  TND_ASSERT(rank.current_phase == phase::swapping_in);
  if (!has_free_chunk(purpose::swap_in))
    return false;
  uint32_t const first = rank.find_unread(rank.cursor, rank.extent);
  rank.cursor = first;
  if (first == rank.extent)
    return false;
  if (read_large(rank, first))
    return true;
  uint32_t const limit =
      rank.end_in_block(first, std::min(rank.extent, first + options_.chunk_pages));
  uint32_t end = rank.find_unread_end(first, limit);
  rank.in_flight->set({first, end - first});
  while (end < limit) {
    uint32_t const next = rank.find_unread(end, limit);
    if (next == limit || next - end > bridge_pages)
      break;
    end = rank.find_unread_end(next, limit);
    rank.in_flight->set({next, end - next});
  }
  rank.cursor = end;
  return read(rank, {first, end - first}, purpose::swap_in);
}

// False: the page does not begin a block that can be read as a whole, or no large page is
// available.
bool page_mover::read_large(rank_space &rank, uint32_t first) {
  page_run const block{first, memory_window::block_pages};
  if (rank.window == nullptr || block.end() > rank.extent || !rank.window->is_block(block))
    return false;
  bool const is_whole = rank.stored.find(false, first, block.end()) == block.end() &&
                        rank.resident->find(true, first, block.end()) == block.end() &&
                        rank.in_flight->find(true, first, block.end()) == block.end() &&
                        rank.find_left_out(first, block.end()) == block.end();
  if (!is_whole || !rank.window->make_large(block))
    return false;
  rank.in_flight->set(block);
  rank.cursor = block.end();
  large_blocks_++;
  return read(rank, block, purpose::swap_in, true);
}

void page_mover::drop_large(rank_space &rank) {
  if (rank.window == nullptr)
    return;
  rank.resident->for_each_run(true, rank.all_pages(), [&](page_run pages) { drop(rank, pages); });
}

bool page_mover::finish_move(rank_space &rank, page_mover_events &events) {
  if (!rank.has_begun || rank.cursor < rank.extent || rank.busy_count != 0 || !failure_.empty())
    return false;
  bool const is_out = rank.move->dir == move_order::direction::swap_out;
  if (is_out)
    drop_large(rank);
  if (!failure_.empty())
    return false;
  TND_ASSERT(!is_out || rank.resident_count == 0);
  rank.current_phase = is_out ? phase::swapped_out : phase::resident;
  node_table::move_result result{.moved_size = rank.moved_pages * page_size};
  (is_out ? result.swapped_size : result.resident_size) =
      uint64_t(is_out ? rank.stored.count_set(rank.all_pages()) : rank.resident_count) * page_size;
  if (!is_out && rank.may_leave_out())
    result.left_out_size = uint64_t{rank.left_out.count_set(rank.all_pages())} * page_size;
  events.moves.push_back({*rank.move, result});
  rank.move.reset();
  rank.epoch++;
  if (is_out)
    rank.recently_used->clear(rank.all_pages());
  move_count_--;
  (is_out ? moves_out_ : moves_in_)--;
  return true;
}

// Moves in both directions share the buffers.
bool page_mover::has_free_chunk(purpose kind) const noexcept {
  if (kind == purpose::copy)
    return busy_copies_ < chunks_.size() - options_.depth;
  uint32_t const depth = options_.depth, busy = busy_count_ - busy_copies_;
  if (kind == purpose::serve)
    return busy < depth;
  if (busy + reserved_for_requests >= depth)
    return false;
  bool const is_shared = moves_out_ != 0 && moves_in_ != 0;
  uint32_t const count_max = is_shared ? (depth - reserved_for_requests + 1) / 2 : depth;
  return (kind == purpose::swap_in ? busy_in_ : busy_out_) < count_max;
}

page_mover::chunk *page_mover::acquire(purpose kind) noexcept {
  if (!has_free_chunk(kind))
    return nullptr;
  auto const first = chunks_.begin() + (kind == purpose::copy ? options_.depth : 0);
  auto const it = std::find_if(
      first, chunks_.end(), [](auto &candidate) { return candidate.kind == purpose::unused; });
  TND_ASSERT(it != chunks_.end());
  it->kind = kind;
  it->is_direct = false;
  busy_count_++;
  if (kind == purpose::swap_in)
    busy_in_++;
  if (kind == purpose::swap_out)
    busy_out_++;
  if (kind == purpose::copy)
    busy_copies_++;
  return &*it;
}

void page_mover::release(chunk &transfer) noexcept {
  TND_ASSERT(ranks_[transfer.rank]->busy_count != 0 && busy_count_ != 0);
  ranks_[transfer.rank]->busy_count--;
  busy_count_--;
  if (transfer.kind == purpose::swap_in)
    busy_in_--;
  if (transfer.kind == purpose::swap_out)
    busy_out_--;
  if (transfer.kind == purpose::copy)
    busy_copies_--;
  transfer.kind = purpose::unused;
}

void page_mover::assign(rank_space &rank, chunk &transfer, page_run pages) {
  transfer.rank = rank.index;
  transfer.epoch = rank.epoch;
  transfer.pages = pages;
  transfer.bytes = transfer.is_direct ? rank.window->address(pages) : transfer.buffer;
  rank.busy_count++;
}

bool page_mover::read(rank_space &rank, page_run pages, purpose kind, bool is_direct) {
  chunk *const transfer = acquire(kind);
  if (transfer == nullptr)
    return false;
  transfer->is_direct = is_direct;
  assign(rank, *transfer, pages);
  post(*transfer);
  return true;
}

void page_mover::post(chunk &transfer) {
  bool const is_read = reads(transfer.kind);
  seams::store_op op;
  op.kind = transfer.kind == purpose::grow ? seams::store_op_kind::truncate
            : is_read                      ? seams::store_op_kind::read
                                           : seams::store_op_kind::write;
  op.op_id = uint64_t(&transfer - chunks_.data());
  op.file = ranks_[transfer.rank]->object;
  op.offset = transfer.pages.offset();
  op.size = transfer.pages.size();
  if (transfer.kind != purpose::grow)
    op.buffers = {{transfer.bytes, transfer.pages.size()}};
  status const code = queue_.post(std::move(op));
  if (code == status::ok)
    return;
  record_failure(code, is_read ? "reading" : "writing", *ranks_[transfer.rank], transfer.pages);
  release(transfer);
}

void page_mover::record_failure(status code,
                                const char *action,
                                const rank_space &rank,
                                page_run pages) {
  if (!failure_.empty())
    return;
  failure_ = format_text("{} {} bytes at {} of rank {}'s swappable memory: {}",
                         action,
                         pages.size(),
                         pages.offset(),
                         rank.index,
                         tnd_status_text(tnd_status(code)))
                 .view();
}

}  // namespace tanada::onesided::swap
