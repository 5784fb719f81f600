#include "stores.hpp"

#include <tanada/store.h>

#include <memory>
#include <string>

#include "error.hpp"

namespace nb = nanobind;

namespace tanada::python {
namespace {

struct listing_free {
  void operator()(tnd_store_listing *listing) const {
    tnd_store_listing_destroy(listing);
  }
};

// Names may hold any bytes, so they are decoded as Python decodes file names.
nb::object file_name(const char *bytes, size_t size) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes, Py_ssize_t(size), "surrogateescape"));
}

nb::list list_store(const nb::bytes &encoded_url,
                    bool has_sizes,
                    uint32_t entry_count_max,
                    uint64_t timeout_ns) {
  std::string const url{encoded_url.c_str(), encoded_url.size()};
  tnd_store_list_options options = TND_STORE_LIST_OPTIONS_INIT;
  options.has_sizes = has_sizes ? 1 : 0;
  options.entry_count_max = entry_count_max;
  options.timeout_ns = timeout_ns;
  std::unique_ptr<tnd_store_listing, listing_free> listing;
  call_without_gil([&] {
    tnd_store_listing *created = nullptr;
    outcome result = outcome_of(tnd_store_list(url.c_str(), &options, &created));
    listing.reset(created);
    return result;
  });
  nb::list entries;
  for (uint32_t i = 0; i < tnd_store_listing_count(listing.get()); i++) {
    tnd_store_entry entry = TND_STORE_ENTRY_INIT;
    check(outcome_of(tnd_store_listing_get(listing.get(), i, &entry)));
    nb::object size = nb::none();
    if (entry.size != TND_STORE_SIZE_UNKNOWN)
      size = nb::int_(entry.size);
    entries.append(nb::make_tuple(file_name(entry.url, std::char_traits<char>::length(entry.url)),
                                  file_name(entry.name, entry.name_size),
                                  entry.kind == TND_STORE_FOLDER,
                                  size));
  }
  return entries;
}

}  // namespace

void bind_stores(nb::module_ &module) {
  module.def(
      "store_list",
      &list_store,
      nb::arg("url"),
      nb::arg("has_sizes"),
      nb::arg("entry_count_max"),
      nb::arg("timeout_ns"),
      nb::sig("def store_list(url: bytes, has_sizes: bool, entry_count_max: int, timeout_ns: "
              "int) -> list[tuple[str, str, bool, int | None]]"),
      "Lists a folder of a store.");
}

}  // namespace tanada::python
