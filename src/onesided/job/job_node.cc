// Memory that the PEs of a node share: each creates its own, and maps that of the others.
#include <algorithm>
#include <bit>

#include "core/base/log.hpp"
#include "onesided/job/job_impl.hpp"
#include "seams/os/program_data.hpp"

namespace tanada::onesided {
namespace {

// The memory of one PE, behind one descriptor: [control memory][gap][heap][program's data]. The gap
// belongs to no segment, so an address outside the heap is never mistaken for control memory. The
// heap begins where a large page may.
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
  auto const &card = impl_->cards[size_t(me())];
  bool const has_local_peers = node_pes_.size() > 1;
  // If this PE is the only one of its node, no PE maps the program's data, which stay in place.
  node_layout const layout{card.control_size, card.heap_size, has_local_peers ? card.data_size : 0};
  auto memory = seams::shared_memory::create("tanada-pe", layout.size());
  if (!memory.ok())
    return memory.error();
  int const descriptor = memory.value().descriptor();
  if (options_.heap_base != nullptr && layout.size() > options_.heap_stride) {
    return fail(status::invalid,
                "the memory of a PE has %zu bytes, more than the stride of %zu bytes",
                layout.size(), options_.heap_stride);
  }
  auto const address_of = [&](pe_index pe) {
    return options_.heap_base == nullptr ? nullptr
                                         : options_.heap_base + size_t(pe) * options_.heap_stride;
  };
  auto mapping = seams::shared_mapping::map_shared(
      descriptor, layout.data_offset(), address_of(me()),
      {.alignment = heap_alignment(), .offset = layout.heap_offset()});
  if (!mapping.ok())
    return mapping.error();
  impl_->own_mapping = std::move(mapping).value();
  std::span<std::byte> const whole_control{impl_->own_mapping.memory().data(), layout.control_size};
  std::byte *const base = impl_->own_mapping.memory().data() + layout.heap_offset();
  control_ = whole_control.subspan(sizeof(seams::shared_alarm));
  std::vector<seams::shared_alarm *> alarms(size_t(count()), nullptr);
  auto const alarm_at = [](std::byte *control) {
    return reinterpret_cast<seams::shared_alarm *>(control);
  };
  alarms[size_t(me())] = alarm_at(whole_control.data());
  alarm_ = alarms[size_t(me())];

  auto const data = seams::program_data();
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
  control.is_internal = true;
  heap.mapped[size_t(me())] = base;
  variables.mapped[size_t(me())] = data.data();
  control.mapped[size_t(me())] = whole_control.data();

  impl_->heap_offset = layout.heap_offset();
  std::vector<int> files(size_t(count()), -1);
  if (has_local_peers) {
    if (layout.data_size != 0)
      TND_TRY(seams::program_data_share(descriptor, layout.data_offset()));
    int const own_descriptors[] = {descriptor};
    auto descriptors = seams::descriptor_exchange(launcher_, node_pes_, "pgas", own_descriptors,
                                                  options_.timeout_ns);
    if (!descriptors.ok())
      return descriptors.error();
    for (size_t i = 0; i < node_pes_.size(); i++) {
      auto const pe = size_t(node_pes_[i]);
      if (node_pes_[i] == me())
        continue;
      auto mapped = seams::shared_mapping::map_shared(descriptors.value()[i][0], layout.size(),
                                                      address_of(node_pes_[i]));
      if (!mapped.ok())
        return mapped.error();
      std::byte *const peer_base = mapped.value().memory().data();
      heap.mapped[pe] = peer_base + layout.heap_offset();
      control.mapped[pe] = peer_base;
      alarms[pe] = alarm_at(control.mapped[pe]);
      variables.mapped[pe] = peer_base + layout.data_offset();
      impl_->peer_mappings.push_back(std::move(mapped).value());
      if (options_.keeps_descriptors)
        files[pe] = descriptors.value()[i].take(0);
    }
  }
  if (options_.keeps_descriptors) {
    files[size_t(me())] = memory.value().release();
    for (int const file : files)
      impl_->files.push_back(file);
  }
  map_.alarms_set(std::move(alarms));
  map_.add(std::move(heap));
  if (card.data_size != 0)
    map_.add(std::move(variables));
  map_.add(std::move(control));
  return status::ok;
}

size_t job::heap_alignment() const noexcept {
  constexpr size_t alignment_max = size_t{1} << 30;  // up to as many addresses may stay unused
  if (options_.heap_base != nullptr)
    return large_page;
  return std::min(std::bit_ceil(options_.heap_size), alignment_max);
}

job::file_part job::heap_file(pe_index pe) const noexcept {
  if (size_t(pe) >= impl_->files.size())
    return {};
  return {impl_->files[size_t(pe)], impl_->heap_offset};
}

}  // namespace tanada::onesided
