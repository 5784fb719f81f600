/* iterator.h: iterates over the pieces of strided memory. C11 and C++20; link with -larmci. */
#ifndef TANADA_COMPAT_COMEX_ITERATOR_H
#define TANADA_COMPAT_COMEX_ITERATOR_H

#include "armci.h"

#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct {
  char *base_ptr;
  int stride_levels;
  int stride_arr[ARMCI_MAX_STRIDE_LEVEL];    /* bytes */
  int seg_count[ARMCI_MAX_STRIDE_LEVEL + 1]; /* [0]: bytes of a piece */
  int size, pos, itr[ARMCI_MAX_STRIDE_LEVEL];
} stride_info_t;

/** Starts at the first piece. A shape that the strided transfers of armci.h refuse ends the job. */
void armci_stride_info_init(stride_info_t *sinfo,
                            void *base_ptr,
                            int stride_levels,
                            const int *stride_arr,
                            const int *seg_count);
void armci_stride_info_destroy(stride_info_t *sinfo);
/** The number of pieces (count is another name for size), and the index of the current piece. */
int armci_stride_info_size(stride_info_t *sinfo);
int armci_stride_info_count(stride_info_t *sinfo);
int armci_stride_info_pos(stride_info_t *sinfo);
void armci_stride_info_next(stride_info_t *sinfo);
/** 0 after the last piece. */
int armci_stride_info_has_more(stride_info_t *sinfo);
/** The current piece: its address, its size in bytes, and its offset in bytes from the first piece.
 */
void *armci_stride_info_seg_ptr(stride_info_t *sinfo);
int armci_stride_info_seg_size(stride_info_t *sinfo);
int armci_stride_info_seg_off(stride_info_t *sinfo);

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
