#include "products/comex/packed_server.hpp"

#include "products/comex/block_copy.hpp"
#include "seams/fabric/update_here.hpp"

namespace tanada::comex {

using packed::action;
using packed::form;

namespace {

// f(extent) for the bytes of the heap that a request is about, in the order of its data.
template <class Function>
void for_each_extent(const packed::request &what, Function &&f) {
  auto const &asks = what.asks;
  if (asks.of == form::list) {
    for (size_t i = 0; i < asks.count; i++)
      f(swap::extent{what.offset_at(i), asks.block_size});
    return;
  }
  what.shape.for_each_run(asks.begin, asks.size, [&](const block_run &run) {
    for (size_t i = 0; i < run.count; i++)
      f(swap::extent{asks.offset + run.target + i * run.target_stride, run.size});
  });
}

}  // namespace

void packed_server::open(const pgas::job &job, heap_locks::word *locks, const away_side &away) {
  job_ = &job;
  heap_ = {.begin = job.heap().data(), .locks = locks, .has_updates = !job.is_one_node()};
  away_ = away;
  if (away.shared == nullptr)
    return is_open_.store(true, std::memory_order_release);
  heap_.begin = away.memory;
  asks_.emplace(*away.shared, away.shared->server_of(away.rank), away.stored);
  is_open_.store(true, std::memory_order_release);
}

status packed_server::serve(pgas::pe_index, std::span<const std::byte> bytes,
                            std::span<std::byte> reply) noexcept {
  if (!is_open_.load(std::memory_order_acquire))
    return status::bad_state;
  auto parsed = packed::parse(bytes, reply.size(), job_->heap().size());
  if (!parsed.ok())
    return parsed.error();
  auto const &what = parsed.value();
  if (away_.shared == nullptr)
    return act(what, reply);
  if (!away_.shared->pin(away_.rank))
    return status::again;
  status const code = act(what, reply);
  if (what.asks.what != action::get) {
    for_each_extent(what, [&](const swap::extent &each) {
      away_.stored[away_.rank].clear(swap::pages_of(each.offset, each.size));
    });
  }
  away_.shared->unpin(away_.rank);
  return code;
}

// Its request has been found in order by serve().
class packed_server::away_call final : public pgas::pending_call {
 public:
  away_call(packed_server &owner, const packed::request &what, std::span<std::byte> reply)
      : owner_{owner}, what_{what}, reply_{reply} {
    auto const &asks = what_.asks;
    swap::access asked{.target = owner_.away_.rank,
                       .is_writing = asks.what != action::get,
                       .extents = {},
                       .part = {}};
    if (asks.what == action::add)
      asked.unit = uint32_t(element_size(element(asks.kind)));
    if (asks.what == action::update)
      asked.unit = uint32_t(asks.block_size);
    uint64_t place = 0;  // in the data
    for_each_extent(what_, [&](const swap::extent &each) {
      asked.extents.push_back(each);
      offsets_.push_back(each.offset);
      places_.push_back(place);
      place += each.size;
    });
    asked.part = [this](size_t index, uint64_t skip, uint64_t size, const std::byte *copy) {
      part(offsets_[index] + skip, places_[index] + skip, size, copy);
    };
    asked.end = [this] {
      is_over_ = true;
    };
    if (owner_.asks_->begin(std::move(asked)))
      is_over_ = true;
  }

  // Where memory cannot be moved any more, the processes of this node end the job, and say why;
  // others, later.
  status step() noexcept override {
    constexpr uint64_t end_ns = 3'000'000'000;
    if (is_over_)
      return code_;
    auto &shared = *owner_.away_.shared;
    if (shared.failure() == nullptr)
      return status::again;
    uint64_t const now_ns = shared.time().now_ns();
    if (failed_ns_ == 0)
      failed_ns_ = now_ns;
    return now_ns - failed_ns_ < end_ns ? status::again : status::peer_lost;
  }

 private:
  void part(uint64_t offset, uint64_t place, uint64_t size, const std::byte *copy) {
    std::byte *const there = owner_.heap_.begin + offset;
    switch (what_.asks.what) {
      case action::put: std::memcpy(there, what_.data.data() + place, size); return;
      case action::get:
        std::memcpy(reply_.data() + place, copy != nullptr ? copy : there, size);
        return;
      case action::update: owner_.update(what_, reply_.data()); return;
      case action::add: break;
    }
    heap_locks::hold hold{*owner_.job_};
    addend const sum{element(what_.asks.kind), what_.asks.scale};
    status const code =
        add_under_locks(hold, owner_.heap_, offset, sum, what_.data.data() + place, size);
    if (code != status::ok)
      code_ = code;
  }

  packed_server &owner_;
  packed::request const what_;
  std::span<std::byte> const reply_;
  std::vector<uint64_t> offsets_, places_;  // of the extents
  bool is_over_ = false;
  status code_ = status::ok;
  uint64_t failed_ns_ = 0;
};

std::unique_ptr<pgas::pending_call> packed_server::begin(pgas::pe_index,
                                                         std::span<const std::byte> bytes,
                                                         std::span<std::byte> reply) noexcept {
  auto parsed = packed::parse(bytes, reply.size(), job_->heap().size());
  if (!parsed.ok())
    return nullptr;
  return std::make_unique<away_call>(*this, parsed.value(), reply);
}

void packed_server::attend() noexcept {
  if (asks_ && away_.shared->failure() == nullptr)
    asks_->poll();
}

status packed_server::act(const packed::request &what, std::span<std::byte> reply) const {
  if (what.asks.what == action::add)
    return add(what);
  if (what.asks.what == action::update) {
    update(what, reply.data());
    return status::ok;
  }
  bool const is_get = what.asks.what == action::get;
  std::byte *to = reply.data();
  const std::byte *from = what.data.data();
  if (what.asks.of == form::strided) {
    std::byte *const heap = heap_.begin + what.asks.offset;
    what.shape.for_each_run(what.asks.begin, what.asks.size, [&](const block_run &run) {
      if (is_get)
        to = gather_run(to, heap + run.source, run.source_stride, run);
      else
        from = scatter_run(heap + run.target, run.target_stride, from, run);
    });
    return status::ok;
  }
  block_run const one{.size = what.asks.block_size};
  for (size_t i = 0; i < what.asks.count; i++) {
    std::byte *const block = heap_.begin + what.offset_at(i);
    if (is_get)
      to = gather_run(to, block, 0, one);
    else
      from = scatter_run(block, 0, from, one);
  }
  return status::ok;
}

// As neighbours do it, who take no locks in a job of several nodes.
void packed_server::update(const packed::request &what, std::byte *before) const {
  auto const &asks = what.asks;
  auto const kind = asks.kind == uint8_t(packed::word_update::swap) ? port::fabric_atomic::swap
                                                                    : port::fabric_atomic::add;
  auto const run = [&]<class T>(T operand) {
    std::memcpy(&operand, asks.scale, sizeof operand);
    T const was =
        port::update_here(kind, reinterpret_cast<T *>(heap_.begin + asks.offset), operand, T{0});
    std::memcpy(before, &was, sizeof was);
  };
  if (asks.block_size == sizeof(uint32_t))
    run(uint32_t{});
  else
    run(uint64_t{});
}

status packed_server::add(const packed::request &what) const {
  heap_locks::hold hold{*job_};
  addend const sum{element(what.asks.kind), what.asks.scale};
  const std::byte *from = what.data.data();
  status code = status::ok;
  auto const add_block = [&](size_t offset, size_t size) {
    if (code == status::ok)
      code = add_under_locks(hold, heap_, offset, sum, from, size);
    from += size;
  };
  if (what.asks.of == form::list) {
    for (size_t i = 0; i < what.asks.count; i++)
      add_block(what.offset_at(i), what.asks.block_size);
    return code;
  }
  what.shape.for_each_run(what.asks.begin, what.asks.size, [&](const block_run &run) {
    for (size_t i = 0; i < run.count; i++)
      add_block(what.asks.offset + run.target + i * run.target_stride, run.size);
  });
  return code;
}

}  // namespace tanada::comex
