// cmd/tanada/snapshot_source.cc: opens snapshots in pools and files, and reads planes of them.
#include "snapshot_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <tanada/pool.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "products/pool/address.hpp"

namespace tanada::command {
namespace {

constexpr const char *file_scheme = "file://", *pool_scheme = "pool://", *suffix = ".npy";

[[noreturn]] void fail(const std::string &url, const std::string &why) {
  throw std::runtime_error(url + ": " + why);
}

// Uses the message of the last failed call on this thread.
[[noreturn]] void fail(const std::string &url, tnd_status code) {
  const char *const message = tnd_last_message();
  fail(url,
       std::string(message[0] != 0 ? message : tnd_status_text(code)) + " (" +
           tnd_status_name(code) + ")");
}

class pool_readable : public readable {
 public:
  pool_readable(tnd_pool *pool, const std::string &name, std::string url) : url_{std::move(url)} {
    tnd_pool_object *opened = nullptr;
    if (tnd_status const code = tnd_pool_open(pool, name.c_str(), 0, &opened); code != TND_OK)
      fail(url_, code);
    object_.reset(opened);
    if (tnd_status const code = tnd_pool_get_info(opened, &info_); code != TND_OK)
      fail(url_, code);
  }
  uint64_t size() const override {
    return info_.size;
  }
  void read(uint64_t offset, void *target, uint64_t bytes) override {
    tnd_status const code =
        tnd_pool_read(object_.get(), offset, target, bytes, TND_POOL_MEMORY_HOST, nullptr);
    if (code != TND_OK)
      fail(url_, code);
  }

 private:
  struct close {
    void operator()(tnd_pool_object *object) const {
      tnd_pool_close(object);
    }
  };
  std::string url_;
  std::unique_ptr<tnd_pool_object, close> object_;
  tnd_pool_info info_{};
};

class file_readable : public readable {
 public:
  explicit file_readable(std::string path)
      : path_{std::move(path)}, file_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)} {
    struct stat about{};
    if (file_ < 0 || ::fstat(file_, &about) != 0) {
      int const code = errno;
      if (file_ >= 0)
        (void)::close(file_);
      fail(path_, std::strerror(code));
    }
    size_ = uint64_t(about.st_size);
  }
  file_readable(const file_readable &) = delete;
  file_readable &operator=(const file_readable &) = delete;
  ~file_readable() override {
    (void)::close(file_);
  }
  uint64_t size() const override {
    return size_;
  }
  void read(uint64_t offset, void *target, uint64_t bytes) override {
    for (uint64_t done = 0; done < bytes;) {
      ssize_t const moved =
          ::pread(file_, static_cast<char *>(target) + done, bytes - done, off_t(offset + done));
      if (moved < 0 && errno != EINTR)
        fail(path_, std::strerror(errno));
      if (moved == 0)
        fail(path_, "is truncated");
      if (moved > 0)
        done += uint64_t(moved);
    }
  }

 private:
  std::string path_;
  int file_;
  uint64_t size_ = 0;
};

bool ends_with_suffix(const std::string &name) {
  return name.ends_with(suffix);
}

std::string path_of(const std::string &url) {
  return url.starts_with(file_scheme) ? url.substr(std::strlen(file_scheme)) : url;
}

std::vector<snapshot_location> find_files(const std::string &url) {
  namespace fs = std::filesystem;
  std::string const path = path_of(url);
  if (fs::is_regular_file(path))
    return {{path, fs::path(path).filename()}};
  bool const is_folder = fs::is_directory(path);
  fs::path const folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  std::string const start = is_folder ? "" : fs::path(path).filename().string();
  std::vector<snapshot_location> matches;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end;
       entry.increment(error)) {
    std::string const name = entry->path().filename();
    if (name.starts_with(start) && ends_with_suffix(name))
      matches.push_back({entry->path(), name});
  }
  if (error)
    fail(url, error.message());
  std::sort(
      matches.begin(), matches.end(), [](auto const &a, auto const &b) { return a.name < b.name; });
  return matches;
}

}  // namespace

class snapshot_source::connections {
 public:
  ~connections() {
    for (auto &[space, pool] : pools_)
      tnd_pool_disconnect(pool);
  }
  // `space`: pool://host:port/namespace.
  tnd_pool *get(const std::string &space) {
    if (auto const it = pools_.find(space); it != pools_.end())
      return it->second;
    tnd_pool *pool = nullptr;
    if (tnd_status const code = tnd_pool_connect(space.c_str(), nullptr, &pool); code != TND_OK)
      fail(space, code);
    pools_[space] = pool;
    return pool;
  }

 private:
  std::map<std::string, tnd_pool *> pools_;
};

snapshot_source::snapshot_source() : connections_{std::make_unique<connections>()} {}
snapshot_source::~snapshot_source() = default;

namespace {

// A pool's URL, split at the end of its namespace.
struct pool_url {
  std::string space, object;
};
pool_url cut(const std::string &url) {
  auto parsed = pool::address_parse(url);
  if (!parsed.ok())
    throw std::runtime_error(tnd_last_message());
  std::string const object = parsed.value().object;
  std::string space = url.substr(0, url.size() - object.size());
  if (space.ends_with('/'))
    space.pop_back();
  return {space, object};
}

std::vector<snapshot_location> find_objects(tnd_pool *pool,
                                            const std::string &url,
                                            const pool_url &parts) {
  std::vector<snapshot_location> matches;
  if (!parts.object.empty()) {
    tnd_pool_info info;
    tnd_status const code = tnd_pool_stat(pool, parts.object.c_str(), 0, &info);
    if (code == TND_OK)
      return {{url, parts.object}};
    if (status(code) != status::no_entry)
      fail(url, code);
  }
  std::vector<std::string> names;
  auto const add = [](void *context, const char *name, const tnd_pool_info *) {
    static_cast<std::vector<std::string> *>(context)->push_back(name);
    return 0;
  };
  if (tnd_status const code = tnd_pool_list(pool, parts.object.c_str(), add, &names);
      code != TND_OK)
    fail(url, code);
  for (const std::string &name : names)
    if (ends_with_suffix(name))
      matches.push_back({parts.space + "/" + name, name});
  return matches;
}

}  // namespace

std::vector<snapshot_location> snapshot_source::find(const std::string &url) {
  std::vector<snapshot_location> matches;
  if (url.starts_with(pool_scheme)) {
    pool_url const parts = cut(url);
    matches = find_objects(connections_->get(parts.space), url, parts);
  } else if (url.starts_with(file_scheme) || url.find("://") == std::string::npos) {
    matches = find_files(url);
  } else {
    fail(url, "unsupported scheme; use pool://, file:// or a path");
  }
  if (matches.empty())
    fail(url, "is not a snapshot, and no name of a snapshot (.npy) begins with it");
  return matches;
}

std::unique_ptr<readable> snapshot_source::open(const snapshot_location &location) {
  if (!location.url.starts_with(pool_scheme))
    return std::make_unique<file_readable>(location.url);
  pool_url const parts = cut(location.url);
  return std::make_unique<pool_readable>(
      connections_->get(parts.space), parts.object, location.url);
}

namespace {

constexpr uint64_t plane_size_max = uint64_t{1} << 31;  // bytes

npy_array read_header(readable &source, const std::string &url) {
  std::string header(std::min(source.size(), npy_prefix_size), 0);
  source.read(0, header.data(), header.size());
  auto const check = [&](status code) {
    if (code == status::not_supported)
      fail(url, "is not an array of little-endian floats in C order");
    if (code != status::ok)
      fail(url, "is not a NumPy array");
  };
  auto size = npy_header_size(header);
  check(size.error());
  if (size.value() > source.size())
    fail(url, "is truncated");
  header.resize(size.value());
  source.read(0, header.data(), header.size());
  auto array = npy_parse(header);
  check(array.error());
  if (array.value().size() != source.size())
    fail(url,
         "has " + std::to_string(source.size()) + " bytes; its header requires " +
             std::to_string(array.value().size()));
  return array.value();
}

// Reads `count` elements as floats, beginning with element `first`.
void read_floats(
    readable &source, const npy_array &array, uint64_t first, float *target, uint64_t count) {
  uint64_t const offset = array.data_offset + first * array.item_size;
  if (array.item_size == sizeof(float)) {
    source.read(offset, target, count * sizeof(float));
    return;
  }
  std::vector<double> values(count);
  source.read(offset, values.data(), count * sizeof(double));
  for (uint64_t i = 0; i < count; i++)
    target[i] = float(values[i]);
}

}  // namespace

picture::plane read_plane(readable &source,
                          const std::string &url,
                          const plane_selection &selection) {
  npy_array const array = read_header(source, url);
  if (array.shape.size() != 2 && array.shape.size() != 3)
    fail(url, "has " + std::to_string(array.shape.size()) + " dimensions; 2 and 3 can be drawn");
  bool const is_flat = array.shape.size() == 2;
  uint64_t const nz = is_flat ? 1 : array.shape[0], ny = array.shape[array.shape.size() - 2],
                 nx = array.shape.back();
  uint64_t const extent[3] = {nx, ny, nz};
  unsigned const axis = is_flat ? 2 : selection.axis;
  uint64_t const index =
      selection.index < 0 || is_flat ? extent[axis] / 2 : uint64_t(selection.index);
  if (index >= extent[axis])
    fail(url, "has " + std::to_string(extent[axis]) + " planes along that axis");
  uint64_t const width = axis == 0 ? ny : nx, height = axis == 2 ? ny : nz;
  if (width > plane_size_max / sizeof(float) / height)
    fail(url, "has planes of more than 2 GiB");
  picture::plane drawn{int(width), int(height), std::vector<float>(width * height)};
  if (axis == 2)
    read_floats(source, array, index * ny * nx, drawn.values.data(), width * height);
  std::vector<float> slab(axis == 0 ? ny * nx : 0);
  for (uint64_t z = 0; z < nz && axis == 1; z++)
    read_floats(source, array, (z * ny + index) * nx, &drawn.values[z * nx], nx);
  for (uint64_t z = 0; z < nz && axis == 0; z++) {
    read_floats(source, array, z * ny * nx, slab.data(), slab.size());
    for (uint64_t y = 0; y < ny; y++)
      drawn.values[z * ny + y] = slab[y * nx + index];
  }
  return drawn;
}

}  // namespace tanada::command
