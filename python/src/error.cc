#include "error.hpp"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace tanada::python {

void check(const outcome &result) {
  if (result.status == TND_OK)
    return;
  nb::object const type = nb::module_::import_("tanada._error").attr("Error");
  nb::object const error = type(int(result.status), result.message);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

}  // namespace tanada::python
