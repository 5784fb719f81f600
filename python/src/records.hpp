// records.hpp: converts the public structs of gfile.h and pool.h from and to Python's dictionaries.
// Keys are the names of the fields.
#pragma once

#include <nanobind/nanobind.h>
#include <tanada/gfile.h>
#include <tanada/pool.h>

#include <vector>

#include "error.hpp"

namespace tanada::python {

// TND_GFILE_CONFIG_INIT with the fields in `settings`. KeyError: there is no such field.
tnd_gfile_config config_of(const nanobind::dict &settings);

nanobind::dict record_of(const tnd_gfile_statistics &statistics);
nanobind::dict record_of(const tnd_gfile_file &file);
nanobind::dict record_of(const tnd_gfile_fault &fault);
nanobind::dict record_of(const tnd_pool_connection &connection);
nanobind::dict record_of(const tnd_pool_statistics &statistics);
nanobind::dict record_of(const tnd_pool_traffic &traffic);
// (size, version, created_ns, checksum, checksum_kind, flags), as a tuple because lists have many
// of them.
nanobind::tuple record_of(const tnd_pool_info &info);

// Every file of the instance. The list may change while it is read.
outcome all_files(tnd_gfile *instance, std::vector<tnd_gfile_file> &files);

}  // namespace tanada::python
