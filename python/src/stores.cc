#include "stores.hpp"

#include <tanada/store.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "buffers.hpp"
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

// An open file. Calls of several threads exclude each other, also with close().
class store_file {
 public:
  store_file(const nb::bytes &encoded_url, uint32_t flags, uint64_t timeout_ns) {
    std::string const url{encoded_url.c_str(), encoded_url.size()};
    call_without_gil(
        [&] { return outcome_of(tnd_store_open(url.c_str(), flags, timeout_ns, &file_)); });
  }
  ~store_file() {
    nb::gil_scoped_release const released;
    (void)tnd_store_close(file_);
  }
  store_file(const store_file &) = delete;
  store_file &operator=(const store_file &) = delete;

  uint64_t read_into(uint64_t offset, nb::handle target) {
    region const memory = host_region(target, access::write);
    uint64_t count = 0;
    call([&] { return tnd_store_read(file_, offset, memory.addr(), memory.size(), &count); });
    return count;
  }
  uint64_t write(uint64_t offset, nb::handle source) {
    region const memory = host_region(source, access::read);
    call([&] { return tnd_store_write(file_, offset, memory.addr(), memory.size()); });
    return memory.size();
  }
  uint64_t size() {
    uint64_t size = 0;
    call([&] { return tnd_store_get_size(file_, &size); });
    return size;
  }
  void truncate(uint64_t size) {
    call([&] { return tnd_store_truncate(file_, size); });
  }
  void sync() {
    call([&] { return tnd_store_sync(file_); });
  }
  void close() {
    if (file_ != nullptr)
      call([&] { return tnd_store_close(std::exchange(file_, nullptr)); });
  }

 private:
  static region host_region(nb::handle object, access wanted) {
    region memory = region::contiguous(object, wanted);
    if (memory.memory() != TND_POOL_MEMORY_HOST)
      throw nb::type_error("files of stores are read and written in host memory");
    return memory;
  }
  template <class Call>
  void call(Call &&wanted) {
    call_without_gil([&] {
      std::lock_guard const lock{mutex_};
      return outcome_of(wanted());
    });
  }

  std::mutex mutex_;
  tnd_store_file *file_ = nullptr;
};

}  // namespace

void bind_stores(nb::module_ &module) {
  nb::class_<store_file>(module, "StoreFile")
      .def(nb::init<nb::bytes, uint32_t, uint64_t>(),
           nb::arg("url"),
           nb::arg("flags"),
           nb::arg("timeout_ns"))
      .def("read_into", &store_file::read_into, nb::arg("offset"), nb::arg("target"))
      .def("write", &store_file::write, nb::arg("offset"), nb::arg("source"))
      .def("size", &store_file::size)
      .def("truncate", &store_file::truncate, nb::arg("size"))
      .def("sync", &store_file::sync)
      .def("close", &store_file::close);
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
