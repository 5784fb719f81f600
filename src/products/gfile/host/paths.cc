// products/gfile/host/paths.cc: which way a file's bytes take to the device.
//
// While only readers have a file open, kernels may read its own pages, where they are memory and
// mapped, or the store may place pages in the direct window; otherwise pages are staged in the host
// tier. What kernels write goes to the host tier alone. So a file gets another key when its first
// writer opens it: nothing that came by the other ways is found any more, and mapping, window and
// host tier never hold different bytes of one page under one key.
#include <unistd.h>

#include "products/gfile/host/core.hpp"

#include <fcntl.h>

#include <tanada/gfile.h>

namespace tanada::gfile {

// The file has been opened or looked at again, and nobody writes to it.
void core::choose_path(record &file) {
  file.direct = can_be_direct(file);
  if (file.mapping == 0 && !file.mapping_asked)
    ask_for_mapping(file);
}

bool core::can_be_direct(const record &file) const {
  port::direct_kind const kind = file.access.direct.kind;
  bool const is_offered = kind != port::direct_kind::none && kind >= options_.direct_min;
  return is_offered && frames_.window.count() > 0;
}

// A file's own pages are pinned for kernels in the background, which takes as long as to read them
// and slows down whoever does so meanwhile. What its store has mapped already is mapped at once.
bool core::maps_now(const record &file) const {
  uint64_t const page_count = (file.store_size + options_.page_size - 1) >> options_.page_shift;
  return options_.maps_at_once || !file.access.memory.bytes.empty() || file.was_closed ||
         file.loaded_pages > page_count;
}

// A writer opens the file: before its open is answered.
void core::leave_path(record &file) {
  bool const left = file.mapping != 0 || file.mapping_asked || file.direct;
  file.direct = false;
  if (!left)
    return;
  file.epoch++;
  if (!renew_key(file))
    file.serial->code = status::overflow;
}

void core::ask_for_mapping(record &file) {
  file.mapping_refusal.clear();
  bool const by_store = !file.access.memory.bytes.empty();
  bool const in_memory = by_store || file.access.memory_descriptor >= 0;
  int const theirs = in_memory ? file.access.memory_descriptor : file.access.cached_descriptor;
  if (maps_ == nullptr || (!by_store && theirs < 0) || file.store_size == 0)
    return;
  if (!maps_now(file)) {
    file.mapping_refusal =
        "mapped when it is read again: by another gopen after the last gclose, or past its end and "
        "anew";
    return;
  }
  int const descriptor = by_store ? -1 : fcntl(theirs, F_DUPFD_CLOEXEC, 0);
  if (!by_store && descriptor < 0) {
    file.mapping_refusal = "no descriptor is left to map the file";
    return;
  }
  map_request const wanted{file.index,         file.key,        descriptor,        in_memory,
                           file.access.sealed, file.store_size, file.access.memory};
  file.mapping_asked = maps_->post_map(wanted);
  if (file.mapping_asked)
    return;
  if (descriptor >= 0)
    close(descriptor);
  file.mapping_refusal = "as many bytes are mapped as mapping_size_max allows";
  (void)make_room_for_mapping();
}

// Closed files give up their mappings, for those that are open. Their room is there once the
// kernels that run have ended.
bool core::make_room_for_mapping() {
  bool made = false;
  for (record &other : files_) {
    if (other.mapping == 0 || other.opens > 0 || other.serial)
      continue;
    drop_mapping(other);
    other.version_good = false;  // the next open takes another key
    made = true;
  }
  return made;
}

void core::drop_mapping(record &file) {
  if (file.mapping != 0)
    maps_->retire(file.mapping);
  file.mapping = 0;
  file.mapping_asked = false;
}

bool core::on_mapped(const map_request &asked, const map_outcome &made) {
  record &file = files_[asked.file];
  bool const wanted = file.mapping_asked && file.key == asked.key && file.mapping == 0 &&
                      file.store_size == asked.size;
  if (!wanted)
    return false;
  file.mapping = made.slot;
  file.mapping_refusal = made.reason;
  return made.slot != 0;
}

void core::on_mapping_lost(const map_request &asked, u32 slot) {
  record &file = files_[asked.file];
  if (file.key != asked.key || file.mapping != slot)
    return;
  file.version_good = false;
  file.epoch++;
  if (!renew_key(file))
    drop_mapping(file);
  file.mapping_refusal = "another process has cut it or opened it to write";
}

std::vector<file_description> core::describe() const {
  std::vector<file_description> all;
  for (const record &file : files_) {
    if (file.now != record::state::open && file.now != record::state::remembered)
      continue;
    file_description one{
        file.index, TND_GFILE_PATH_STAGED, file.opens, file.write_opens, file.size, file.url, {}};
    bool const compatible = file.access.direct.kind == port::direct_kind::compatible;
    if (file.mapping != 0) {
      one.path = TND_GFILE_PATH_MAPPED;
      one.reason = file.mapping_refusal;
    } else if (file.direct) {
      one.path = compatible ? TND_GFILE_PATH_DIRECT_COMPATIBLE : TND_GFILE_PATH_DIRECT;
      one.reason = file.access.direct.reason;
    } else if (file.write_opens > 0) {
      one.reason =
          "open for writing: what kernels write goes to the host tier, and reads find it there";
    } else if (!file.mapping_refusal.empty()) {
      one.reason = file.mapping_refusal;
    } else if (file.mapping_asked) {
      one.reason = "being mapped";
    } else {
      one.reason = file.access.reason.empty() ? file.access.direct.reason : file.access.reason;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace tanada::gfile
