// pool_module.cc: the pool's part of tanada._native; users import tanada.pool.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "pool.hpp"

namespace nb = nanobind;

namespace tanada::python {
namespace {

int export_mapping(PyObject *self, Py_buffer *view, int flags) {
  auto const *const of = nb::inst_ptr<mapping>(self);
  // PyBuffer_FillInfo refuses requests for a writable buffer, and holds `self` until the buffer is
  // released.
  return PyBuffer_FillInfo(
      view, self, const_cast<void *>(of->addr()), Py_ssize_t(of->size()), 1, flags);
}

PyType_Slot mapping_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(&export_mapping)},
                               {0, nullptr}};

using bytes_view = nb::ndarray<nb::ro, const uint8_t, nb::ndim<1>, nb::device::cpu, nb::array_api>;

// nanobind's own array supports DLPack and holds `self`.
nb::object array_of(nb::handle self) {
  auto const *const of = nb::inst_ptr<mapping>(self);
  return nb::cast(bytes_view(of->addr(), {size_t(of->size())}, self));
}

void bind_mapping(nb::module_ &module) {
  nb::class_<mapping>(module, "Mapping", nb::type_slots(mapping_slots))
      .def("__len__", &mapping::size)
      .def(
          "__dlpack__",
          [](nb::handle self, const nb::kwargs &how) {
            return array_of(self).attr("__dlpack__")(**how);
          },
          nb::sig("def __dlpack__(self, **how: typing.Any) -> typing.Any"))
      .def(
          "__dlpack_device__",
          [](nb::handle) { return nb::make_tuple(nb::device::cpu::value, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
}

void bind_object(nb::module_ &module) {
  nb::class_<object>(module, "PoolObject", "An object being written, or a committed one.")
      .def("close", &object::close)
      .def("is_closed", &object::is_closed)
      .def("info", &object::info, nb::sig("def info(self) -> tuple[int, int, int, int, int, int]"))
      .def("write", &object::write, nb::arg("offset"), nb::arg("source"))
      .def(
          "write_box", &object::write_box, nb::arg("offset"), nb::arg("source"), nb::arg("strides"))
      .def("resize", &object::resize, nb::arg("size"))
      .def("read", &object::read, nb::arg("offset"), nb::arg("size"))
      .def("read_into", &object::read_into, nb::arg("offset"), nb::arg("target"))
      .def("read_box", &object::read_box, nb::arg("offset"), nb::arg("target"), nb::arg("strides"))
      .def(
          "commit",
          [](object &self,
             uint32_t flags,
             uint32_t checksum_kind,
             std::optional<uint64_t> checksum) {
            return self.commit({flags, checksum_kind, checksum});
          },
          nb::arg("flags"),
          nb::arg("checksum_kind"),
          nb::arg("checksum").none())
      .def("map", &object::map);
}

void bind_requests(nb::class_<pool> &type) {
  type.def(
      "post_named",
      [](pool &self,
         uint32_t kind,
         const nb::bytes &name,
         nb::handle memory,
         uint32_t flags,
         uint32_t checksum_kind) {
        return self.post({kind, flags, checksum_kind, name, nullptr, 0, memory});
      },
      nb::arg("kind"),
      nb::arg("name"),
      nb::arg("memory"),
      nb::arg("flags"),
      nb::arg("checksum_kind"));
  type.def(
      "post_object",
      [](pool &self,
         uint32_t kind,
         const object &target,
         uint64_t offset,
         nb::handle memory,
         uint32_t flags,
         uint32_t checksum_kind) {
        return self.post({kind, flags, checksum_kind, std::nullopt, &target, offset, memory});
      },
      nb::arg("kind"),
      nb::arg("target"),
      nb::arg("offset"),
      nb::arg("memory").none(),
      nb::arg("flags"),
      nb::arg("checksum_kind"));
  type.def("poll",
           &pool::poll,
           nb::arg("timeout_ns"),
           nb::sig("def poll(self, timeout_ns: int) -> list[tuple[int, int, int, int, int, int]]"));
}

}  // namespace

void bind_pool(nb::module_ &module) {
  bind_mapping(module);
  bind_object(module);
  nb::class_<pool> type(module, "Pool", "A connection to one namespace of a pool.");
  type.def(
          "__init__",
          [](pool *self,
             const nb::bytes &url,
             std::optional<uint64_t> timeout_ns,
             std::optional<nb::bytes> key_file,
             std::optional<nb::bytes> fabric,
             std::optional<bool> shared_memory,
             std::optional<uint32_t> device_index) {
            new (self) pool(
                url,
                {timeout_ns, std::move(key_file), std::move(fabric), shared_memory, device_index});
          },
          nb::arg("url"),
          nb::arg("timeout_ns").none(),
          nb::arg("key_file").none(),
          nb::arg("fabric").none(),
          nb::arg("shared_memory").none(),
          nb::arg("device_index").none())
      .def("close", &pool::close)
      .def("is_closed", &pool::is_closed)
      .def("connection",
           &pool::connection_info,
           nb::sig("def connection(self) -> dict[str, typing.Any]"))
      .def("statistics", &pool::statistics, nb::sig("def statistics(self) -> dict[str, int]"))
      .def("traffic", &pool::traffic, nb::sig("def traffic(self) -> dict[str, typing.Any]"))
      .def("create",
           &pool::create,
           nb::arg("name"),
           nb::arg("size"),
           nb::arg("flags"),
           nb::arg("set").none())
      .def("open", &pool::open, nb::arg("name"), nb::arg("version"))
      .def(
          "put",
          [](pool &self,
             const nb::bytes &name,
             nb::handle source,
             uint32_t flags,
             uint32_t checksum_kind,
             std::optional<uint64_t> checksum) {
            self.put(name, source, {flags, checksum_kind, checksum});
          },
          nb::arg("name"),
          nb::arg("source"),
          nb::arg("flags"),
          nb::arg("checksum_kind"),
          nb::arg("checksum").none())
      .def("get", &pool::get, nb::arg("name"), nb::arg("flags"))
      .def("get_into", &pool::get_into, nb::arg("name"), nb::arg("target"), nb::arg("flags"))
      .def("stat",
           &pool::stat,
           nb::arg("name"),
           nb::arg("version"),
           nb::sig(
               "def stat(self, name: bytes, version: int) -> tuple[int, int, int, int, int, int]"))
      .def("entries",
           &pool::entries,
           nb::arg("prefix"),
           nb::arg("delimiter"),
           nb::arg("count_max"),
           nb::sig("def entries(self, prefix: bytes, delimiter: bytes, count_max: int) -> "
                   "list[tuple[bytes, tuple[int, int, int, int, int, int] | None]]"))
      .def("rename", &pool::rename, nb::arg("name"), nb::arg("new_name"), nb::arg("flags"))
      .def("remove", &pool::remove, nb::arg("name"), nb::arg("flags"))
      .def("set_flags", &pool::set_flags, nb::arg("name"), nb::arg("flags"))
      .def("set_commit", &pool::set_commit, nb::arg("set"), nb::arg("count"), nb::arg("flags"));
  bind_requests(type);
}

}  // namespace tanada::python
