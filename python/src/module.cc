// module.cc: tanada._native, the C ABI for tanada's own Python code; users import tanada.gfile and
// tanada.pool.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <tanada/gfile.h>
#include <tanada/version.h>

#include "pool.hpp"
#include "session.hpp"
#include "stores.hpp"

namespace nb = nanobind;
using tanada::python::ownership;
using tanada::python::session;

NB_MODULE(_native, module) {
  module.doc() = "The C ABI of libtanada.so.";
  // A fsspec file system that other threads still hold at exit is not a leak: its sockets end with
  // the process.
  nanobind::set_leak_warnings(false);
  module.attr("NO_DEADLINE") = TND_NO_DEADLINE;
  module.attr("ESTATE") = int(TND_ESTATE);
  module.def("version", [] { return tnd_version(); }, "Version of the library that is loaded.");
  module.def(
      "status_name", &tnd_status_name, nb::arg("status"), "Name of a status, such as \"EIO\".");
  module.def(
      "status_text", &tnd_status_text, nb::arg("status"), "One English sentence for a status.");

  nb::class_<session>(module, "Session", "An instance of gfile.")
      .def(
          "__init__",
          [](session *self, bool is_process, const nb::dict &settings) {
            new (self) session(settings, is_process ? ownership::process : ownership::own);
          },
          nb::arg("is_process"),
          nb::arg("settings"),
          nb::sig("def __init__(self, is_process: bool, settings: dict[str, int]) -> None"),
          "is_process: ginitialize and gfinalize, in place of an instance of its own.")
      .def("close", &session::close)
      .def("is_closed", &session::is_closed)
      .def("wait", &session::wait, nb::arg("timeout_ns"))
      .def("ref", &session::ref, nb::sig("def ref(self) -> tuple[int, int]"))
      .def("statistics",
           &session::statistics,
           nb::sig("def statistics(self) -> dict[str, typing.Any]"))
      .def("files", &session::files, nb::sig("def files(self) -> list[dict[str, typing.Any]]"))
      .def("fault", &session::fault, nb::sig("def fault(self) -> dict[str, typing.Any]"));

  tanada::python::bind_pool(module);
  tanada::python::bind_stores(module);
}
