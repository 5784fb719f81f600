// Maps the pool's segments into this process.
#include "products/pool/client/segments.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "seams/os/huge_pages.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t page_size = 4096;
constexpr uint64_t segment_size_max = uint64_t{1} << 40;
constexpr uint64_t segment_populate_size = seams::huge_page_size;
static_assert(segment_populate_size % page_size == 0);

// The sum of the pieces' sizes in whole pages. Only the last piece may end within a page.
result<uint64_t> paged_size(const std::vector<wire::pool::pool_extent> &pieces) {
  uint64_t whole = 0;
  for (const wire::pool::pool_extent &piece : pieces) {
    bool const is_paged =
        piece.offset % page_size == 0 && (piece.size % page_size == 0 || &piece == &pieces.back());
    if (!is_paged)
      return fail(status::not_supported, "the object has pieces that are not whole pages");
    if (!checked_add(whole, (piece.size + page_size - 1) & ~(page_size - 1), whole))
      return status::protocol;
  }
  return whole;
}

status map_error(size_t piece_count) {
  bool const is_huge = errno == EINVAL;  // pieces do not begin at huge pages
  return fail(is_huge ? status::not_supported : status::no_memory,
              "{} pieces of the object {}",
              piece_count,
              is_huge ? "are not whole huge pages" : "cannot be mapped");
}

}  // namespace

descriptor::~descriptor() {
  if (number_ >= 0)
    close(number_);
}

void segments::clear() {
  mapped_.clear();
  small_count_ = 0;
  has_lasting_ = false;
}

void segments::unmap_lasting() {
  if (!has_lasting_)
    return;
  has_lasting_ = false;
  std::erase_if(mapped_, [this](auto const &entry) {
    mapping const &home = *entry.second;
    if (home.is_lasting && home.size < small_size)
      small_count_--;
    return home.is_lasting;
  });
}

// Unmaps half of the small segments, those that were used least recently. They are mapped again
// when they are needed.
void segments::unmap_small() {
  if (small_count_ <= small_count_max)
    return;
  std::vector<std::pair<uint64_t, uint32_t>> small;
  for (auto const &[number, home] : mapped_) {
    if (home->size < small_size)
      small.emplace_back(home->used_tick, number);
  }
  std::sort(small.begin(), small.end());
  small.resize(small.size() - small_count_max / 2);
  for (auto const &[tick, number] : small)
    mapped_.erase(number);
  small_count_ -= small.size();
}

std::vector<std::shared_ptr<device_mapping>> segments::take_device_mappings() {
  std::vector<std::shared_ptr<device_mapping>> detached;
  for (auto &[number, home] : mapped_) {
    if (home->device_mapped == nullptr)
      continue;
    home->device_mapped->detach();
    detached.push_back(std::exchange(home->device_mapped, nullptr));
  }
  return detached;
}

segments::mapping::~mapping() {
  if (device_mapped != nullptr)
    device_mapped->detach();
  if (addr != nullptr)
    munmap(addr, size);
}

result<segments::mapping *> segments::find(uint32_t segment) {
  if (auto const it = mapped_.find(segment); it != mapped_.end()) {
    it->second->used_tick = ++tick_;
    return it->second.get();
  }
  auto received = fetch_(segment);
  if (!received.ok())
    return received.error();
  return add(segment, std::move(received).value());
}

result<segments::mapping *> segments::add(uint32_t segment, received_segment received) {
  auto const &about = received.about;
  if (about.size == 0 || about.size > segment_size_max || about.size % page_size != 0)
    return status::protocol;
  int const protection = PROT_READ | (about.writable ? PROT_WRITE : 0);
  void *const addr =
      seams::map_file_part({received.file.get(), about.file_offset, about.size}, protection);
  if (addr == nullptr) {
    return fail(
        status::no_memory, "mapping {} bytes of the pool: {}", about.size, std::strerror(errno));
  }
  auto created = std::make_shared<mapping>();
  created->file = std::move(received.file);
  created->addr = static_cast<std::byte *>(addr);
  created->size = about.size;
  created->file_offset = about.file_offset;
  created->writable = about.writable != 0;
  created->has_huge_pages = about.has_huge_pages != 0;
  created->is_lasting = !seams::is_memory_file(created->file.get());
  has_lasting_ = has_lasting_ || created->is_lasting;
  created->used_tick = ++tick_;
  created->populated.resize((about.size + segment_populate_size - 1) / segment_populate_size);
  return &replace(segment, std::move(created));
}

segments::mapping &segments::replace(uint32_t segment, std::shared_ptr<mapping> created) {
  auto &entry = mapped_[segment];
  if (entry != nullptr && entry->size < small_size)
    small_count_--;
  if (created->size < small_size)
    small_count_++;
  entry = std::move(created);
  return *entry;
}

// Fills the page table in advance, instead of one fault for each page.
void segments::mapping::populate(uint64_t offset, uint64_t length) {
  if (length == 0)
    return;
  TND_ASSERT(addr != nullptr && offset <= size && length <= size - offset);
  for (uint64_t unit = offset / segment_populate_size;
       unit <= (offset + length - 1) / segment_populate_size;
       unit++) {
    if (populated[unit])
      continue;
    uint64_t const begin = unit * segment_populate_size;
    seams::populate_file_part(
        addr + begin, std::min(segment_populate_size, size - begin), writable);
    populated[unit] = true;
  }
}

status segments::mapping::map_for_device() {
  if (device_mapped != nullptr)
    return status::ok;
  if (is_lasting)
    return fail(status::not_supported, "memory that outlives the daemon is not registered");
  auto opened = device_mapping::open(file.get(), {size, file_offset, writable, has_huge_pages});
  if (!opened.ok())
    return opened.error();
  device_mapped = std::move(opened).value();
  device_mapped->attach();
  return status::ok;
}

result<std::shared_ptr<device_mapping>> segments::add_for_device(uint32_t segment,
                                                                 received_segment received) {
  auto base = add(segment, std::move(received));
  if (!base.ok())
    return base.error();
  TND_TRY(base.value()->map_for_device());
  return base.value()->device_mapped;
}

template <class Visit>
status segments::visit_parts(const std::vector<wire::pool::pool_extent> &pieces,
                             uint64_t offset,
                             uint64_t size,
                             const Visit &visit) {
  unmap_small();
  for (const wire::pool::pool_extent &piece : pieces) {
    if (size == 0)
      break;
    if (offset >= piece.size) {
      offset -= piece.size;
      continue;
    }
    auto base = find(piece.segment);
    if (!base.ok())
      return base.error();
    if (!range_fits(piece.offset, piece.size, base.value()->size))
      return status::protocol;
    uint64_t const part_size = std::min(size, piece.size - offset);
    TND_TRY(visit(*base.value(), piece.offset + offset, part_size));
    size -= part_size;
    offset = 0;
  }
  return size == 0 ? status::ok : status::protocol;
}

status segments::parts_of(const std::vector<wire::pool::pool_extent> &pieces,
                          uint64_t offset,
                          uint64_t size,
                          std::vector<iovec> &parts) {
  return visit_parts(
      pieces, offset, size, [&parts](mapping &base, uint64_t begin, uint64_t length) {
        base.populate(begin, length);
        parts.push_back({base.addr + begin, length});
        return status::ok;
      });
}

status segments::device_ranges_of(const std::vector<wire::pool::pool_extent> &pieces,
                                  uint64_t offset,
                                  uint64_t size,
                                  std::vector<device_range> &ranges) {
  return visit_parts(
      pieces, offset, size, [&ranges](mapping &base, uint64_t begin, uint64_t length) {
        TND_TRY(base.map_for_device());
        ranges.push_back({base.device_mapped, begin, length});
        return status::ok;
      });
}

result<void *> segments::contiguous(const std::vector<wire::pool::pool_extent> &pieces,
                                    uint64_t size,
                                    bool &caller_unmaps,
                                    std::shared_ptr<void> &owner) {
  std::vector<iovec> parts;
  TND_TRY(visit_parts(pieces, 0, size, [&parts](mapping &home, uint64_t begin, uint64_t length) {
    parts.push_back({home.addr + begin, length});
    return status::ok;
  }));
  caller_unmaps = false;
  if (parts.empty())
    return static_cast<void *>(nullptr);
  if (parts.size() == 1)
    return map_piece(pieces[0], parts[0], owner);
  auto whole = paged_size(pieces);
  if (!whole.ok())
    return whole.error();
  auto mapped = map_pieces(pieces, whole.value());
  caller_unmaps = mapped.ok();
  return mapped;
}

// A separate mapping must consist of whole pages. On huge pages, the segment's own mapping must do.
void *segments::map_piece(const wire::pool::pool_extent &piece,
                          const iovec &part,
                          std::shared_ptr<void> &owner) {
  auto const base = mapped_.at(piece.segment);
  uint64_t const skipped = piece.offset % page_size, begin = piece.offset - skipped,
                 mapped_size = skipped + part.iov_len;
  void *const addr =
      seams::map_file_part({base->file.get(), base->file_offset + begin, mapped_size}, PROT_READ);
  if (addr == nullptr) {
    owner = base;
    return part.iov_base;
  }
  owner = std::shared_ptr<void>{addr, [mapped_size](void *mapped) {
                                  munmap(mapped, mapped_size);
                                }};
  return static_cast<std::byte *>(addr) + skipped;
}

result<void *> segments::map_pieces(const std::vector<wire::pool::pool_extent> &pieces,
                                    uint64_t whole) {
  TND_ASSERT(!pieces.empty() && whole % page_size == 0);
  void *const addr =
      mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addr == MAP_FAILED)
    return fail(status::no_memory, "cannot reserve {} bytes of addresses", whole);
  auto *position = static_cast<std::byte *>(addr);
  for (const wire::pool::pool_extent &piece : pieces) {
    mapping const &base = *mapped_.at(piece.segment);
    if (mmap(position,
             piece.size,
             PROT_READ,
             MAP_SHARED | MAP_FIXED,
             base.file.get(),
             off_t(base.file_offset + piece.offset)) == MAP_FAILED) {
      status const code = map_error(pieces.size());
      munmap(addr, whole);
      return code;
    }
    position += piece.size;
  }
  return addr;
}

}  // namespace tanada::pool
