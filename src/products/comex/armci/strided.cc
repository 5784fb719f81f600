// products/comex/armci/strided.cc: strided transfers. comex merges adjacent pieces. An invalid
// shape is refused here with a status, where comex would end the job.
#include "products/comex/armci/define.hpp"
#include "products/comex/armci/stride_arguments.hpp"
#include "products/comex/armci/armci_transfer.hpp"

using namespace tanada::comex::armci;

#define ARMCI_SHAPE_PARAMETERS                                                           \
  void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], \
      int stride_levels
#define ARMCI_SHAPE src_ptr, src_stride_arr, dst_ptr, dst_stride_arr, count, stride_levels
#define ARMCI_CHECK_SHAPE                                                         \
  if (!check_shape(call, {src_stride_arr, dst_stride_arr, count, stride_levels})) \
  return COMEX_FAILURE

ARMCI_DEFINE(int, ARMCI_PutS, (ARMCI_SHAPE_PARAMETERS, int proc), {
  ARMCI_CHECK_SHAPE;
  return comex_puts(ARMCI_SHAPE, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_GetS, (ARMCI_SHAPE_PARAMETERS, int proc), {
  ARMCI_CHECK_SHAPE;
  return comex_gets(ARMCI_SHAPE, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_AccS, (int optype, void *scale, ARMCI_SHAPE_PARAMETERS, int proc), {
  ARMCI_CHECK_SHAPE;
  return comex_accs(optype, scale, ARMCI_SHAPE, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_NbPutS, (ARMCI_SHAPE_PARAMETERS, int proc, armci_hdl_t *nb_handle), {
  ARMCI_CHECK_SHAPE;
  return comex_nbputs(ARMCI_SHAPE, proc, COMEX_GROUP_WORLD, nb_handle);
})

ARMCI_DEFINE(int, ARMCI_NbGetS, (ARMCI_SHAPE_PARAMETERS, int proc, armci_hdl_t *nb_handle), {
  ARMCI_CHECK_SHAPE;
  return comex_nbgets(ARMCI_SHAPE, proc, COMEX_GROUP_WORLD, nb_handle);
})

ARMCI_DEFINE(int,
             ARMCI_NbAccS,
             (int optype, void *scale, ARMCI_SHAPE_PARAMETERS, int proc, armci_hdl_t *nb_handle),
             {
               ARMCI_CHECK_SHAPE;
               return comex_nbaccs(optype, scale, ARMCI_SHAPE, proc, COMEX_GROUP_WORLD, nb_handle);
             })

ARMCI_DEFINE(int, ARMCI_PutS_flag, (ARMCI_SHAPE_PARAMETERS, int *flag, int val, int proc), {
  int const code = PARMCI_PutS(ARMCI_SHAPE, proc);
  return code != COMEX_SUCCESS ? code : set_flag(flag, val, proc);
})

ARMCI_DEFINE(int, ARMCI_PutS_flag_dir, (ARMCI_SHAPE_PARAMETERS, int *flag, int val, int proc), {
  return PARMCI_PutS_flag(ARMCI_SHAPE, flag, val, proc);
})
