#include <algorithm>
#include <utility>

#include "pool_call.hpp"
#include "records.hpp"

namespace nb = nanobind;

namespace tanada::python {

opened::~opened() {
  if (is_foreign(*over))
    return;
  nb::gil_scoped_release const released;
  std::lock_guard const lock{over->mutex};
  closed = true;
  end_if_unused();
}

void opened::end_if_unused() {
  if (!closed || mapping_count != 0 || handle == nullptr)
    return;
  // Closing a connection closes its objects.
  if (over->handle != nullptr)
    tnd_pool_close(handle);
  handle = nullptr;
}

mapping::~mapping() {
  if (is_foreign(*of_->over))
    return;
  nb::gil_scoped_release const released;
  std::lock_guard const lock{of_->over->mutex};
  of_->mapping_count--;
  of_->over->mapping_count--;
  of_->end_if_unused();
  of_->over->end_if_unused();
}

void object::close() {
  if (is_foreign(*of_->over))
    return;
  nb::gil_scoped_release const released;
  std::lock_guard const lock{of_->over->mutex};
  of_->closed = true;
  of_->end_if_unused();
}

bool object::is_closed() const {
  if (is_foreign(*of_->over))
    return true;
  nb::gil_scoped_release const released;
  std::lock_guard const lock{of_->over->mutex};
  return of_->closed || of_->over->closed;
}

nb::tuple object::info() const {
  tnd_pool_info info{};
  call_on(*of_,
          [&](tnd_pool_object *handle) { return outcome_of(tnd_pool_get_info(handle, &info)); });
  return record_of(info);
}

uint64_t object::size() const {
  tnd_pool_info info{};
  call_on(*of_,
          [&](tnd_pool_object *handle) { return outcome_of(tnd_pool_get_info(handle, &info)); });
  return info.size;
}

void object::write(uint64_t offset, nb::handle source) {
  write_region(offset, region::contiguous(source, access::read));
}

void object::write_region(uint64_t offset, const region &source) {
  call_on(*of_, [&](tnd_pool_object *handle) {
    return outcome_of(
        tnd_pool_write(handle, offset, source.addr(), source.size(), source.memory()));
  });
}

void object::write_box(uint64_t offset, nb::handle source, const std::vector<uint64_t> &strides) {
  region const array = region::strided(source, access::read);
  tnd_pool_box const box = box_of(array, offset, strides);
  if (array.size() == 0)
    return;
  call_on(*of_, [&](tnd_pool_object *handle) {
    return outcome_of(tnd_pool_write_box(handle, &box, array.addr(), array.memory()));
  });
}

void object::resize(uint64_t size) {
  call_on(*of_, [&](tnd_pool_object *handle) { return outcome_of(tnd_pool_resize(handle, size)); });
}

nb::bytes object::read(uint64_t offset, uint64_t size) {
  // The requested size may exceed the object's size, and the available memory.
  uint64_t const end = this->size();
  size = std::min(size, end - std::min(offset, end));
  nb::object const made = nb::steal(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(size)));
  if (!made.is_valid())
    throw nb::python_error();
  char *const target = PyBytes_AsString(made.ptr());
  if (size != 0) {
    call_on(*of_, [&](tnd_pool_object *handle) {
      return outcome_of(tnd_pool_read(handle, offset, target, size, TND_POOL_MEMORY_HOST, nullptr));
    });
  }
  return nb::borrow<nb::bytes>(made);
}

uint64_t object::read_into(uint64_t offset, nb::handle target) {
  return read_region(offset, region::contiguous(target, access::write));
}

uint64_t object::read_region(uint64_t offset, const region &target) {
  uint64_t read_size = 0;
  call_on(*of_, [&](tnd_pool_object *handle) {
    return outcome_of(
        tnd_pool_read(handle, offset, target.addr(), target.size(), target.memory(), &read_size));
  });
  return read_size;
}

void object::read_box(uint64_t offset, nb::handle target, const std::vector<uint64_t> &strides) {
  region const array = region::strided(target, access::write);
  tnd_pool_box const box = box_of(array, offset, strides);
  if (array.size() == 0)
    return;
  call_on(*of_, [&](tnd_pool_object *handle) {
    return outcome_of(tnd_pool_read_box(handle, &box, array.addr(), array.memory()));
  });
}

uint64_t object::commit(const commit_choice &choice) {
  tnd_pool_commit_options const options = choice.options();
  uint64_t version = 0;
  call_on(*of_, [&](tnd_pool_object *handle) {
    return outcome_of(tnd_pool_commit(handle, &options, &version));
  });
  return version;
}

std::unique_ptr<mapping> object::map() {
  const void *addr = nullptr;
  uint64_t size = 0;
  call_on(*of_, [&](tnd_pool_object *handle) {
    outcome const result = outcome_of(tnd_pool_map(handle, &addr, &size));
    if (result.status != TND_OK)
      return result;
    of_->mapping_count++;
    of_->over->mapping_count++;
    return result;
  });
  return std::make_unique<mapping>(of_, addr, size);
}

}  // namespace tanada::python
