#include "comex/armci/shape.hpp"

#include <climits>

#include "comex/armci/fatal.hpp"

namespace tanada::comex::armci {
namespace {

// a * b, or 0 where it is more than an int holds: nothing is merged then. Neither is negative.
int product(int a, int b) {
  long long const whole = static_cast<long long>(a) * b;
  return whole <= INT_MAX ? int(whole) : 0;
}

// Whether `extent` bytes, not 0, of one piece or row end where the next one begins, `stride` bytes on.
bool touches(int extent, int stride) { return extent != 0 && extent == stride; }

// The level before the next, into which that goes where its rows follow one another at both ends.
bool merge(folded_shape &shape, int source_stride, int target_stride, int count) {
  int const last = shape.level_count;
  int const merged = product(shape.counts[last], count);
  if (merged == 0) return false;
  int source_extent = shape.counts[0];
  int target_extent = shape.counts[0];
  if (last > 0) {
    int const source_last = shape.source_strides[last - 1];
    int const target_last = shape.target_strides[last - 1];
    if (source_last <= 0 || target_last <= 0) return false;
    source_extent = product(source_last, shape.counts[last]);
    target_extent = product(target_last, shape.counts[last]);
  }
  if (!touches(source_extent, source_stride) || !touches(target_extent, target_stride)) return false;
  shape.counts[last] = merged;
  return true;
}

}  // namespace

bool check_shape(const char *call, const given_shape &given) noexcept {
  if (given.level_count < 0 || given.level_count > ARMCI_MAX_STRIDE_LEVEL) {
    refuse(call, "%d stride levels: there can be 0 to %d", given.level_count, ARMCI_MAX_STRIDE_LEVEL);
    return false;
  }
  if (given.counts == nullptr || (given.level_count > 0 && (given.source_strides == nullptr || given.target_strides == nullptr))) {
    refuse(call, "the counts or the strides are a null pointer");
    return false;
  }
  for (int i = 0; i <= given.level_count; i++) {
    if (given.counts[i] < 0) {
      refuse(call, "count[%d] is %d", i, given.counts[i]);
      return false;
    }
  }
  return true;
}

folded_shape fold(const given_shape &given) noexcept {
  folded_shape shape;
  shape.counts[0] = given.counts[0];
  shape.is_empty = given.counts[0] == 0;
  for (int i = 0; i < given.level_count; i++) {
    int const count = given.counts[i + 1];
    if (count == 0) shape.is_empty = true;
    if (count <= 1 || merge(shape, given.source_strides[i], given.target_strides[i], count)) continue;
    shape.source_strides[shape.level_count] = given.source_strides[i];
    shape.target_strides[shape.level_count] = given.target_strides[i];
    shape.counts[++shape.level_count] = count;
  }
  return shape;
}

}  // namespace tanada::comex::armci
