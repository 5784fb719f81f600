// stores.hpp: the calls of tanada/store.h for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace tanada::python {

void bind_stores(nanobind::module_ &module);

}  // namespace tanada::python
