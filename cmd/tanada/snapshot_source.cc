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

// Of the call that failed last on this thread.
[[noreturn]] void fail(const std::string &url, tnd_status code) {
  const char *const words = tnd_last_message();
  fail(url, std::string(words[0] != 0 ? words : tnd_status_text(code)) + " (" +
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
        fail(path_, "is cut");
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

std::vector<snapshot_place> find_files(const std::string &url) {
  namespace fs = std::filesystem;
  std::string const path = path_of(url);
  if (fs::is_regular_file(path))
    return {{path, fs::path(path).filename()}};
  bool const is_folder = fs::is_directory(path);
  fs::path const folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  std::string const start = is_folder ? "" : fs::path(path).filename().string();
  std::vector<snapshot_place> found;
  std::error_code error;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
       at.increment(error)) {
    std::string const name = at->path().filename();
    if (name.starts_with(start) && ends_with_suffix(name))
      found.push_back({at->path(), name});
  }
  if (error)
    fail(url, error.message());
  std::sort(found.begin(), found.end(),
            [](auto const &a, auto const &b) { return a.name < b.name; });
  return found;
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
    if (auto const known = pools_.find(space); known != pools_.end())
      return known->second;
    tnd_pool *made = nullptr;
    if (tnd_status const code = tnd_pool_connect(space.c_str(), nullptr, &made); code != TND_OK)
      fail(space, code);
    pools_[space] = made;
    return made;
  }

 private:
  std::map<std::string, tnd_pool *> pools_;
};

snapshot_source::snapshot_source() : connections_{std::make_unique<connections>()} {}
snapshot_source::~snapshot_source() = default;

namespace {

// A pool's URL cut at the end of its namespace.
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

std::vector<snapshot_place> find_objects(tnd_pool *pool, const std::string &url,
                                         const pool_url &at) {
  std::vector<snapshot_place> found;
  if (!at.object.empty()) {
    tnd_pool_info info;
    tnd_status const code = tnd_pool_stat(pool, at.object.c_str(), 0, &info);
    if (code == TND_OK)
      return {{url, at.object}};
    if (status(code) != status::no_entry)
      fail(url, code);
  }
  std::vector<std::string> names;
  auto const add = [](void *context, const char *name, const tnd_pool_info *) {
    static_cast<std::vector<std::string> *>(context)->push_back(name);
    return 0;
  };
  if (tnd_status const code = tnd_pool_list(pool, at.object.c_str(), add, &names); code != TND_OK)
    fail(url, code);
  for (const std::string &name : names)
    if (ends_with_suffix(name))
      found.push_back({at.space + "/" + name, name});
  return found;
}

}  // namespace

std::vector<snapshot_place> snapshot_source::find(const std::string &url) {
  std::vector<snapshot_place> found;
  if (url.starts_with(pool_scheme)) {
    pool_url const at = cut(url);
    found = find_objects(connections_->get(at.space), url, at);
  } else if (url.starts_with(file_scheme) || url.find("://") == std::string::npos) {
    found = find_files(url);
  } else {
    fail(url, "want pool://, file:// or a path");
  }
  if (found.empty())
    fail(url, "is no snapshot, and no snapshot's name (.npy) begins with it");
  return found;
}

std::unique_ptr<readable> snapshot_source::open(const snapshot_place &place) {
  if (!place.url.starts_with(pool_scheme))
    return std::make_unique<file_readable>(place.url);
  pool_url const at = cut(place.url);
  return std::make_unique<pool_readable>(connections_->get(at.space), at.object, place.url);
}

namespace {

constexpr uint64_t plane_size_max = uint64_t{1} << 31;  // bytes

npy_array read_header(readable &source, const std::string &url) {
  std::string header(std::min(source.size(), npy_prefix_size), 0);
  source.read(0, header.data(), header.size());
  auto const check = [&](status code) {
    if (code == status::not_supported)
      fail(url, "is an array, but not of floats, little endian, in C order");
    if (code != status::ok)
      fail(url, "is no NumPy array");
  };
  auto size = npy_header_size(header);
  check(size.error());
  if (size.value() > source.size())
    fail(url, "is cut");
  header.resize(size.value());
  source.read(0, header.data(), header.size());
  auto array = npy_parse(header);
  check(array.error());
  if (array.value().size() != source.size())
    fail(url, "has " + std::to_string(source.size()) + " bytes; its header wants " +
                  std::to_string(array.value().size()));
  return array.value();
}

// `count` elements as floats, from element `first` on.
void read_floats(readable &source, const npy_array &array, uint64_t first, float *target,
                 uint64_t count) {
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

picture::plane read_plane(readable &source, const std::string &url, const plane_wanted &wanted) {
  npy_array const array = read_header(source, url);
  if (array.shape.size() != 2 && array.shape.size() != 3)
    fail(url, "has " + std::to_string(array.shape.size()) + " dimensions; 2 and 3 can be drawn");
  bool const is_flat = array.shape.size() == 2;
  uint64_t const nz = is_flat ? 1 : array.shape[0], ny = array.shape[array.shape.size() - 2],
                 nx = array.shape.back();
  uint64_t const extent[3] = {nx, ny, nz};
  unsigned const axis = is_flat ? 2 : wanted.axis;
  uint64_t const index = wanted.index < 0 || is_flat ? extent[axis] / 2 : uint64_t(wanted.index);
  if (index >= extent[axis])
    fail(url, "has " + std::to_string(extent[axis]) + " planes along that axis");
  uint64_t const width = axis == 0 ? ny : nx, height = axis == 2 ? ny : nz;
  if (width > plane_size_max / sizeof(float) / height)
    fail(url, "has planes of more than 2 GiB");
  picture::plane drawn{int(width), int(height), std::vector<float>(width * height)};
  if (axis == 2)
    read_floats(source, array, index * ny * nx, drawn.values.data(), width * height);
  std::vector<float> whole(axis == 0 ? ny * nx : 0);
  for (uint64_t z = 0; z < nz && axis == 1; z++)
    read_floats(source, array, (z * ny + index) * nx, &drawn.values[z * nx], nx);
  for (uint64_t z = 0; z < nz && axis == 0; z++) {
    read_floats(source, array, z * ny * nx, whole.data(), whole.size());
    for (uint64_t y = 0; y < ny; y++)
      drawn.values[z * ny + y] = whole[y * nx + index];
  }
  return drawn;
}

}  // namespace tanada::command
