// buffers.hpp: memory provided by Python objects through the buffer protocol, DLPack or
// __cuda_array_interface__.
#pragma once

#include <nanobind/nanobind.h>
#include <tanada/pool.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tanada::python {

enum class access { read, write };

/// Memory of a Python object, whose address stays valid until the region is destroyed. Construct,
/// move and destroy it with the GIL held; the address may be used without the GIL.
class region {
 public:
  region() = default;
  region(region &&) = default;
  region &operator=(region &&) = default;

  // One contiguous range of bytes. Device memory is ready: work queued on it before has finished.
  // TypeError: the object provides no memory. BufferError, ValueError: it is not contiguous or not
  // writable.
  static region contiguous(nanobind::handle object, access wanted);

  // The same with strides, for boxes.
  static region strided(nanobind::handle object, access wanted);

  void *addr() const {
    return addr_;
  }
  uint64_t size() const {
    return size_;
  }  // bytes, without those that strides skip
  uint32_t memory() const {
    return memory_;
  }  // tnd_pool_memory
  uint64_t item_size() const {
    return item_size_;
  }
  const std::vector<int64_t> &shape() const {
    return shape_;
  }
  const std::vector<int64_t> &strides() const {
    return strides_;
  }  // bytes

 private:
  bool take_buffer(nanobind::handle object, access wanted, bool is_strided);
  bool take_dlpack(nanobind::handle object, access wanted);
  bool take_cuda_array(nanobind::handle object, access wanted);
  void measure();
  bool is_contiguous() const;

  void *addr_ = nullptr;
  uint64_t size_ = 0, item_size_ = 1;
  uint32_t memory_ = TND_POOL_MEMORY_HOST;
  std::vector<int64_t> shape_, strides_;
  std::shared_ptr<void> held_;  // keeps the memory alive
};

/// Builds a box of the C ABI from an array and the position of its rows in the object.
///
/// @param object_strides bytes between the rows in the object for each of the array's leading
/// dimensions, two at most;
///        none: the rows are contiguous. ValueError: more than three dimensions that are not
///        contiguous, or a negative stride.
tnd_pool_box box_of(const region &array,
                    uint64_t offset,
                    const std::vector<uint64_t> &object_strides);

}  // namespace tanada::python
