// products/gfile/host/paths.cc: which path a file's bytes take to the device.
//
// While only readers have a file open, kernels may read its own pages, if these are in memory and
// mapped, or the store may place pages in the direct window. Otherwise pages are staged in the host
// tier. Kernels write only to the host tier. So a file gets another key when its first writer opens
// it: nothing that came by the other paths is found any more. Mapping, window and host tier never
// hold different bytes of one page under one key.
#include <unistd.h>

#include "core/base/assert.hpp"
#include "products/gfile/host/core.hpp"

#include <fcntl.h>

#include <tanada/gfile.h>

namespace tanada::gfile {

// Called when the file has been opened or revalidated and has no writer.
void core::choose_path(record &file) {
  file.direct = can_be_direct(file);
  if (file.mapping == 0 && !file.mapping_requested)
    request_mapping(file);
}

bool core::can_be_direct(const record &file) const {
  seams::direct_kind const kind = file.access.direct.kind;
  bool const is_offered = kind != seams::direct_kind::unavailable && kind >= options_.direct_min;
  return is_offered && frames_.window.count() > 0;
}

// A file's own pages are pinned for kernels in the background. That takes as long as reading them,
// and slows down concurrent readers. Files that their store has already mapped are mapped at once.
bool core::should_map(const record &file) const {
  uint64_t const page_count = (file.store_size + options_.page_size - 1) >> options_.page_shift;
  return options_.maps_immediately || !file.access.memory.bytes.empty() || file.was_closed ||
         file.loaded_pages > page_count;
}

// Called before the answer to a writer's open.
void core::abandon_path(record &file) {
  bool const had_path = file.mapping != 0 || file.mapping_requested || file.direct;
  file.direct = false;
  if (!had_path)
    return;
  file.epoch++;
  if (!renew_key(file))
    file.serial->code = status::overflow;
}

void core::request_mapping(record &file) {
  TND_ASSERT(file.mapping == 0 && !file.mapping_requested);
  file.mapping_refusal.clear();
  bool const by_store = !file.access.memory.bytes.empty();
  bool const in_memory = by_store || file.access.memory_descriptor >= 0;
  int const store_descriptor =
      in_memory ? file.access.memory_descriptor : file.access.cached_descriptor;
  if (mapper_ == nullptr || (!by_store && store_descriptor < 0) || file.store_size == 0)
    return;
  if (!should_map(file)) {
    file.mapping_refusal =
        "mapped when it is read again: after the last gclose and another gopen, or after its end "
        "was reached";
    return;
  }
  int const descriptor = by_store ? -1 : fcntl(store_descriptor, F_DUPFD_CLOEXEC, 0);
  if (!by_store && descriptor < 0) {
    file.mapping_refusal = "no file descriptor is left to map the file";
    return;
  }
  map_request const request{file.index,
                            file.key,
                            descriptor,
                            in_memory,
                            file.access.is_sealed,
                            file.store_size,
                            file.access.memory};
  file.mapping_requested = mapper_->post_map(request);
  if (file.mapping_requested)
    return;
  if (descriptor >= 0)
    close(descriptor);
  file.mapping_refusal = "the limit of mapped bytes or files is reached (mapping_size_max)";
  (void)drop_idle_mappings();
}

// Drop the mappings of closed files, for those that are open. Their space is free once the running
// kernels have ended.
bool core::drop_idle_mappings() {
  bool is_dropped = false;
  for (record &candidate : files_) {
    if (candidate.mapping == 0 || candidate.opens > 0 || candidate.serial)
      continue;
    drop_mapping(candidate);
    candidate.is_version_stable = false;  // the next open takes another key
    is_dropped = true;
  }
  return is_dropped;
}

void core::drop_mapping(record &file) {
  if (file.mapping != 0) {
    TND_ASSERT(mapper_ != nullptr);
    mapper_->retire(file.mapping);
  }
  file.mapping = 0;
  file.mapping_requested = false;
}

bool core::on_mapped(const map_request &request, const map_outcome &outcome) {
  TND_ASSERT(request.file < files_.size());
  record &file = files_[request.file];
  bool const is_wanted = file.mapping_requested && file.key == request.key && file.mapping == 0 &&
                         file.store_size == request.size;
  if (!is_wanted)
    return false;
  file.mapping = outcome.slot;
  file.mapping_refusal = outcome.reason;
  return outcome.slot != 0;
}

void core::on_mapping_lost(const map_request &request, u32 slot) {
  TND_ASSERT(request.file < files_.size());
  record &file = files_[request.file];
  if (file.key != request.key || file.mapping != slot)
    return;
  file.is_version_stable = false;
  file.epoch++;
  if (!renew_key(file))
    drop_mapping(file);
  file.mapping_refusal = "another process truncated it or opened it for writing";
}

std::vector<file_description> core::describe() const {
  std::vector<file_description> files;
  for (const record &file : files_) {
    if (file.phase != record::state::open && file.phase != record::state::remembered)
      continue;
    file_description description{
        file.index, TND_GFILE_PATH_STAGED, file.opens, file.write_opens, file.size, file.url, {}};
    bool const compatible = file.access.direct.kind == seams::direct_kind::compatible;
    if (file.mapping != 0) {
      description.path = TND_GFILE_PATH_MAPPED;
      description.reason = file.mapping_refusal;
    } else if (file.direct) {
      description.path = compatible ? TND_GFILE_PATH_DIRECT_COMPATIBLE : TND_GFILE_PATH_DIRECT;
      description.reason = file.access.direct.reason;
    } else if (file.write_opens > 0) {
      description.reason = "open for writing: kernels write to the host tier and read from it";
    } else if (!file.mapping_refusal.empty()) {
      description.reason = file.mapping_refusal;
    } else if (file.mapping_requested) {
      description.reason = "being mapped";
    } else {
      description.reason =
          file.access.reason.empty() ? file.access.direct.reason : file.access.reason;
    }
    files.push_back(std::move(description));
  }
  return files;
}

}  // namespace tanada::gfile
