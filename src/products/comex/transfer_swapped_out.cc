// transfer_swapped_out.cc: put, get, accumulate and word updates on memory of local processes that
// may be swapped out. Resident memory is accessed by loads and stores. Otherwise only the needed
// pages are swapped in, and the owner sleeps on.
#include <algorithm>
#include <array>
#include <cstring>

#include "products/comex/engine.hpp"
#include "products/comex/process_swapper.hpp"

namespace tanada::comex {
namespace {

// The blocks of the target in its heap, where it begins at `base`. Blocks that share a page or
// follow one another are merged: enough to name the written pages.
std::vector<onesided::swap::extent> written_extents(const strided_shape &shape, uint64_t base) {
  std::vector<onesided::swap::extent> extents;
  shape.for_each([&](size_t, size_t t) {
    uint64_t const begin = base + t, end = begin + shape.block_size();
    if (!extents.empty()) {
      auto &last = extents.back();
      uint64_t const last_end = (last.offset + last.size + onesided::swap::page_size - 1) /
                                onesided::swap::page_size * onesided::swap::page_size;
      if (begin >= last.offset && begin <= last_end) {
        last.size = std::max(last.offset + last.size, end) - last.offset;
        return;
      }
    }
    extents.push_back({begin, shape.block_size()});
  });
  return extents;
}

}  // namespace

// The pieces of a transfer, moved as their pages become available. The caller's scale may be gone
// by then, so it is copied.
class engine::swapped_out_pieces {
 public:
  swapped_out_pieces(engine &owner, const swapped_out_access &access, const strided_shape &shape)
      : owner_{&owner}, access_{access}, block_size_{shape.block_size()} {
    bool const is_writing = access.kind != transfer_kind::get;
    local_offsets_.reserve(shape.block_count());
    remote_offsets_.reserve(shape.block_count());
    shape.for_each([&](size_t s, size_t t) {
      local_offsets_.push_back(is_writing ? s : t);
      remote_offsets_.push_back(is_writing ? t : s);
    });
    if (access.kind == transfer_kind::add)
      std::memcpy(scale_.data(), access.sum.scale, element_size(access.sum.type));
  }

  // The request for the pages of a transfer, whose pieces it moves.
  static onesided::swap::page_access request(engine &owner,
                                             const swapped_out_access &access,
                                             const strided_shape &shape) {
    auto const base = uint64_t(access.remote - owner.peers_[size_t(access.pe)].mapped);
    swapped_out_pieces pieces{owner, access, shape};
    onesided::swap::page_access request;
    request.target = owner.swapper_->rank_of(access.pe);
    request.is_writing = access.kind != transfer_kind::get;
    request.extents = pieces.extents(base);
    if (access.kind == transfer_kind::add)
      request.unit = uint32_t(element_size(access.sum.type));
    request.on_piece = [pieces = std::move(pieces)](
                           size_t index, uint64_t skip, uint64_t size, const std::byte *copy) {
      pieces.move(index, skip, size, copy);
    };
    return request;
  }

 private:
  // The blocks of the remote side, in a heap where the side begins at `base`.
  std::vector<onesided::swap::extent> extents(uint64_t base) const {
    std::vector<onesided::swap::extent> extents;
    extents.reserve(remote_offsets_.size());
    for (size_t const offset : remote_offsets_)
      extents.push_back({base + offset, block_size_});
    return extents;
  }

  // Moves `size` bytes of a block, from `skip` on. `copy` has bytes to read in place of the remote
  // ones; it may be null.
  void move(size_t index, uint64_t skip, uint64_t size, const std::byte *copy) const {
    TND_ASSERT(index < remote_offsets_.size() && skip + size <= block_size_);
    std::byte *const remote = access_.remote + remote_offsets_[index] + skip;
    auto *const local =
        static_cast<std::byte *>(const_cast<void *>(access_.local)) + local_offsets_[index] + skip;
    switch (access_.kind) {
      case transfer_kind::put:
        std::memcpy(remote, local, size);
        return;
      case transfer_kind::get:
        std::memcpy(local, copy != nullptr ? copy : remote, size);
        return;
      case transfer_kind::add:
        return add(remote, local, size);
    }
  }

  void add(const std::byte *remote, const std::byte *local, uint64_t size) const {
    auto const offset = uint64_t(remote - owner_->peers_[size_t(access_.pe)].mapped);
    status const code = owner_->accumulate_mapped(
        {access_.sum.type, scale_.data()}, offset, local, strided_shape{size}, access_.pe);
    if (code != status::ok)
      owner_->swapped_out_status_ = code;
  }

  engine *owner_;
  swapped_out_access access_;
  size_t block_size_;
  std::vector<size_t> local_offsets_, remote_offsets_;  // of each block
  std::array<std::byte, 16> scale_{};
};

// Moves all blocks, while the target is resident.
void engine::transfer_resident(const swapped_out_access &access, const strided_shape &shape) {
  auto *const local = static_cast<std::byte *>(const_cast<void *>(access.local));
  switch (access.kind) {
    case transfer_kind::put:
      return copy_blocks(access.remote, local, shape);
    case transfer_kind::get:
      return copy_blocks(local, access.remote, shape);
    case transfer_kind::add: {
      auto const base = uint64_t(access.remote - peers_[size_t(access.pe)].mapped);
      swapped_out_status_ = accumulate_mapped(access.sum, base, local, shape, access.pe);
      return;
    }
  }
}

status engine::transfer_swapped_out(const swapped_out_access &access,
                                    const strided_shape &shape,
                                    completion_mode mode) {
  TND_ASSERT(may_be_swapped_out(access.pe) && !shape.is_empty());
  TND_TRY(swapper_->yield_if_requested());
  // a process must not wait for its own memory while it holds another's
  TND_TRY(swapper_->make_resident());
  auto &residency = swapper_->residency();
  bool const is_writing = access.kind != transfer_kind::get;
  auto const base = uint64_t(access.remote - peers_[size_t(access.pe)].mapped);
  TND_ASSERT(base < heap_size());
  auto const written_pages =
      is_writing ? written_extents(shape, base) : std::vector<onesided::swap::extent>{};
  if (residency.try_direct(swapper_->rank_of(access.pe), is_writing, written_pages, [&] {
        transfer_resident(access, shape);
      }))
    return std::exchange(swapped_out_status_, status::ok);

  auto request = swapped_out_pieces::request(*this, access, shape);
  if (residency.begin(std::move(request)))
    return std::exchange(swapped_out_status_, status::ok);
  has_pending_ = true;
  return mode == completion_mode::deferred ? status::ok : finish();
}

status engine::update_swapped_out(pe_index pe,
                                  const std::byte *remote,
                                  uint32_t size,
                                  const std::function<status()> &act) {
  TND_ASSERT(may_be_swapped_out(pe) && (size == sizeof(uint32_t) || size == sizeof(uint64_t)));
  TND_TRY(swapper_->yield_if_requested());
  // a process must not wait for its own memory while it holds another's
  TND_TRY(swapper_->make_resident());
  auto const run = [&] {
    status const code = act();
    if (code != status::ok)
      swapped_out_status_ = code;
  };
  onesided::swap::page_access access;
  access.target = swapper_->rank_of(pe);
  access.is_writing = true;
  access.unit = size;
  access.extents = {{uint64_t(remote - peers_[size_t(pe)].mapped), size}};
  access.on_piece = [&run](size_t, uint64_t, uint64_t, const std::byte *) {
    run();
  };
  if (swapper_->residency().begin(std::move(access)))
    return std::exchange(swapped_out_status_, status::ok);
  return finish_swapped_out();
}

status engine::finish_swapped_out() {
  TND_ASSERT(swapper_ != nullptr);
  TND_TRY(swapper_->residency().complete());
  return std::exchange(swapped_out_status_, status::ok);
}

bool engine::poll_swapped_out() noexcept {
  swapper_->residency().poll();
  return swapper_->residency().is_complete();
}

}  // namespace tanada::comex
