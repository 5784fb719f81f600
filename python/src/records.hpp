// records.hpp: the public structs of gfile.h from and to Python's dictionaries. Keys are the names of the fields.
#pragma once

#include <nanobind/nanobind.h>
#include <tanada/gfile.h>

#include <vector>

#include "error.hpp"

namespace tanada::python {

// TND_GFILE_CONFIG_INIT with the fields that `settings` names. KeyError for a name that is no field.
tnd_gfile_config config_of(const nanobind::dict &settings);

nanobind::dict record_of(const tnd_gfile_statistics &statistics);
nanobind::dict record_of(const tnd_gfile_file &file);
nanobind::dict record_of(const tnd_gfile_fault &fault);

// Every file of the instance; they may change while they are read.
outcome all_files(tnd_gfile *instance, std::vector<tnd_gfile_file> &files);

}  // namespace tanada::python
