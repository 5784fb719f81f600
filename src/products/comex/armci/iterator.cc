// products/comex/armci/iterator.cc: iterates over the pieces of strided memory, and packs and
// unpacks them.
#include <compat/comex/iterator.h>

#include <climits>
#include <cstring>

#include "products/comex/armci/define.hpp"
#include "products/comex/armci/stride_arguments.hpp"

using namespace tanada::comex::armci;

ARMCI_DEFINE_PLAIN(void,
                   armci_stride_info_init,
                   (stride_info_t * sinfo,
                    void *base_ptr,
                    int stride_levels,
                    const int *stride_arr,
                    const int *seg_count),
                   {
                     if (sinfo == nullptr)
                       fatal(call, "the iterator is a null pointer");
                     if (!check_shape(call, {stride_arr, stride_arr, seg_count, stride_levels}))
                       fatal(call, "cannot create an iterator for this shape");
                     long long size = 1;
                     for (int i = 1; i <= stride_levels; i++) {
                       size *= seg_count[i];
                       if (size > INT_MAX)
                         fatal(call, "more than {} pieces", INT_MAX);
                     }
                     *sinfo = {};
                     sinfo->base_ptr = static_cast<char *>(base_ptr);
                     sinfo->stride_levels = stride_levels;
                     sinfo->size = int(size);
                     for (int i = 0; i < stride_levels; i++)
                       sinfo->stride_arr[i] = stride_arr[i];
                     for (int i = 0; i <= stride_levels; i++)
                       sinfo->seg_count[i] = seg_count[i];
                   })

ARMCI_DEFINE_PLAIN(void, armci_stride_info_destroy, ([[maybe_unused]] stride_info_t * sinfo), {})

ARMCI_DEFINE_PLAIN(int, armci_stride_info_size, (stride_info_t * sinfo), { return sinfo->size; })

ARMCI_DEFINE_PLAIN(int, armci_stride_info_count, (stride_info_t * sinfo), { return sinfo->size; })

ARMCI_DEFINE_PLAIN(int, armci_stride_info_pos, (stride_info_t * sinfo), { return sinfo->pos; })

ARMCI_DEFINE_PLAIN(int, armci_stride_info_has_more, (stride_info_t * sinfo), {
  return sinfo->pos < sinfo->size;
})

ARMCI_DEFINE_PLAIN(void, armci_stride_info_next, (stride_info_t * sinfo), {
  if (sinfo->pos >= sinfo->size)
    fatal(call, "the iterator is past its {} pieces", sinfo->size);
  sinfo->pos++;
  for (int i = 0; i < sinfo->stride_levels; i++) {
    if (++sinfo->itr[i] < sinfo->seg_count[i + 1])
      return;
    sinfo->itr[i] = 0;
  }
})

ARMCI_DEFINE_PLAIN(int, armci_stride_info_seg_size, (stride_info_t * sinfo), {
  return sinfo->seg_count[0];
})

namespace {

ptrdiff_t offset_of(const stride_info_t &iterator) {
  ptrdiff_t offset = 0;
  for (int i = 0; i < iterator.stride_levels; i++)
    offset += ptrdiff_t(iterator.itr[i]) * iterator.stride_arr[i];
  return offset;
}

// Calls `copy` with each piece of the memory and its position in the buffer.
template <typename Copy>
void for_each_piece(
    void *memory, int level_count, const int *strides, const int *counts, char *buffer, Copy copy) {
  stride_info_t iterator;
  armci_stride_info_init(&iterator, memory, level_count, strides, counts);
  for (auto const size = size_t(counts[0]); armci_stride_info_has_more(&iterator);
       armci_stride_info_next(&iterator)) {
    copy(iterator.base_ptr + offset_of(iterator), buffer, size);
    buffer += size;
  }
}

}  // namespace

ARMCI_DEFINE_PLAIN(int, armci_stride_info_seg_off, (stride_info_t * sinfo), {
  return int(offset_of(*sinfo));
})

ARMCI_DEFINE_PLAIN(void *, armci_stride_info_seg_ptr, (stride_info_t * sinfo), {
  return sinfo->base_ptr + offset_of(*sinfo);
})

ARMCI_DEFINE_PLAIN(void,
                   armci_write_strided,
                   (void *ptr, int stride_levels, int stride_arr[], int count[], char *buf),
                   {
                     for_each_piece(ptr,
                                    stride_levels,
                                    stride_arr,
                                    count,
                                    buf,
                                    [](const char *piece, char *place, size_t size) {
                                      std::memcpy(place, piece, size);
                                    });
                   })

ARMCI_DEFINE_PLAIN(void,
                   armci_read_strided,
                   (void *ptr, int stride_levels, int stride_arr[], int count[], char *buf),
                   {
                     for_each_piece(ptr,
                                    stride_levels,
                                    stride_arr,
                                    count,
                                    buf,
                                    [](char *piece, const char *place, size_t size) {
                                      std::memcpy(piece, place, size);
                                    });
                   })
