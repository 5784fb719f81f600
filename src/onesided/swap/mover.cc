#include "onesided/swap/mover.hpp"

#include <sys/mman.h>
#include <tanada/status.h>

#include <algorithm>
#include <array>

#include "core/base/log.hpp"
#include "onesided/swap/mover_state.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::comex::swap {
namespace {

constexpr uint32_t kept_for_requests = 2;  // buffers that moves leave alone
constexpr uint32_t bridge_pages =
    16;  // so few pages between others are moved along: one operation is faster than two
constexpr uint32_t drop_pages_max = 1024;  // at a time
constexpr uint32_t grow_pages = 1024;
constexpr uint32_t rounds_max = 8;  // until what has come is looked at again
constexpr uint64_t end_timeout_ns = 5'000'000'000;

}  // namespace

mover::mover(port::store_queue &queue, std::vector<swappable> ranks, const mover_options &chosen,
             std::span<std::byte> copies)
    : queue_{queue}, options_{chosen}, copies_{copies} {
  TND_ASSERT(chosen.depth > kept_for_requests && chosen.chunk_pages >= request::page_count_max);
  // Large pages where the system gives them: what a device is told of one operation gets short.
  constexpr size_t large_page = size_t{2} << 20;
  size_t const chunk_size = chosen.chunk_pages * page_size, size = buffer_size(chosen);
  void *const made = mmap(nullptr, size + large_page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TND_ASSERT(made != MAP_FAILED);
  memory_ = {static_cast<std::byte *>(made), size + large_page};
  (void)madvise(made, memory_.size(), MADV_DONTFORK);  // the system writes to it whenever reads end
  (void)madvise(made, memory_.size(), MADV_HUGEPAGE);
  auto *const buffers =
      memory_.data() + (large_page - reinterpret_cast<uintptr_t>(made) % large_page) % large_page;
  // Now, so that what is measured of this process at the start is what it has later.
  for (size_t offset = 0; offset < size; offset += page_size)
    buffers[offset] = std::byte{0};
  auto const copy_count = uint32_t(copies.size() / board::copy_size);
  chunks_.resize(chosen.depth + (copy_count == 0 ? 0 : copy_depth));
  for (uint32_t i = 0; i < chosen.depth; i++)
    chunks_[i].buffer = buffers + i * chunk_size;
  for (uint32_t i = copy_count; i > 0; i--)
    free_copies_.push_back(i - 1);
  for (auto &each : ranks) {
    uint32_t const page_count = each.memory.page_count();
    ranks_.push_back(
        std::make_unique<rank_space>(uint32_t(ranks_.size()), std::move(each), page_count));
  }
}

mover::~mover() {
  auto &time = port::monotonic_clock();
  std::array<port::store_completion, 16> done;
  for (uint64_t const limit_ns = time.now_ns() + end_timeout_ns;
       busy_count_ != 0 && time.now_ns() < limit_ns;) {
    size_t const count = queue_.poll(done);
    busy_count_ -= uint32_t(count);
    if (count == 0)
      time.sleep_ns(50'000);
  }
  // What a store still has under way may be written to: it is left where it is.
  if (busy_count_ == 0)
    munmap(memory_.data(), memory_.size());
  else
    for (auto &each : ranks_)
      (void)each->window.release();
}

void mover::begin(const order &which) {
  auto &of = *ranks_[which.rank];
  TND_ASSERT(!of.move && of.at == (which.to == order::way::out ? phase::whole : phase::away));
  of.move = which;
  of.has_begun = false;
  of.cursor = 0;
  of.moved_pages = 0;
  move_count_++;
  if (which.to == order::way::out) {
    moves_out_++;
    return;
  }
  moves_in_++;
  of.at = phase::coming;
  of.has_begun = true;
  of.epoch++;  // the cache's pages are its own again
  cached_pages_ -= of.here_count;
}

bool mover::poll(mover_news &news) {
  if (!failure_.empty())
    return false;
  bool const has_reaped = reap();
  bool has_moved = false;
  uint32_t const count = uint32_t(ranks_.size());
  if (serving_count_ != 0) {
    for (auto &each : ranks_)
      has_moved |= advance_requests(*each, news);
  }
  bool goes_on = move_count_ != 0;
  for (uint32_t round = 0; goes_on && round < rounds_max && failure_.empty(); round++) {
    goes_on = false;
    for (uint32_t i = 0; i < count; i++) {
      auto &each = *ranks_[(first_ + i) % count];
      if (each.move)
        goes_on |= advance(each);
    }
    has_moved |= goes_on;
  }
  if (count != 0)
    first_ = (first_ + 1) % count;
  for (uint32_t i = 0; move_count_ != 0 && i < count; i++) {
    if (ranks_[i]->move)
      has_moved |= end_move(*ranks_[i], news);
  }
  return has_reaped || has_moved;
}

bool mover::reap() {
  if (busy_count_ == 0)
    return false;
  std::array<port::store_completion, 4> done;
  size_t const count = queue_.poll(done);
  for (size_t i = 0; i < count; i++)
    complete(chunks_[done[i].op_id], done[i]);
  return count != 0;
}

void mover::complete(chunk &which, const port::store_completion &done) {
  auto &of = *ranks_[which.rank];
  bool const is_read = reads(which.why);
  status code = done.code;
  if (code == status::ok && which.why != purpose::grow && done.size != which.pages.size())
    code = status::io;
  if (code != status::ok) {
    fail_by(code, is_read ? "reading" : "writing", of, which.pages);
  } else if (which.why == purpose::grow) {
    of.object_end = which.pages.end();
    of.is_growing = false;
  } else if (which.why == purpose::out) {
    complete_out(of, which);
  } else if (which.why == purpose::write_back) {
    complete_write_back(of, which);
  } else if (which.why == purpose::copy) {
    complete_copy(of, which);
  } else {
    complete_read(of, which);
  }
  release(which);
}

void mover::complete_out(rank_space &of, chunk &which) {
  of.stored.set(which.pages);
  of.moved_pages += which.pages.count;
  if (!which.is_direct)
    drop(of, which.pages);
}

// Of what was read only those pages are taken that were to be: others may be newer in memory.
void mover::complete_read(rank_space &of, chunk &which) {
  of.flying->for_each_run(true, which.pages, [&](page_run pages) {
    if (which.is_direct)
      keep(of, pages);
    else
      bring(of, pages, which.buffer + (pages.offset() - which.pages.offset()));
    of.flying->clear(pages);
    if (which.why == purpose::in)
      of.moved_pages += pages.count;
    if (which.why == purpose::serve)
      served_pages_ += pages.count;
  });
}

void mover::bring(rank_space &of, page_run pages, const std::byte *from) {
  if (status const code = of.memory.write(pages, from); code != status::ok)
    return fail_by(code, "bringing back", of, pages);
  keep(of, pages);
}

// In DRAM from now on.
void mover::keep(rank_space &of, page_run pages) {
  of.here->set(pages);
  of.here_count += pages.count;
  if (of.at != phase::away)
    return;
  cached_pages_ += pages.count;
  of.used->set(pages);
  cache_.push_back({of.index, of.epoch, pages});
}

void mover::drop(rank_space &of, page_run pages) {
  if (status const code = of.memory.drop(pages); code != status::ok)
    return fail_by(code, "dropping", of, pages);
  of.here->clear(pages);
  of.here_count -= pages.count;
  if (of.window != nullptr)
    of.window->forget(pages);
}

bool mover::advance(rank_space &of) {
  if (of.move->to == order::way::in)
    return advance_in(of);
  if (!of.has_begun && !begin_out(of))
    return false;
  return advance_out(of);
}

// False: origins may still touch its pages.
bool mover::begin_out(rank_space &of) {
  if (std::any_of(of.servings.begin(), of.servings.end(),
                  [](auto &each) { return each.is_served && !each.is_copied(); }))
    return false;
  of.has_begun = true;
  of.at = phase::leaving;
  of.here->clear(of.all());
  of.here_count = 0;
  status const code = of.memory.for_each_present([&](page_run pages) {
    of.here->set(pages);
    of.here_count += pages.count;
    of.extent = std::max(of.extent, pages.end());
  });
  if (code != status::ok)
    fail_by(code, "looking for", of, of.all());
  // What is stored was brought back before it ran: where it is not there its owner has dropped it.
  of.here->for_each_run(false, of.all(), [&](page_run pages) { of.stored.clear(pages); });
  if (of.object_end < of.extent)
    grow(of);
  return true;
}

// Files take writes behind their end one after the other.
void mover::grow(rank_space &of) {
  chunk *const which = acquire(purpose::grow);
  if (which == nullptr)
    return;  // the writes will do
  which->rank = of.index;
  which->epoch = of.epoch;
  which->pages = {
      0, std::min((of.extent + grow_pages - 1) / grow_pages * grow_pages, of.memory.page_count())};
  of.is_growing = true;
  of.busy_count++;
  post(*which);
}

bool mover::advance_out(rank_space &of) {
  if (of.is_growing)
    return false;
  uint32_t const first = of.here->find(true, of.cursor, of.extent);
  of.cursor = first;
  if (first == of.extent)
    return false;
  if (of.stored.test(first)) {
    uint32_t const limit = std::min(of.extent, first + drop_pages_max);
    uint32_t const end =
        of.stored.find(false, first, of.here->find(false, first, of.limit(first, limit)));
    if (!of.is_large(first))
      drop(of, {first, end - first});
    of.cursor = end;
    return true;
  }
  if (!has_room(purpose::out))
    return false;
  bool const is_direct = of.is_large(first);
  uint32_t const most = is_direct ? memory_window::block_pages : options_.chunk_pages;
  uint32_t const limit =
      of.here->find(false, first, of.limit(first, std::min(of.extent, first + most)));
  uint32_t end = of.stored.find(true, first, limit);
  while (end < limit) {
    uint32_t const next = of.stored.find(false, end, limit);
    if (next == limit || next - end > bridge_pages)
      break;
    end = of.stored.find(true, next, limit);
  }
  of.cursor = end;
  return write(of, {first, end - first}, purpose::out, is_direct);
}

bool mover::advance_in(rank_space &of) {
  if (!has_room(purpose::in))
    return false;
  // The next page, and end of pages, that are to be read.
  auto const find = [&](uint32_t from, uint32_t end) {
    for (;;) {
      uint32_t const stored = of.stored.find(true, from, end);
      if (stored == end)
        return end;
      from = of.here->find(false, stored, end);
      if (from == end)
        return end;
      if (of.stored.test(from) && !of.flying->test(from))
        return from;
      if (of.stored.test(from))
        from++;
    }
  };
  auto const find_end = [&](uint32_t from, uint32_t end) {
    return std::min({of.stored.find(false, from, end), of.here->find(true, from, end),
                     of.flying->find(true, from, end)});
  };
  uint32_t const first = find(of.cursor, of.extent);
  of.cursor = first;
  if (first == of.extent)
    return false;
  if (read_large(of, first))
    return true;
  uint32_t const limit = of.limit(first, std::min(of.extent, first + options_.chunk_pages));
  uint32_t end = find_end(first, limit);
  of.flying->set({first, end - first});
  while (end < limit) {
    uint32_t const next = find(end, limit);
    if (next == limit || next - end > bridge_pages)
      break;
    end = find_end(next, limit);
    of.flying->set({next, end - next});
  }
  of.cursor = end;
  return read(of, {first, end - first}, purpose::in);
}

// False: the page is not the first of a block that comes as a whole, or there is no large page for
// it.
bool mover::read_large(rank_space &of, uint32_t first) {
  page_run const block{first, memory_window::block_pages};
  if (of.window == nullptr || block.end() > of.extent || !of.window->is_block(block))
    return false;
  bool const is_whole = of.stored.find(false, first, block.end()) == block.end() &&
                        of.here->find(true, first, block.end()) == block.end() &&
                        of.flying->find(true, first, block.end()) == block.end();
  if (!is_whole || !of.window->make_large(block))
    return false;
  of.flying->set(block);
  of.cursor = block.end();
  large_blocks_++;
  return read(of, block, purpose::in, true);
}

void mover::drop_large(rank_space &of) {
  if (of.window == nullptr)
    return;
  of.here->for_each_run(true, of.all(), [&](page_run pages) { drop(of, pages); });
}

bool mover::end_move(rank_space &of, mover_news &news) {
  if (!of.has_begun || of.cursor < of.extent || of.busy_count != 0 || !failure_.empty())
    return false;
  bool const is_out = of.move->to == order::way::out;
  if (is_out)
    drop_large(of);
  if (!failure_.empty())
    return false;
  TND_ASSERT(!is_out || of.here_count == 0);
  of.at = is_out ? phase::away : phase::whole;
  board::move_result result{.moved = of.moved_pages * page_size};
  (is_out ? result.away : result.here) =
      uint64_t(is_out ? of.stored.count_set(of.all()) : of.here_count) * page_size;
  news.moves.push_back({*of.move, result});
  of.move.reset();
  of.epoch++;
  if (is_out)
    of.used->clear(of.all());
  move_count_--;
  (is_out ? moves_out_ : moves_in_)--;
  return true;
}

// Moves both ways share the buffers.
bool mover::has_room(purpose why) const noexcept {
  if (why == purpose::copy)
    return busy_copies_ < chunks_.size() - options_.depth;
  uint32_t const depth = options_.depth, busy = busy_count_ - busy_copies_;
  if (why == purpose::serve)
    return busy < depth;
  if (busy + kept_for_requests >= depth)
    return false;
  bool const is_shared = moves_out_ != 0 && moves_in_ != 0;
  uint32_t const most = is_shared ? (depth - kept_for_requests + 1) / 2 : depth;
  return (why == purpose::in ? busy_in_ : busy_out_) < most;
}

mover::chunk *mover::acquire(purpose why) noexcept {
  if (!has_room(why))
    return nullptr;
  auto const first = chunks_.begin() + (why == purpose::copy ? options_.depth : 0);
  auto const found =
      std::find_if(first, chunks_.end(), [](auto &each) { return each.why == purpose::none; });
  found->why = why;
  found->is_direct = false;
  busy_count_++;
  if (why == purpose::in)
    busy_in_++;
  if (why == purpose::out)
    busy_out_++;
  if (why == purpose::copy)
    busy_copies_++;
  return &*found;
}

void mover::release(chunk &which) noexcept {
  ranks_[which.rank]->busy_count--;
  busy_count_--;
  if (which.why == purpose::in)
    busy_in_--;
  if (which.why == purpose::out)
    busy_out_--;
  if (which.why == purpose::copy)
    busy_copies_--;
  which.why = purpose::none;
}

bool mover::write(rank_space &of, page_run pages, purpose why, bool is_direct) {
  chunk *const which = acquire(why);
  if (which == nullptr)
    return false;
  which->rank = of.index;
  which->epoch = of.epoch;
  which->pages = pages;
  which->is_direct = is_direct;
  of.busy_count++;
  if (status const code = is_direct ? status::ok : of.memory.read(pages, which->buffer);
      code != status::ok) {
    fail_by(code, "copying", of, pages);
    release(*which);
    return false;
  }
  post(*which);
  return true;
}

bool mover::read(rank_space &of, page_run pages, purpose why, bool is_direct) {
  chunk *const which = acquire(why);
  if (which == nullptr)
    return false;
  which->rank = of.index;
  which->epoch = of.epoch;
  which->pages = pages;
  which->is_direct = is_direct;
  of.busy_count++;
  post(*which);
  return true;
}

void mover::post(chunk &which) {
  bool const is_read = reads(which.why);
  port::store_op op;
  op.kind = which.why == purpose::grow ? port::store_op_kind::truncate
            : is_read                  ? port::store_op_kind::read
                                       : port::store_op_kind::write;
  op.op_id = uint64_t(&which - chunks_.data());
  op.file = ranks_[which.rank]->object;
  op.offset = which.pages.offset();
  op.size = which.pages.size();
  auto *const at = which.is_direct ? ranks_[which.rank]->window->at(which.pages) : which.buffer;
  if (which.why != purpose::grow)
    op.buffers = {{at, which.pages.size()}};
  status const code = queue_.post(std::move(op));
  if (code == status::ok)
    return;
  fail_by(code, is_read ? "reading" : "writing", *ranks_[which.rank], which.pages);
  release(which);
}

void mover::fail_by(status code, const char *what, const rank_space &of, page_run pages) {
  if (!failure_.empty())
    return;
  char text[256];
  std::snprintf(text, sizeof text, "%s %llu bytes at %llu of rank %u's swappable memory: %s", what,
                static_cast<unsigned long long>(pages.size()),
                static_cast<unsigned long long>(pages.offset()), of.index,
                tnd_status_text(tnd_status(code)));
  failure_ = text;
}

}  // namespace tanada::comex::swap
