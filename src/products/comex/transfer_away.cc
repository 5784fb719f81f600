// put, get, accumulate and words on the memory of neighbours that may have left DRAM: by loads and
// stores where it is there, else the pages that are needed come there, and their owner sleeps on.
#include <algorithm>
#include <array>
#include <cstring>

#include "products/comex/engine.hpp"
#include "products/comex/swapping.hpp"

namespace tanada::comex {
namespace {

// The blocks of one side, in a heap where the side begins at `base`.
std::vector<swap::extent> extents_of(const strided_shape &shape, bool is_target, uint64_t base) {
  std::vector<swap::extent> made;
  made.reserve(shape.block_count());
  shape.for_each([&](size_t s, size_t t) {
    made.push_back({base + (is_target ? t : s), shape.block_size()});
  });
  return made;
}

// Those that share a page, or follow one another, as one: for who asks for pages alone.
std::vector<swap::extent> pages_of(const strided_shape &shape, uint64_t base) {
  std::vector<swap::extent> made;
  shape.for_each([&](size_t, size_t t) {
    uint64_t const begin = base + t, end = begin + shape.block_size();
    if (!made.empty()) {
      auto &last = made.back();
      uint64_t const last_end =
          (last.offset + last.size + swap::page_size - 1) / swap::page_size * swap::page_size;
      if (begin >= last.offset && begin <= last_end) {
        last.size = std::max(last.offset + last.size, end) - last.offset;
        return;
      }
    }
    made.push_back({begin, shape.block_size()});
  });
  return made;
}

}  // namespace

status engine::move_away(const away_move &what, const strided_shape &shape, until end) {
  TND_TRY(swapping_->offer());
  TND_TRY(swapping_->be_whole());  // nobody waits for its own memory while it has another's
  auto &residence = swapping_->residence();
  bool const is_writing = what.what != away_kind::get;
  auto const base = uint64_t(what.theirs - peers_[size_t(what.pe)].mapped);
  auto *const mine = static_cast<std::byte *>(const_cast<void *>(what.mine));
  auto const whole = [&] {
    switch (what.what) {
      case away_kind::put: return copy_blocks(what.theirs, mine, shape);
      case away_kind::get: return copy_blocks(mine, what.theirs, shape);
      case away_kind::add: away_code_ = add_near(what.sum, base, mine, shape, what.pe); return;
    }
  };
  auto const written = is_writing ? pages_of(shape, base) : std::vector<swap::extent>{};
  if (residence.try_direct(swapping_->rank_of(what.pe), is_writing, written, whole))
    return std::exchange(away_code_, status::ok);

  swap::access asked;
  asked.target = swapping_->rank_of(what.pe);
  asked.is_writing = is_writing;
  asked.extents = extents_of(shape, is_writing, base);
  std::vector<size_t> places;  // ours, of each block
  places.reserve(asked.extents.size());
  shape.for_each([&](size_t s, size_t t) { places.push_back(is_writing ? s : t); });
  std::vector<size_t> offsets;
  offsets.reserve(asked.extents.size());
  for (auto const &each : asked.extents)
    offsets.push_back(each.offset - base);
  std::array<std::byte, 16> scale{};  // the caller's may not last
  if (what.what == away_kind::add) {
    asked.unit = uint32_t(element_size(what.sum.of));
    std::memcpy(scale.data(), what.sum.scale, element_size(what.sum.of));
  }
  asked.part = [this, what, mine, scale, places = std::move(places), offsets = std::move(offsets)](
                   size_t index, uint64_t skip, uint64_t size, const std::byte *copy) {
    std::byte *const there = what.theirs + offsets[index] + skip, *const here =
                                                                      mine + places[index] + skip;
    if (what.what == away_kind::put)
      std::memcpy(there, here, size);
    if (what.what == away_kind::get)
      std::memcpy(here, copy != nullptr ? copy : there, size);
    if (what.what != away_kind::add)
      return;
    auto const offset = uint64_t(there - peers_[size_t(what.pe)].mapped);
    status const code =
        add_near({what.sum.of, scale.data()}, offset, here, strided_shape{size}, what.pe);
    if (code != status::ok)
      away_code_ = code;
  };
  if (residence.begin(std::move(asked)))
    return std::exchange(away_code_, status::ok);
  has_pending_ = true;
  return end == until::later ? status::ok : finish();
}

status engine::act_away(pe_index pe, const std::byte *theirs, uint32_t size,
                        const std::function<status()> &act) {
  TND_TRY(swapping_->offer());
  TND_TRY(swapping_->be_whole());  // nobody waits for its own memory while it has another's
  auto const run = [&] {
    status const code = act();
    if (code != status::ok)
      away_code_ = code;
  };
  swap::access asked;
  asked.target = swapping_->rank_of(pe);
  asked.is_writing = true;
  asked.unit = size;
  asked.extents = {{uint64_t(theirs - peers_[size_t(pe)].mapped), size}};
  asked.part = [&run](size_t, uint64_t, uint64_t, const std::byte *) {
    run();
  };
  if (swapping_->residence().begin(std::move(asked)))
    return std::exchange(away_code_, status::ok);
  return finish_away();
}

status engine::finish_away() {
  TND_TRY(swapping_->residence().complete());
  return std::exchange(away_code_, status::ok);
}

bool engine::poll_away() noexcept {
  swapping_->residence().poll();
  return swapping_->residence().is_complete();
}

}  // namespace tanada::comex
