/* shmem/types.h: the tables of types from which all typed calls of OpenSHMEM 1.6 are generated. C99
 * and C++11.
 *
 * SHMEM_TABLE_x(X, A) is X(NAME, TYPE, A) for each row: NAME as in shmem_NAME_put, TYPE as C spells
 * it. */
#ifndef TANADA_COMPAT_SHMEM_TYPES_H
#define TANADA_COMPAT_SHMEM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
#  include <complex>
#  define SHMEM_COMPLEXD std::complex<double>
#  define SHMEM_COMPLEXF std::complex<float>
/* The names of C's complex types, if the C++ compiler has them. */
#  if defined(__GNUC__) && !defined(__CUDACC__)
#    define SHMEM_HAS_C_COMPLEX_
__extension__ typedef double _Complex SHMEM_C_COMPLEXD;
__extension__ typedef float _Complex SHMEM_C_COMPLEXF;
#  endif
#else
#  define SHMEM_COMPLEXD double _Complex
#  define SHMEM_COMPLEXF float _Complex
#endif

#define SHMEM_TABLE_FLOATING(X, A) \
  X(float, float, A) X(double, double, A) X(longdouble, long double, A)
#define SHMEM_TABLE_COMPLEX(X, A) X(complexd, SHMEM_COMPLEXD, A) X(complexf, SHMEM_COMPLEXF, A)
#define SHMEM_TABLE_SMALL_SIGNED(X, A) X(char, char, A) X(schar, signed char, A) X(short, short, A)
#define SHMEM_TABLE_SMALL_UNSIGNED(X, A) X(uchar, unsigned char, A) X(ushort, unsigned short, A)
#define SHMEM_TABLE_SIGNED(X, A) X(int, int, A) X(long, long, A) X(longlong, long long, A)
#define SHMEM_TABLE_UNSIGNED(X, A) \
  X(uint, unsigned int, A) X(ulong, unsigned long, A) X(ulonglong, unsigned long long, A)
#define SHMEM_TABLE_INT32_INT64(X, A) X(int32, int32_t, A) X(int64, int64_t, A)
#define SHMEM_TABLE_UINT32_UINT64(X, A) X(uint32, uint32_t, A) X(uint64, uint64_t, A)
#define SHMEM_TABLE_SMALL_FIXED(X, A) \
  X(int8, int8_t, A) X(int16, int16_t, A) X(uint8, uint8_t, A) X(uint16, uint16_t, A)
#define SHMEM_TABLE_SIZES(X, A) X(size, size_t, A) X(ptrdiff, ptrdiff_t, A)

/* Tables 5, 9, 10: memory access, broadcast, collect, all-to-all; maxima and minima. */
#define SHMEM_TABLE_RMA(X, A)      \
  SHMEM_TABLE_FLOATING(X, A)       \
  SHMEM_TABLE_SMALL_SIGNED(X, A)   \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A) \
  SHMEM_TABLE_SMALL_FIXED(X, A)    \
  SHMEM_TABLE_AMO(X, A)

/* Table 7: atomics, and waiting for a value. */
#define SHMEM_TABLE_AMO(X, A)                                                       \
  SHMEM_TABLE_SIGNED(X, A) SHMEM_TABLE_UNSIGNED(X, A) SHMEM_TABLE_INT32_INT64(X, A) \
  SHMEM_TABLE_UINT32_UINT64(X, A)                                                   \
  SHMEM_TABLE_SIZES(X, A)

/* Table 6: atomics that only read or replace a value. */
#define SHMEM_TABLE_AMO_EXTENDED(X, A) X(float, float, A) X(double, double, A) SHMEM_TABLE_AMO(X, A)

/* Table 8: atomics on bits. */
#define SHMEM_TABLE_AMO_BITS(X, A)                         \
  SHMEM_TABLE_UNSIGNED(X, A) SHMEM_TABLE_INT32_INT64(X, A) \
  SHMEM_TABLE_UINT32_UINT64(X, A)

/* Table 10: reductions. Maxima and minima are of the types of SHMEM_TABLE_RMA. */
#define SHMEM_TABLE_REDUCE_BITS(X, A) \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A)    \
  SHMEM_TABLE_SMALL_FIXED(X, A)       \
  SHMEM_TABLE_AMO_BITS(X, A)          \
  X(size, size_t, A)
#define SHMEM_TABLE_REDUCE_ARITHMETIC(X, A) SHMEM_TABLE_RMA(X, A) SHMEM_TABLE_COMPLEX(X, A)

/* Deprecated calls. */
#define SHMEM_TABLE_OLD_AMO(X, A) SHMEM_TABLE_SIGNED(X, A)
#define SHMEM_TABLE_OLD_AMO_EXTENDED(X, A) \
  X(float, float, A) X(double, double, A) SHMEM_TABLE_SIGNED(X, A)
#define SHMEM_TABLE_OLD_WAIT(X, A) X(short, short, A) SHMEM_TABLE_SIGNED(X, A)
#define SHMEM_TABLE_OLD_WAIT_UNTIL(X, A) X(short, short, A) X(ushort, unsigned short, A)
#define SHMEM_TABLE_OLD_REDUCE_BITS(X, A) X(short, short, A) SHMEM_TABLE_SIGNED(X, A)
#define SHMEM_TABLE_OLD_REDUCE_ORDERED(X, A) \
  SHMEM_TABLE_OLD_REDUCE_BITS(X, A)          \
  SHMEM_TABLE_FLOATING(X, A)
#define SHMEM_TABLE_OLD_REDUCE_ARITHMETIC(X, A) \
  SHMEM_TABLE_OLD_REDUCE_ORDERED(X, A)          \
  SHMEM_TABLE_COMPLEX(X, A)

/* The same without second names of a type, as needed by a selection by type. */
#define SHMEM_TABLE_RMA_DISTINCT(X, A) \
  SHMEM_TABLE_FLOATING(X, A)           \
  SHMEM_TABLE_SMALL_SIGNED(X, A)       \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A)     \
  SHMEM_TABLE_AMO_DISTINCT(X, A)
#define SHMEM_TABLE_AMO_DISTINCT(X, A) SHMEM_TABLE_SIGNED(X, A) SHMEM_TABLE_UNSIGNED(X, A)
#define SHMEM_TABLE_AMO_EXTENDED_DISTINCT(X, A) \
  X(float, float, A) X(double, double, A) SHMEM_TABLE_AMO_DISTINCT(X, A)
#define SHMEM_TABLE_AMO_BITS_DISTINCT(X, A) SHMEM_TABLE_UNSIGNED(X, A) SHMEM_TABLE_INT32_INT64(X, A)
#define SHMEM_TABLE_REDUCE_BITS_DISTINCT(X, A) \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A)             \
  X(int8, int8_t, A) X(int16, int16_t, A) SHMEM_TABLE_AMO_BITS_DISTINCT(X, A)
#define SHMEM_TABLE_REDUCE_ARITHMETIC_DISTINCT(X, A) \
  SHMEM_TABLE_RMA_DISTINCT(X, A)                     \
  SHMEM_TABLE_COMPLEX(X, A)
#define SHMEM_TABLE_WAIT_DISTINCT(X, A) \
  SHMEM_TABLE_OLD_WAIT_UNTIL(X, A)      \
  SHMEM_TABLE_AMO_DISTINCT(X, A)

/* Widths in bits of the calls on untyped elements: X(BITS, A). */
#define SHMEM_TABLE_BITS(X, A) X(8, A) X(16, A) X(32, A) X(64, A) X(128, A)

#endif
