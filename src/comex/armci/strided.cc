// comex/armci/strided.cc: strided transfers, which are contiguous ones where their pieces touch.
#include "comex/armci/define.hpp"
#include "comex/armci/shape.hpp"
#include "comex/armci/transfer.hpp"

using namespace tanada::comex::armci;

namespace {

// The three kinds of transfers, each blocking or, with a handle, not.
struct put_kind {
  armci_hdl_t *const handle = nullptr;
  const bool has_handle = false;

  int move(void *source, void *target, int size, int rank) const {
    return has_handle ? comex_nbput(source, target, size, rank, COMEX_GROUP_WORLD, handle)
                      : comex_put(source, target, size, rank, COMEX_GROUP_WORLD);
  }
  int move(void *source, void *target, folded_shape &shape, int rank) const {
    return has_handle ? comex_nbputs(source, shape.source_strides, target, shape.target_strides, shape.counts, shape.level_count,
                                     rank, COMEX_GROUP_WORLD, handle)
                      : comex_puts(source, shape.source_strides, target, shape.target_strides, shape.counts, shape.level_count,
                                   rank, COMEX_GROUP_WORLD);
  }
};

struct get_kind {
  armci_hdl_t *const handle = nullptr;
  const bool has_handle = false;

  int move(void *source, void *target, int size, int rank) const {
    return has_handle ? comex_nbget(source, target, size, rank, COMEX_GROUP_WORLD, handle)
                      : comex_get(source, target, size, rank, COMEX_GROUP_WORLD);
  }
  int move(void *source, void *target, folded_shape &shape, int rank) const {
    return has_handle ? comex_nbgets(source, shape.source_strides, target, shape.target_strides, shape.counts, shape.level_count,
                                     rank, COMEX_GROUP_WORLD, handle)
                      : comex_gets(source, shape.source_strides, target, shape.target_strides, shape.counts, shape.level_count,
                                   rank, COMEX_GROUP_WORLD);
  }
};

struct acc_kind {
  const int operation;
  void *const scale;
  armci_hdl_t *const handle = nullptr;
  const bool has_handle = false;

  int move(void *source, void *target, int size, int rank) const {
    return has_handle ? comex_nbacc(operation, scale, source, target, size, rank, COMEX_GROUP_WORLD, handle)
                      : comex_acc(operation, scale, source, target, size, rank, COMEX_GROUP_WORLD);
  }
  int move(void *source, void *target, folded_shape &shape, int rank) const {
    return has_handle ? comex_nbaccs(operation, scale, source, shape.source_strides, target, shape.target_strides, shape.counts,
                                     shape.level_count, rank, COMEX_GROUP_WORLD, handle)
                      : comex_accs(operation, scale, source, shape.source_strides, target, shape.target_strides, shape.counts,
                                   shape.level_count, rank, COMEX_GROUP_WORLD);
  }
};

template <typename Kind>
int transfer(const char *call, const Kind &kind, void *source, void *target, const given_shape &given, int rank) {
  if (!check_shape(call, given)) return COMEX_FAILURE;
  folded_shape shape = fold(given);
  if (shape.is_empty) return kind.move(source, target, 0, rank);
  return shape.level_count == 0 ? kind.move(source, target, shape.counts[0], rank) : kind.move(source, target, shape, rank);
}

int put_with_flag(const char *call, void *source, void *target, const given_shape &given, int *flag, int value, int rank) {
  int const code = transfer(call, put_kind{}, source, target, given, rank);
  return code != COMEX_SUCCESS ? code : set_flag(flag, value, rank);
}

}  // namespace

#define ARMCI_SHAPE_PARAMETERS \
  void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int stride_levels
#define ARMCI_GIVEN_SHAPE given_shape { src_stride_arr, dst_stride_arr, count, stride_levels }

ARMCI_DEFINE(int, ARMCI_PutS, (ARMCI_SHAPE_PARAMETERS, int proc),
             { return transfer(call, put_kind{}, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, proc); })

ARMCI_DEFINE(int, ARMCI_GetS, (ARMCI_SHAPE_PARAMETERS, int proc),
             { return transfer(call, get_kind{}, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, proc); })

ARMCI_DEFINE(int, ARMCI_AccS, (int optype, void *scale, ARMCI_SHAPE_PARAMETERS, int proc),
             { return transfer(call, acc_kind{optype, scale}, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, proc); })

ARMCI_DEFINE(int, ARMCI_NbPutS, (ARMCI_SHAPE_PARAMETERS, int proc, armci_hdl_t *nb_handle),
             { return transfer(call, put_kind{nb_handle, true}, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, proc); })

ARMCI_DEFINE(int, ARMCI_NbGetS, (ARMCI_SHAPE_PARAMETERS, int proc, armci_hdl_t *nb_handle),
             { return transfer(call, get_kind{nb_handle, true}, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, proc); })

ARMCI_DEFINE(int, ARMCI_NbAccS, (int optype, void *scale, ARMCI_SHAPE_PARAMETERS, int proc, armci_hdl_t *nb_handle),
             { return transfer(call, acc_kind{optype, scale, nb_handle, true}, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, proc); })

ARMCI_DEFINE(int, ARMCI_PutS_flag, (ARMCI_SHAPE_PARAMETERS, int *flag, int val, int proc),
             { return put_with_flag(call, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, flag, val, proc); })

ARMCI_DEFINE(int, ARMCI_PutS_flag_dir, (ARMCI_SHAPE_PARAMETERS, int *flag, int val, int proc),
             { return put_with_flag(call, src_ptr, dst_ptr, ARMCI_GIVEN_SHAPE, flag, val, proc); })
