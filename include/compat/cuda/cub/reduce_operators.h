// cub/reduce_operators.h: operators of CUB's reductions, and the reduction of stored values. Not
// for direct inclusion.
#pragma once

#include "../cuda_runtime.h"

namespace cub {

struct Sum {
  template <class T>
  T operator()(const T &a, const T &b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  T operator()(const T &a, const T &b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <class T>
  T operator()(const T &a, const T &b) const {
    return b < a ? b : a;
  }
};

namespace detail_ {

// The items of one thread.
template <class T, int Count, class Op>
T reduce_items(const T (&items)[Count], Op op) {
  static_assert(Count > 0, "a thread has at least one item");
  T result = items[0];
  for (int i = 1; i < Count; i++)
    result = op(result, items[i]);
  return result;
}

// The first `count` values, at least one.
template <class T, class Op>
T reduce_values(const T *values, int count, Op op) {
  T result = values[0];
  for (int i = 1; i < count; i++)
    result = op(result, values[i]);
  return result;
}

}  // namespace detail_
}  // namespace cub
