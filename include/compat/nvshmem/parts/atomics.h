// parts/atomics.h: atomic updates of words, of one thread or host code. Not for direct inclusion.
#pragma once

namespace tanada::nvshmem {

template <bodies::update_kind Kind, class T>
TND_DEVICE inline T update(T *dest, T operand, T compare, int pe) {
  return bodies::update<Kind, T>(world_context, dest, operand, compare, pe);
}
template <bodies::update_kind Kind, class T>
TND_DEVICE inline void update_only(T *dest, T operand, int pe) {
  (void)bodies::update<Kind, T, false>(world_context, dest, operand, T{}, pe);
}

}  // namespace tanada::nvshmem

// A call that returns the old value, and one that does not.
#define NVSHMEM_FETCHING_(NAME, TYPE, CALL, KIND)                                        \
  NVSHMEM_BOTH_ TYPE nvshmem_##NAME##_atomic_##CALL(TYPE *dest, TYPE value, int pe) {    \
    NVSHMEM_SELECT_(tanada::nvshmem::update<tanada::nvshmem::bodies::update_kind::KIND>( \
                        dest, value, static_cast<TYPE>(0), pe),                          \
                    shmem_##NAME##_atomic_##CALL(dest, value, pe));                      \
  }
#define NVSHMEM_PLAIN_(NAME, TYPE, CALL, KIND)                                                     \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_atomic_##CALL(TYPE *dest, TYPE value, int pe) {              \
    NVSHMEM_SELECT_(                                                                               \
        tanada::nvshmem::update_only<tanada::nvshmem::bodies::update_kind::KIND>(dest, value, pe), \
        shmem_##NAME##_atomic_##CALL(dest, value, pe));                                            \
  }

#define NVSHMEM_AMO_EXTENDED_(NAME, TYPE, A)                                                       \
  NVSHMEM_BOTH_ TYPE nvshmem_##NAME##_atomic_fetch(const TYPE *source, int pe) {                   \
    NVSHMEM_SELECT_(                                                                               \
        tanada::nvshmem::update<tanada::nvshmem::bodies::update_kind::fetch>(                      \
            const_cast<TYPE *>(source), static_cast<TYPE>(0), static_cast<TYPE>(0), pe),           \
        shmem_##NAME##_atomic_fetch(source, pe));                                                  \
  }                                                                                                \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_atomic_set(TYPE *dest, TYPE value, int pe) {                 \
    NVSHMEM_SELECT_(tanada::nvshmem::bodies::set(tanada::nvshmem::world_context, dest, value, pe), \
                    shmem_##NAME##_atomic_set(dest, value, pe));                                   \
  }                                                                                                \
  NVSHMEM_FETCHING_(NAME, TYPE, swap, swap)

#define NVSHMEM_AMO_(NAME, TYPE, A)                                                              \
  NVSHMEM_BOTH_ TYPE nvshmem_##NAME##_atomic_compare_swap(                                       \
      TYPE *dest, TYPE cond, TYPE value, int pe) {                                               \
    NVSHMEM_SELECT_(tanada::nvshmem::update<tanada::nvshmem::bodies::update_kind::compare_swap>( \
                        dest, value, cond, pe),                                                  \
                    shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe));                  \
  }                                                                                              \
  NVSHMEM_FETCHING_(NAME, TYPE, fetch_add, add)                                                  \
  NVSHMEM_PLAIN_(NAME, TYPE, add, add)                                                           \
  NVSHMEM_BOTH_ TYPE nvshmem_##NAME##_atomic_fetch_inc(TYPE *dest, int pe) {                     \
    return nvshmem_##NAME##_atomic_fetch_add(dest, static_cast<TYPE>(1), pe);                    \
  }                                                                                              \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_atomic_inc(TYPE *dest, int pe) {                           \
    nvshmem_##NAME##_atomic_add(dest, static_cast<TYPE>(1), pe);                                 \
  }

#define NVSHMEM_AMO_BITS_(NAME, TYPE, A)            \
  NVSHMEM_FETCHING_(NAME, TYPE, fetch_and, bit_and) \
  NVSHMEM_FETCHING_(NAME, TYPE, fetch_or, bit_or)   \
  NVSHMEM_FETCHING_(NAME, TYPE, fetch_xor, bit_xor) \
  NVSHMEM_PLAIN_(NAME, TYPE, and, bit_and)          \
  NVSHMEM_PLAIN_(NAME, TYPE, or, bit_or)            \
  NVSHMEM_PLAIN_(NAME, TYPE, xor, bit_xor)

NVSHMEM_TABLE_AMO_EXTENDED_(NVSHMEM_AMO_EXTENDED_, )
NVSHMEM_TABLE_AMO_(NVSHMEM_AMO_, )
NVSHMEM_TABLE_AMO_BITS_(NVSHMEM_AMO_BITS_, )

#undef NVSHMEM_FETCHING_
#undef NVSHMEM_PLAIN_
#undef NVSHMEM_AMO_EXTENDED_
#undef NVSHMEM_AMO_
#undef NVSHMEM_AMO_BITS_
