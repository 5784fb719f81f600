// products/gfile/host/page_lists.cc: requests for many pages anywhere in a file, which a warp makes
// for rows that it gathers.
//
// The pages are read into an area that is lent to the kernel, past the host tier: a thread copies
// them from the page cache, and the core's work is that of one request. Writers do not change an
// area, so a file that is open for writing, or has bytes that its store does not have, has no
// lists. Files whose store is slow have none either: their pages shall stay in the host tier.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

// ok. not_supported: lists of this file are not read. busy: not now.
status core::may_read_list(const record &file) const {
  if (options_.list_area_count == 0 || !file.access.is_cached || file.direct)
    return status::not_supported;
  bool const is_changing = file.write_opens > 0 || file.serial || !file.dirty.empty();
  return is_changing ? status::busy : status::ok;
}

void core::read_list(pending request) {
  record &file = files_[request.file];
  if (file.waiting_lists.empty())
    list_files_.push_back(file.index);
  file.waiting_lists.push_back(std::move(request));
  start_lists();
}

// Files take turns.
void core::start_lists() {
  for (size_t count = list_files_.size(); count > 0; count--) {
    record &file = files_[list_files_.front()];
    list_files_.pop_front();
    start_file_lists(file);
    if (!file.waiting_lists.empty())
      list_files_.push_back(file.index);
    if (free_areas_.empty())
      return;
  }
}

// A file may have half of the areas, so that others proceed if its store does not respond.
void core::start_file_lists(record &file) {
  uint32_t const count_max = std::max(options_.list_area_count / 2, 1u);
  while (!file.waiting_lists.empty()) {
    status code = may_read_list(file);
    if (code == status::ok && (file.list_count >= count_max || free_areas_.empty()))
      return;
    pending const request = std::move(file.waiting_lists.front());
    file.waiting_lists.pop_front();
    if (server_.is_canceled(request.slot))
      code = status::canceled;
    if (code == status::ok)
      start_list(file, request);
    else
      answer(request.slot, code);
  }
}

// The pages that the kernel put into its list. Returns false if the list is malformed.
bool core::add_list_pages(operation &io, const pending &request) const {
  auto *const area = reinterpret_cast<std::byte *>(options_.list_areas) +
                     (uint64_t{io.area} * options_.list_page_count << options_.page_shift);
  for (uint64_t rest = request.words[0]; rest != 0; rest &= rest - 1) {
    auto const position = uint32_t(std::countr_zero(rest));
    if (position >= options_.list_page_count)
      return false;
    uint64_t const page = server_.list_word(request.slot, position);
    if (page > tier::page_index_max)
      return false;
    io.pages.push_back({&io, position});
    io.reads.push_back({page << options_.page_shift,
                        {area + (uint64_t{position} << options_.page_shift), options_.page_size}});
  }
  return !io.pages.empty();
}

void core::start_list(record &file, const pending &request) {
  TND_ASSERT(!free_areas_.empty() && list_operations_[request.slot] == nullptr);
  auto io = make(operation::kind::read_list, file);
  io->area = free_areas_.back();
  if (!add_list_pages(*io, request)) {
    recycle(std::move(io));
    return answer(request.slot, status::protocol);
  }
  free_areas_.pop_back();
  file.list_count++;
  io->request = request;
  io->unfinished_count = io->pages.size() + 1;
  io->handle = file.handle.get();
  io->body.kind = seams::store_op_kind::read;
  io->body.buffers.push_back(io->reads[0].buffer);
  list_operations_[request.slot] = io.get();
  statistics_.store_reads += io->pages.size();
  count_loaded(file, uint32_t(io->pages.size()));
  post(std::move(io));
}

// The positions of the pages that the store returned as a whole. What it does not have of the last
// one is zero. Pages that could not be read are left out: the kernel requests them one by one, and
// gets the error.
uint64_t core::valid_list_pages(const operation &done) {
  uint64_t valid_pages = 0;
  for (size_t i = 0; i < done.pages.size(); i++) {
    seams::store_read const &read = done.reads[i];
    TND_ASSERT(read.size <= options_.page_size);
    statistics_.store_read_size += read.size;
    if (read.size < options_.page_size)
      std::memset(read.buffer.addr + read.size, 0, options_.page_size - read.size);
    bool const is_whole = read.size >= bytes_expected(done, read.offset, options_.page_size);
    if (read.code == status::ok && is_whole)
      valid_pages |= uint64_t{1} << done.pages[i].position;
  }
  return valid_pages;
}

void core::on_list(operation &done) {
  record &file = files_[done.file];
  u64 const valid_pages = valid_list_pages(done);
  TND_ASSERT(file.list_count > 0);
  file.list_count--;
  u32 const slot = done.request.slot;
  if (slot == rpc::no_slot)
    return free_area(done.area);
  TND_ASSERT(list_operations_[slot] == &done && grants_[slot].type == grant::kind::empty);
  list_operations_[slot] = nullptr;
  if (server_.is_canceled(slot)) {
    free_area(done.area);
    return answer(slot, status::canceled);
  }
  grants_[slot] = {.type = grant::kind::list, .frame = done.area};
  server_.reply(slot, status::ok, done.area, &valid_pages, 1, true);
}

void core::free_area(uint32_t area) {
  free_areas_.push_back(area);
  TND_ASSERT(free_areas_.size() <= options_.list_area_count);
  start_lists();
}

// Answer the file's lists that have not begun.
void core::drop_lists(record &file, status code) {
  if (file.waiting_lists.empty())
    return;
  for (pending const &request : std::exchange(file.waiting_lists, {}))
    answer(request.slot, code);
  std::erase(list_files_, file.index);
}

void core::drop_canceled_lists() {
  for (u32 slot = 0; slot < rpc::slot_count; slot++) {
    if (list_operations_[slot] == nullptr || !server_.is_canceled(slot))
      continue;
    std::exchange(list_operations_[slot], nullptr)->request.slot = rpc::no_slot;
    answer(slot, status::canceled);
  }
  for (size_t i = 0; i < list_files_.size(); i++)
    std::erase_if(files_[list_files_[i]].waiting_lists, [&](const pending &request) {
      bool const canceled = server_.is_canceled(request.slot);
      if (canceled)
        answer(request.slot, status::canceled);
      return canceled;
    });
  std::erase_if(list_files_, [&](uint32_t index) { return files_[index].waiting_lists.empty(); });
}

}  // namespace tanada::gfile
