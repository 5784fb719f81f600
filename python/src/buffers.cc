#include "buffers.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace tanada::python {
namespace {

struct release_buffer {
  void operator()(Py_buffer *view) const {
    PyBuffer_Release(view);
    delete view;
  }
};

// Stream numbers of DLPack, __cuda_array_interface__ and the driver.
constexpr int legacy_default_stream = 1;

void synchronize(const nb::object &stream, int device_index) {
  nb::module_::import_("tanada._cuda").attr("synchronize")(stream, device_index);
}

bool is_cuda_kind(int kind) {
  return kind == nb::device::cuda::value || kind == nb::device::cuda_managed::value;
}

// Arrays of a GPU may have a buffer protocol that always refuses (CuPy 14 raises TypeError), so it
// is not tried for them.
bool is_on_device(nb::handle object) {
  if (nb::hasattr(object, "__dlpack_device__")) {
    try {
      return is_cuda_kind(nb::cast<std::pair<int, int>>(object.attr("__dlpack_device__")()).first);
    } catch (nb::python_error &error) {
      error.discard_as_unraisable("tanada: __dlpack_device__");
    }
  }
  return nb::hasattr(object, "__cuda_array_interface__");
}

// DLPack 1.0 reports read-only memory. Older producers do not accept the argument.
nb::object capsule_of(nb::handle object, bool is_cuda) {
  nb::dict named;
  if (is_cuda)
    named["stream"] = legacy_default_stream;
  nb::object const make = object.attr("__dlpack__");
  nb::dict versioned;
  versioned.update(named);
  versioned["max_version"] = nb::make_tuple(1, 0);
  try {
    return make(**versioned);
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_TypeError))
      throw;
  }
  return make(**named);
}

}  // namespace

bool region::take_buffer(nb::handle object, access wanted, bool is_strided) {
  if (!PyObject_CheckBuffer(object.ptr()))
    return false;
  std::unique_ptr<Py_buffer> view = std::make_unique<Py_buffer>();
  int const flags =
      (is_strided ? PyBUF_STRIDES : PyBUF_SIMPLE) | (wanted == access::write ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), view.get(), flags) != 0)
    throw nb::python_error();
  std::shared_ptr<Py_buffer> const taken{view.release(), release_buffer{}};
  addr_ = taken->buf;
  size_ = uint64_t(taken->len);
  if (is_strided) {
    item_size_ = uint64_t(taken->itemsize);
    shape_.assign(taken->shape, taken->shape + taken->ndim);
    strides_.assign(taken->strides, taken->strides + taken->ndim);
  }
  held_ = taken;
  return true;
}

bool region::take_dlpack(nb::handle object, access wanted) {
  if (!nb::hasattr(object, "__dlpack_device__"))
    return false;
  auto const [kind, index] = nb::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
  bool const is_cuda = is_cuda_kind(kind);
  if (!is_cuda && kind != nb::device::cpu::value && kind != nb::device::cuda_host::value)
    throw nb::type_error("memory of this kind of device is neither the host's nor CUDA's");
  nb::object const capsule = capsule_of(object, is_cuda);
  auto const keep = [&](auto array) {
    addr_ = const_cast<void *>(static_cast<const void *>(array->data()));
    item_size_ = array->itemsize();
    for (size_t i = 0; i < array->ndim(); i++) {
      shape_.push_back(array->shape(i));
      strides_.push_back(array->stride(i) * int64_t(item_size_));
    }
    held_ = std::move(array);
  };
  if (wanted == access::read) {
    keep(std::make_shared<nb::ndarray<nb::ro>>(nb::cast<nb::ndarray<nb::ro>>(capsule)));
  } else {
    nb::ndarray<> array;
    if (!nb::try_cast(capsule, array))
      throw nb::value_error("the array is read-only");
    keep(std::make_shared<nb::ndarray<>>(std::move(array)));
  }
  if (is_cuda)
    synchronize(nb::int_(legacy_default_stream), index);
  memory_ = is_cuda ? TND_POOL_MEMORY_DEVICE : TND_POOL_MEMORY_HOST;
  measure();
  return true;
}

bool region::take_cuda_array(nb::handle object, access wanted) {
  nb::object const told = nb::getattr(object, "__cuda_array_interface__", nb::none());
  if (told.is_none())
    return false;
  auto const array = nb::cast<nb::dict>(told);
  auto const data = nb::cast<nb::tuple>(array["data"]);
  if (wanted == access::write && nb::cast<bool>(data[1]))
    throw nb::value_error("the array is read-only");
  addr_ = reinterpret_cast<void *>(nb::cast<uintptr_t>(data[0]));
  item_size_ = std::stoull(nb::cast<std::string>(array["typestr"]).substr(2));
  for (nb::handle each : array["shape"])
    shape_.push_back(nb::cast<int64_t>(each));
  nb::object const strides = array.get("strides", nb::none());
  if (!strides.is_none()) {
    for (nb::handle each : strides)
      strides_.push_back(nb::cast<int64_t>(each));
  } else {
    strides_.resize(shape_.size());
    int64_t next = int64_t(item_size_);
    for (size_t i = shape_.size(); i-- > 0; next *= shape_[i])
      strides_[i] = next;
  }
  nb::object const stream = array.get("stream", nb::none());
  // None means that there is nothing to wait for. Numba also uses it for work queued on the default
  // stream.
  synchronize(stream.is_none() ? nb::object{nb::int_(legacy_default_stream)} : stream, -1);
  memory_ = TND_POOL_MEMORY_DEVICE;
  held_ = std::make_shared<nb::object>(nb::borrow(object));
  measure();
  return true;
}

void region::measure() {
  size_ = item_size_;
  for (int64_t const count : shape_)
    size_ *= uint64_t(count);
}

bool region::is_contiguous() const {
  int64_t next = int64_t(item_size_);
  for (size_t i = shape_.size(); i-- > 0; next *= shape_[i])
    if (shape_[i] != 1 && strides_[i] != next)
      return false;
  return true;
}

region region::strided(nb::handle object, access wanted) {
  region made;
  bool const has_buffer = !is_on_device(object) && made.take_buffer(object, wanted, true);
  if (!has_buffer && !made.take_dlpack(object, wanted) && !made.take_cuda_array(object, wanted)) {
    std::string const name = nb::type_name(object.type()).c_str();
    throw nb::type_error(
        (name + " has neither the buffer protocol, nor DLPack, nor __cuda_array_interface__")
            .c_str());
  }
  return made;
}

region region::contiguous(nb::handle object, access wanted) {
  region made;
  if (!is_on_device(object) && made.take_buffer(object, wanted, false))
    return made;
  made = strided(object, wanted);
  if (made.size_ != 0 && !made.is_contiguous())
    throw nb::value_error("the array is not C-contiguous; a box may have strides");
  return made;
}

tnd_pool_box box_of(const region &array,
                    uint64_t offset,
                    const std::vector<uint64_t> &object_strides) {
  auto const &shape = array.shape();
  auto const &strides = array.strides();
  for (int64_t const stride : strides)
    if (stride < 0)
      throw nb::value_error("a stride of the array is below 0");
  // Trailing dimensions without gaps form a row, except those to which the object's strides apply.
  size_t rows_end = shape.size();
  int64_t row = int64_t(array.item_size());
  while (rows_end > object_strides.size() &&
         (shape[rows_end - 1] == 1 || strides[rows_end - 1] == row))
    row *= shape[--rows_end];
  if (rows_end > 2)
    throw nb::value_error(
        "the array has more than two dimensions of rows; a box is made of rows of contiguous "
        "bytes");
  if (object_strides.size() > rows_end)
    throw nb::value_error("more strides than the array has dimensions");
  if (!object_strides.empty() && rows_end > object_strides.size())
    throw nb::value_error("rows are not contiguous; give a stride for each dimension that is not");

  tnd_pool_box box{offset, uint64_t(row), {1, 1}, {0, 0}, {0, 0}};
  uint64_t packed = uint64_t(row);
  for (size_t i = 0; i < rows_end; i++) {
    size_t const dimension = rows_end - 1 - i;  // [0] is the inner one
    box.count[i] = uint64_t(shape[dimension]);
    box.memory_stride[i] = uint64_t(strides[dimension]);
    box.object_stride[i] = object_strides.empty() ? packed : object_strides[dimension];
    packed *= box.count[i];
  }
  return box;
}

}  // namespace tanada::python
