// Transfers with processes of other nodes. What lies in one piece, or in large ones, is moved by
// the fabric alone; small blocks are packed, and the processor over there puts them where they
// belong, as it makes all sums.
#include "products/comex/block_copy.hpp"
#include "products/comex/engine.hpp"
#include "products/comex/packed_wire.hpp"
#include "products/comex/refusal.hpp"
#include "products/comex/swapping.hpp"

namespace tanada::comex {

using packed::action;
using packed::side;

namespace {

// Blocks of that size are not packed: a message each costs less than copies of them.
constexpr size_t direct_size = size_t{16} << 10;  // bytes
// Packed data go by messages up to here, each of them whole; beyond, their target reads them.
constexpr size_t messages_max = 4;
constexpr size_t step = 16;  // bytes: whole elements of each kind
constexpr size_t landings_max = 1024;

class strided_landing final : public pgas::call_landing {
 public:
  strided_landing(std::byte *target, const strided_shape &shape) : target_{target}, shape_{shape} {}
  void land(uint64_t at, std::span<const std::byte> bytes) noexcept override {
    const std::byte *from = bytes.data();
    shape_.for_each_run(at, bytes.size(), [&](const block_run &run) {
      from = scatter_run(target_ + run.target, run.target_stride, from, run);
    });
  }

 private:
  std::byte *const target_;
  strided_shape const shape_;
};

class list_landing final : public pgas::call_landing {
 public:
  list_landing(std::span<void *const> targets, size_t size)
      : targets_{targets.begin(), targets.end()}, size_{size} {}
  void land(uint64_t at, std::span<const std::byte> bytes) noexcept override {
    for (size_t done = 0; done < bytes.size();) {
      size_t const inside = (at + done) % size_,
                   part = std::min(size_ - inside, bytes.size() - done);
      std::memcpy(static_cast<std::byte *>(targets_[(at + done) / size_]) + inside,
                  bytes.data() + done, part);
      done += part;
    }
  }

 private:
  std::vector<void *> const targets_;
  size_t const size_;
};

// Bytes of packed data that go with a request, of `total`; `head_size`: what is before them.
size_t part_size(const pgas::staged_context &context, size_t total, size_t head_size) {
  size_t const message = (context.message_size_max() - head_size) / step * step,
               slot = (context.call_size_max() - head_size) / step * step;
  return total <= messages_max * message ? message : slot;
}

}  // namespace

// Small ones follow what is packed already, which then nobody waits for.
bool engine::is_packed(const strided_shape &shape, pe_index pe) const noexcept {
  if (!staged_)
    return false;
  if (swapping_)
    return true;  // what is away is only for who has it
  if (!shape.is_block())
    return shape.block_size() < direct_size;
  auto const &other = peers_[size_t(pe)];
  return (other.has_packed || other.has_sums) &&
         shape.block_size() <= staged_->message_size_max() - sizeof(packed::head);
}

// What comes next to the process goes by requests, after what it has to follow.
//
// Where memory leaves it is here first: who has the stager waits for no page of its own, and
// answers land in what stays.
status engine::follow(pe_index pe, bool is_sum) {
  if (swapping_) {
    TND_TRY(swapping_->offer());
    TND_TRY(swapping_->be_whole());
  }
  auto &other = peers_[size_t(pe)];
  if (other.has_puts)
    TND_TRY(finish_direct());
  if (other.has_packed || (other.has_sums && !is_sum))
    staged_->fence();
  return status::ok;
}

status engine::put_far(std::byte *ours, const std::byte *source, const strided_shape &shape,
                       pe_index pe, until end) {
  auto &other = peers_[size_t(pe)];
  if (is_packed(shape, pe)) {
    TND_TRY(follow(pe, false));
    other.has_packed = true;
    has_pending_ = true;
    return send_packed({.what = action::put, .offset = offset_of(ours)}, source, shape, pe);
  }
  if (other.has_packed || other.has_sums)
    TND_TRY(finish_packed());
  if (other.has_puts)
    context_->fence();
  other.has_puts = true;
  has_pending_ = true;
  if (shape.is_block() && end == until::source_is_free)
    return context_->put(ours, source, shape.block_size(), pe);
  status code = status::ok;
  shape.for_each([&](size_t s, size_t t) {
    if (code == status::ok)
      code = context_->put_nbi(ours + t, source + s, shape.block_size(), pe);
  });
  if (code != status::ok || end == until::later)
    return code;
  return finish();
}

status engine::get_far(std::byte *target, std::byte *ours, const strided_shape &shape, pe_index pe,
                       until end) {
  if (is_packed(shape, pe)) {
    TND_TRY(follow(pe, false));
    has_pending_ = true;
    TND_TRY(fetch_packed(offset_of(ours), target, shape, pe));
    return end == until::later ? status::ok : finish_packed();
  }
  TND_TRY(before_get(pe));
  if (shape.is_block() && end == until::source_is_free)
    return context_->get(target, ours, shape.block_size(), pe);
  has_pending_ = true;
  status code = status::ok;
  shape.for_each([&](size_t s, size_t t) {
    if (code == status::ok)
      code = context_->get_nbi(target + t, ours + s, shape.block_size(), pe);
  });
  if (code != status::ok || end == until::later)
    return code;
  return finish();
}

status engine::add_far(const addend &what, std::byte *ours, const std::byte *source,
                       const strided_shape &shape, pe_index pe) {
  TND_TRY(follow(pe, true));
  peers_[size_t(pe)].has_sums = true;
  has_pending_ = true;
  packed::head asks{.what = action::add, .kind = uint8_t(what.of), .offset = offset_of(ours)};
  std::memcpy(asks.scale, what.scale, element_size(what.of));
  return send_packed(asks, source, shape, pe);
}

// For a request or an answer of that size: who waits where memory leaves lets others run.
status engine::await_room(pe_index pe, size_t size) {
  if (!swapping_)
    return status::ok;
  return wait_served(
      [&](uint64_t deadline_ns) { return staged_->wait_for_room(pe, size, deadline_ns); });
}

// Puts and sums.
status engine::send_packed(packed::head asks, const std::byte *source, const strided_shape &shape,
                           pe_index pe) {
  size_t const head_size = packed::head_size(shape), total = shape.size(),
               part = part_size(*staged_, total, head_size);
  for (size_t done = 0; done < total; done += asks.size) {
    asks.begin = done;
    asks.size = std::min(part, total - done);
    TND_TRY(await_room(pe, head_size + asks.size));
    TND_TRY(staged_->call(pe, head_size + asks.size, [&](std::span<std::byte> into) {
      std::byte *to = packed::write_head(into.data(), asks, shape, side::target);
      shape.for_each_run(asks.begin, asks.size, [&](const block_run &run) {
        to = gather_run(to, source + run.source, run.source_stride, run);
      });
    }));
  }
  return status::ok;
}

status engine::fetch_packed(uint64_t offset, std::byte *target, const strided_shape &shape,
                            pe_index pe) {
  TND_TRY(keep(std::make_unique<strided_landing>(target, shape)));
  auto &landing = *landings_.back();
  std::array<std::byte, sizeof(packed::head) + stride_level_max * sizeof(packed::level)> bytes;
  std::span const request{bytes.data(), packed::head_size(shape)};
  size_t const total = shape.size(), part = staged_->call_size_max();
  packed::head asks{.what = action::get, .offset = offset};
  for (size_t done = 0; done < total; done += asks.size) {
    asks.begin = done;
    asks.size = std::min(part, total - done);
    (void)packed::write_head(bytes.data(), asks, shape, side::source);
    TND_TRY(await_room(pe, asks.size));
    TND_TRY(staged_->fetch(pe, request, asks.size, landing, done));
  }
  return status::ok;
}

// Until what lands there has come. As many as there may be are waited for.
status engine::keep(std::unique_ptr<pgas::call_landing> landing) {
  if (landings_.size() >= landings_max)
    TND_TRY(finish_packed());
  landings_.push_back(std::move(landing));
  return status::ok;
}

// Blocks of a list, as many to a request as it takes.
status engine::send_list(packed::head asks, const piece_list &pieces, pe_index pe) {
  size_t const each = sizeof(uint64_t) + pieces.size, total = pieces.count * each;
  size_t const most = std::max<size_t>(part_size(*staged_, total, sizeof asks) / each, 1);
  asks.of = packed::form::list;
  asks.block_size = pieces.size;
  for (size_t done = 0; done < pieces.count; done += asks.count) {
    asks.count = std::min(most, pieces.count - done);
    asks.size = asks.count * pieces.size;
    TND_TRY(await_room(pe, sizeof asks + asks.count * each));
    TND_TRY(staged_->call(pe, sizeof asks + asks.count * each, [&](std::span<std::byte> into) {
      std::byte *to = write_list(into.data(), asks, pieces.targets + done, pe);
      for (size_t i = done; i < done + asks.count; i++, to += pieces.size)
        std::memcpy(to, pieces.sources[i], pieces.size);
    }));
  }
  return status::ok;
}

status engine::fetch_list(const piece_list &pieces, pe_index pe) {
  TND_TRY(
      keep(std::make_unique<list_landing>(std::span{pieces.targets, pieces.count}, pieces.size)));
  auto &landing = *landings_.back();
  packed::head asks{.what = action::get, .of = packed::form::list, .block_size = pieces.size};
  std::vector<std::byte> request(staged_->message_size_max());
  size_t const most = std::min((request.size() - sizeof asks) / sizeof(uint64_t),
                               staged_->call_size_max() / pieces.size);
  for (size_t done = 0; done < pieces.count; done += asks.count) {
    asks.count = std::min(most, pieces.count - done);
    asks.size = asks.count * pieces.size;
    std::byte *const end = write_list(request.data(), asks, pieces.sources + done, pe);
    TND_TRY(await_room(pe, asks.size));
    TND_TRY(staged_->fetch(pe, {request.data(), end}, asks.size, landing, done * pieces.size));
  }
  return status::ok;
}

std::byte *engine::write_list(std::byte *into, const packed::head &asks, void *const *addrs,
                              pe_index pe) const noexcept {
  std::memcpy(into, &asks, sizeof asks);
  into += sizeof asks;
  for (size_t i = 0; i < asks.count; i++, into += sizeof(uint64_t)) {
    uint64_t const offset = reinterpret_cast<uintptr_t>(addrs[i]) - peers_[size_t(pe)].begin;
    std::memcpy(into, &offset, sizeof offset);
  }
  return into;
}

// All pieces lie in memory of the process that is reached by requests, and are small.
result<bool> engine::is_packed(const piece_list &pieces, void *const *theirs, pe_index pe) const {
  if (!staged_ || pieces.count < 2 || pieces.size >= direct_size || uint32_t(pe) >= peers_.size())
    return false;
  if (pe == me() || peers_[size_t(pe)].mapped != nullptr)
    return false;
  if (device_) {
    for (size_t i = 0; i < pieces.count; i++) {
      if (concerns_device(pieces.targets[i], pieces.sources[i], pe) ||
          concerns_device(pieces.sources[i], pieces.targets[i], pe))
        return false;
    }
  }
  for (size_t i = 0; i < pieces.count; i++) {
    if (!find(theirs[i], pieces.size, pe).is_there())
      return refusal(theirs[i], pieces.size, pe);
  }
  return true;
}

status engine::put(const piece_list &pieces, pe_index pe, until end) {
  if (pieces.size == 0)
    return status::ok;
  auto packs = is_packed(pieces, pieces.targets, pe);
  if (!packs.ok())
    return packs.error();
  if (packs.value()) {
    TND_TRY(follow(pe, false));
    peers_[size_t(pe)].has_packed = true;
    has_pending_ = true;
    return send_list({.what = action::put}, pieces, pe);
  }
  strided_shape const shape{pieces.size};
  for (size_t i = 0; i < pieces.count; i++)
    TND_TRY(put({pieces.sources[i], pieces.targets[i], pe}, shape, until::later));
  return end == until::later ? status::ok : finish();
}

status engine::get(const piece_list &pieces, pe_index pe, until end) {
  if (pieces.size == 0)
    return status::ok;
  auto packs = is_packed(pieces, pieces.sources, pe);
  if (!packs.ok())
    return packs.error();
  if (packs.value()) {
    TND_TRY(follow(pe, false));
    has_pending_ = true;
    TND_TRY(fetch_list(pieces, pe));
    return end == until::later ? status::ok : finish_packed();
  }
  strided_shape const shape{pieces.size};
  for (size_t i = 0; i < pieces.count; i++)
    TND_TRY(get({pieces.sources[i], pieces.targets[i], pe}, shape, until::later));
  return end == until::later ? status::ok : finish();
}

status engine::accumulate(element of, const void *scale, const piece_list &pieces, pe_index pe) {
  if (pieces.size == 0)
    return status::ok;
  auto packs = is_packed(pieces, pieces.targets, pe);
  if (!packs.ok())
    return packs.error();
  if (packs.value()) {
    TND_TRY(check_elements(of, pieces.size));
    TND_TRY(follow(pe, true));
    peers_[size_t(pe)].has_sums = true;
    has_pending_ = true;
    packed::head asks{.what = action::add, .kind = uint8_t(of)};
    std::memcpy(asks.scale, scale, element_size(of));
    return send_list(asks, pieces, pe);
  }
  strided_shape const shape{pieces.size};
  for (size_t i = 0; i < pieces.count; i++)
    TND_TRY(accumulate(of, scale, {pieces.sources[i], pieces.targets[i], pe}, shape));
  return status::ok;
}

// A word of memory that may be away.
template <class T>
result<T> engine::update_far(port::fabric_atomic kind, uint64_t offset, T operand, pe_index pe) {
  TND_TRY(follow(pe, false));
  has_pending_ = true;
  T before{};
  strided_shape const word{sizeof(T)};
  TND_TRY(keep(std::make_unique<strided_landing>(reinterpret_cast<std::byte *>(&before), word)));
  auto const what =
      kind == port::fabric_atomic::swap ? packed::word_update::swap : packed::word_update::add;
  packed::head asks{
      .what = action::update, .kind = uint8_t(what), .offset = offset, .size = sizeof(T)};
  std::memcpy(asks.scale, &operand, sizeof operand);
  std::array<std::byte, sizeof asks> request;
  (void)packed::write_head(request.data(), asks, word, side::target);
  TND_TRY(await_room(pe, sizeof(T)));
  TND_TRY(staged_->fetch(pe, request, sizeof(T), *landings_.back(), 0));
  TND_TRY(finish_packed());
  return before;
}
template result<uint32_t> engine::update_far(port::fabric_atomic, uint64_t, uint32_t, pe_index);
template result<uint64_t> engine::update_far(port::fabric_atomic, uint64_t, uint64_t, pe_index);

}  // namespace tanada::comex
