/* iterator.h: the pieces of strided memory one after the other. C11 and C++20; link with -larmci.
 */
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

/** At the first piece. What armci.h's strided transfers do not accept ends the job. */
void armci_stride_info_init(stride_info_t *sinfo, void *base_ptr, int stride_levels,
                            const int *stride_arr, const int *seg_count);
void armci_stride_info_destroy(stride_info_t *sinfo);
/** How many pieces there are in all (count is size by another name), and the number of the current
 * one. */
int armci_stride_info_size(stride_info_t *sinfo);
int armci_stride_info_count(stride_info_t *sinfo);
int armci_stride_info_pos(stride_info_t *sinfo);
void armci_stride_info_next(stride_info_t *sinfo);
/** 0 after the last piece. */
int armci_stride_info_has_more(stride_info_t *sinfo);
/** The current piece: where it is, its bytes, and its bytes from the first one's start. */
void *armci_stride_info_seg_ptr(stride_info_t *sinfo);
int armci_stride_info_seg_size(stride_info_t *sinfo);
int armci_stride_info_seg_off(stride_info_t *sinfo);

#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif

#endif
