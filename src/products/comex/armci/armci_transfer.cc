// products/comex/armci/armci_transfer.cc: contiguous transfers, vectors, single values, and waits
// for transfers. All calls name ranks of the world.
#include <cstring>

#include "products/comex/armci/define.hpp"
#include "products/comex/armci/state.hpp"
#include "products/comex/armci/armci_transfer.hpp"

using namespace tanada::comex::armci;

namespace tanada::comex::armci {

int set_flag(int *flag, int value, int rank) {
  // The fence orders the flag after the data.
  int const code = comex_fence_proc(rank, COMEX_GROUP_WORLD);
  return code != COMEX_SUCCESS ? code
                               : comex_put(&value, flag, sizeof value, rank, COMEX_GROUP_WORLD);
}

}  // namespace tanada::comex::armci

ARMCI_DEFINE(int, ARMCI_Put, (void *src, void *dst, int bytes, int proc), {
  return comex_put(src, dst, bytes, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_Put_flag, (void *src, void *dst, int bytes, int *f, int v, int proc), {
  int const code = comex_put(src, dst, bytes, proc, COMEX_GROUP_WORLD);
  return code != COMEX_SUCCESS ? code : set_flag(f, v, proc);
})

ARMCI_DEFINE(int, ARMCI_Get, (void *src, void *dst, int bytes, int proc), {
  return comex_get(src, dst, bytes, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_Acc, (int optype, void *scale, void *src, void *dst, int bytes, int proc), {
  return comex_acc(optype, scale, src, dst, bytes, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int,
             ARMCI_NbPut,
             (void *src, void *dst, int bytes, int proc, armci_hdl_t *nb_handle),
             { return comex_nbput(src, dst, bytes, proc, COMEX_GROUP_WORLD, nb_handle); })

ARMCI_DEFINE(int,
             ARMCI_NbGet,
             (void *src, void *dst, int bytes, int proc, armci_hdl_t *nb_handle),
             { return comex_nbget(src, dst, bytes, proc, COMEX_GROUP_WORLD, nb_handle); })

ARMCI_DEFINE(int, ARMCI_Wait, (armci_hdl_t * nb_handle), { return comex_wait(nb_handle); })

ARMCI_DEFINE(int, ARMCI_Test, (armci_hdl_t * nb_handle), {
  int state = 0;
  require_ok(call, "comex_test", comex_test(nb_handle, &state));
  return state;
})

ARMCI_DEFINE(int, ARMCI_WaitAll, (void), { return comex_wait_all(COMEX_GROUP_WORLD); })

ARMCI_DEFINE(int, ARMCI_WaitProc, (int proc), { return comex_wait_proc(proc, COMEX_GROUP_WORLD); })

ARMCI_DEFINE(void, ARMCI_Copy, (void *src, void *dst, int n), {
  if (n < 0)
    fatal(call, "the size is negative: {} bytes", n);
  std::memmove(dst, src, size_t(n));
})

ARMCI_DEFINE_PLAIN(void, ARMCI_SET_AGGREGATE_HANDLE, ([[maybe_unused]] armci_hdl_t * nb_handle), {})

ARMCI_DEFINE_PLAIN(void,
                   ARMCI_UNSET_AGGREGATE_HANDLE,
                   ([[maybe_unused]] armci_hdl_t * nb_handle),
                   {})

// An ARMCI vector has the same layout as one of comex.h; only the field names differ.
static_assert(sizeof(armci_giov_t) == sizeof(comex_giov_t) &&
              offsetof(armci_giov_t, src_ptr_array) == offsetof(comex_giov_t, src) &&
              offsetof(armci_giov_t, dst_ptr_array) == offsetof(comex_giov_t, dst) &&
              offsetof(armci_giov_t, ptr_array_len) == offsetof(comex_giov_t, count) &&
              offsetof(armci_giov_t, bytes) == offsetof(comex_giov_t, bytes));

namespace {

comex_giov_t *as_comex_vectors(armci_giov_t *vectors) {
  return reinterpret_cast<comex_giov_t *>(vectors);
}

}  // namespace

ARMCI_DEFINE(int, ARMCI_PutV, (armci_giov_t darr[], int len, int proc), {
  return comex_putv(as_comex_vectors(darr), len, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_GetV, (armci_giov_t darr[], int len, int proc), {
  return comex_getv(as_comex_vectors(darr), len, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_AccV, (int op, void *scale, armci_giov_t darr[], int len, int proc), {
  return comex_accv(op, scale, as_comex_vectors(darr), len, proc, COMEX_GROUP_WORLD);
})

ARMCI_DEFINE(int, ARMCI_NbPutV, (armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle), {
  return comex_nbputv(as_comex_vectors(darr), len, proc, COMEX_GROUP_WORLD, nb_handle);
})

ARMCI_DEFINE(int, ARMCI_NbGetV, (armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle), {
  return comex_nbgetv(as_comex_vectors(darr), len, proc, COMEX_GROUP_WORLD, nb_handle);
})

ARMCI_DEFINE(int,
             ARMCI_NbAccV,
             (int op, void *scale, armci_giov_t darr[], int len, int proc, armci_hdl_t *nb_handle),
             {
               return comex_nbaccv(
                   op, scale, as_comex_vectors(darr), len, proc, COMEX_GROUP_WORLD, nb_handle);
             })

namespace {

template <typename Value>
int put_value(Value value, void *target, int rank) {
  return comex_put(&value, target, sizeof value, rank, COMEX_GROUP_WORLD);
}

// The value dies when the call returns, so the put blocks. The handle is that of an empty put after
// it.
template <typename Value>
int start_put_value(Value value, void *target, int rank, armci_hdl_t *handle) {
  int const code = put_value(value, target, rank);
  if (code != COMEX_SUCCESS || handle == nullptr)
    return code;
  return comex_nbput(target, target, 0, rank, COMEX_GROUP_WORLD, handle);
}

template <typename Value>
Value get_value(const char *call, void *source, int rank) {
  Value value{};
  require_ok(call, "comex_get", comex_get(source, &value, sizeof value, rank, COMEX_GROUP_WORLD));
  return value;
}

}  // namespace

#define ARMCI_DEFINE_VALUE(NAME, TYPE)                                                        \
  ARMCI_DEFINE(int, ARMCI_PutValue##NAME, (TYPE src, void *dst, int proc), {                  \
    return put_value(src, dst, proc);                                                         \
  })                                                                                          \
  ARMCI_DEFINE(                                                                               \
      int, ARMCI_NbPutValue##NAME, (TYPE src, void *dst, int proc, armci_hdl_t *nb_handle), { \
        return start_put_value(src, dst, proc, nb_handle);                                    \
      })                                                                                      \
  ARMCI_DEFINE(TYPE, ARMCI_GetValue##NAME, (void *src, int proc), {                           \
    return get_value<TYPE>(call, src, proc);                                                  \
  })

ARMCI_DEFINE_VALUE(Int, int)
ARMCI_DEFINE_VALUE(Long, long)
ARMCI_DEFINE_VALUE(Float, float)
ARMCI_DEFINE_VALUE(Double, double)
