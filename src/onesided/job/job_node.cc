// Memory that the PEs of a node share: each makes its own, and maps everybody's.
#include <algorithm>
#include <bit>

#include "core/base/log.hpp"
#include "onesided/job/job_inside.hpp"
#include "seams/os/program_data.hpp"

namespace tanada::pgas {
namespace {

// [control memory][gap][heap][program's data] of one PE, behind one descriptor. The gap belongs to
// no segment, so that what lies outside the heap is never taken for control memory; the heap begins
// where a large page may.
struct node_layout {
  size_t control_size, heap_size, data_size;

  size_t heap_offset() const {
    return (control_size + 1 + large_page - 1) / large_page * large_page;
  }
  size_t data_offset() const {
    return heap_offset() + heap_size;
  }
  size_t size() const {
    return data_offset() + data_size;
  }
};

}  // namespace

status job::map_node() {
  auto const &card = inside_->cards[size_t(me())];
  bool const has_neighbours = node_pes_.size() > 1;
  // Alone on a node nobody maps the program's data: they stay as they are.
  node_layout const layout{card.control_size, card.heap_size, has_neighbours ? card.data_size : 0};
  auto memory = port::shared_memory::create("tanada-pe", layout.size());
  if (!memory.ok())
    return memory.error();
  int const descriptor = memory.value().descriptor();
  if (options_.heaps_at != nullptr && layout.size() > options_.heap_stride) {
    return fail(status::invalid, "%zu bytes of a PE do not fit into %zu", layout.size(),
                options_.heap_stride);
  }
  auto const place_of = [&](pe_index pe) {
    return options_.heaps_at == nullptr ? nullptr
                                        : options_.heaps_at + size_t(pe) * options_.heap_stride;
  };
  auto own = port::shared_mapping::map_beside(
      descriptor, layout.data_offset(), place_of(me()),
      {.alignment = heap_alignment(), .offset = layout.heap_offset()});
  if (!own.ok())
    return own.error();
  inside_->own = std::move(own).value();
  std::span<std::byte> const whole_control{inside_->own.memory().data(), layout.control_size};
  std::byte *const base = inside_->own.memory().data() + layout.heap_offset();
  control_ = whole_control.subspan(sizeof(port::shared_alarm));
  std::vector<port::shared_alarm *> alarms(size_t(count()), nullptr);
  auto const alarm_at = [](std::byte *control) {
    return reinterpret_cast<port::shared_alarm *>(control);
  };
  alarms[size_t(me())] = alarm_at(whole_control.data());
  alarm_ = alarms[size_t(me())];

  auto const data = port::program_data();
  auto const by_pe = [&] {
    return std::vector<std::byte *>(size_t(count()), nullptr);
  };
  segment heap{.name = "symmetric heap",
               .base = base,
               .size = layout.heap_size,
               .mapped = by_pe(),
               .remote = {}};
  segment variables{.name = "program's data",
                    .base = data.data(),
                    .size = card.data_size,
                    .mapped = by_pe(),
                    .remote = {}};
  segment control{.name = "control memory",
                  .base = whole_control.data(),
                  .size = whole_control.size(),
                  .mapped = by_pe(),
                  .remote = {}};
  control.is_own = true;
  heap.mapped[size_t(me())] = base;
  variables.mapped[size_t(me())] = data.data();
  control.mapped[size_t(me())] = whole_control.data();

  inside_->heap_offset = layout.heap_offset();
  std::vector<int> files(size_t(count()), -1);
  if (has_neighbours) {
    if (layout.data_size != 0)
      TND_TRY(port::program_data_share(descriptor, layout.data_offset()));
    int const mine[] = {descriptor};
    auto everybodys =
        port::descriptor_exchange(launcher_, node_pes_, "pgas", mine, options_.timeout_ns);
    if (!everybodys.ok())
      return everybodys.error();
    for (size_t i = 0; i < node_pes_.size(); i++) {
      auto const pe = size_t(node_pes_[i]);
      if (node_pes_[i] == me())
        continue;
      auto mapped = port::shared_mapping::map_beside(everybodys.value()[i][0], layout.size(),
                                                     place_of(node_pes_[i]));
      if (!mapped.ok())
        return mapped.error();
      std::byte *const there = mapped.value().memory().data();
      heap.mapped[pe] = there + layout.heap_offset();
      control.mapped[pe] = there;
      alarms[pe] = alarm_at(control.mapped[pe]);
      variables.mapped[pe] = there + layout.data_offset();
      inside_->others.push_back(std::move(mapped).value());
      if (options_.keeps_descriptors)
        files[pe] = everybodys.value()[i].take(0);
    }
  }
  if (options_.keeps_descriptors) {
    files[size_t(me())] = memory.value().release();
    for (int const each : files)
      inside_->files.push_back(each);
  }
  map_.alarms_set(std::move(alarms));
  map_.add(std::move(heap));
  if (card.data_size != 0)
    map_.add(std::move(variables));
  map_.add(std::move(control));
  return status::ok;
}

size_t job::heap_alignment() const noexcept {
  constexpr size_t alignment_max = size_t{1} << 30;  // as many addresses may be left out
  if (options_.heaps_at != nullptr)
    return large_page;
  return std::min(std::bit_ceil(options_.heap_size), alignment_max);
}

job::file_part job::heap_file(pe_index pe) const noexcept {
  if (size_t(pe) >= inside_->files.size())
    return {};
  return {inside_->files[size_t(pe)], inside_->heap_offset};
}

}  // namespace tanada::pgas
