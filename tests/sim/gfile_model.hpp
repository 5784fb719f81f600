// The expected content of the files of a gfile simulation: three kinds of files, by their writers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <tanada/device/detail/simt/config.hpp>

namespace gfile_sim {

using tanada::u32;
using tanada::u64;
using tanada::u8;

inline u8 value_at(u64 position, u32 stamp) {
  u64 z = position * 0x9E3779B97F4A7C15u + stamp * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 31) * 0x94D049BB133111EBu;
  return u8(z >> 56);
}

// Many groups have it open; each writes to its own byte ranges and reads all of it.
class shared_file {
 public:
  struct write {
    u64 begin, end;
    u32 stamp;
  };

  // `cuts`: ends of the ranges; range i belongs to owner i % owner_count. `initial`: the initial
  // bytes.
  shared_file(std::string url_, std::vector<u64> cuts, u32 owner_count, u64 initial_size)
      : url{std::move(url_)},
        cuts_{std::move(cuts)},
        owners_(owner_count),
        initial_size_{initial_size} {}

  std::string const url;
  bool exists = false;

  u64 size_max() const {
    return cuts_.back();
  }
  u32 range_count() const {
    return u32(cuts_.size());
  }
  u32 owner_of_range(u32 range) const {
    return range % u32(owners_.size());
  }
  u64 range_begin(u32 range) const {
    return range == 0 ? 0 : cuts_[range - 1];
  }
  u64 range_end(u32 range) const {
    return cuts_[range];
  }

  void begin_write(u32 by, write what) {
    owners_[by].writes.push_back(what);
  }
  void end_write(u32 by) {
    owners_[by].done = owners_[by].writes.size();
  }

  // What a read that begins now must see at least.
  std::vector<size_t> floor() const {
    std::vector<size_t> counts;
    for (owner const &each : owners_)
      counts.push_back(each.done);
    return counts;
  }
  u64 size_floor() const {
    return size_of(false);
  }
  u64 size_ceiling() const {
    return size_of(true);
  }

  // `anything`: writes may have been lost, so any value that its owner ever wrote is possible, and
  // the initial one.
  bool accepts(u64 position, u8 byte, const std::vector<size_t> &floor, bool anything) const {
    u32 range = 0;
    while (cuts_[range] <= position)
      range++;
    u32 const index = owner_of_range(range);
    owner const &mine = owners_[index];
    for (size_t i = mine.writes.size(); i-- > 0;) {
      write const &each = mine.writes[i];
      if (position < each.begin || position >= each.end)
        continue;
      if (value_at(position, each.stamp) == byte)
        return true;
      if (i < floor[index] && !anything)
        return false;
    }
    return byte == initial(position) || (anything && byte == 0);
  }

  // The bytes after all writes.
  std::string contents() const {
    std::string all(size_floor(), '\0');
    for (u64 i = 0; i < all.size(); i++)
      all[i] = char(initial(i));
    for (owner const &each : owners_)
      for (write const &part : each.writes)
        for (u64 i = part.begin; i < part.end && i < all.size(); i++)
          all[i] = char(value_at(i, part.stamp));
    return all;
  }
  std::string initial_contents() const {
    std::string all(initial_size_, '\0');
    for (u64 i = 0; i < all.size(); i++)
      all[i] = char(initial(i));
    return all;
  }

 private:
  struct owner {
    std::vector<write> writes;  // in order
    size_t done = 0;
  };

  u8 initial(u64 position) const {
    return position < initial_size_ ? value_at(position, 0) : 0;
  }
  u64 size_of(bool with_running) const {
    u64 size = initial_size_;
    for (owner const &each : owners_)
      for (size_t i = 0; i < (with_running ? each.writes.size() : each.done); i++)
        if (each.writes[i].end > size && each.writes[i].end > each.writes[i].begin)
          size = each.writes[i].end;
    return size;
  }

  std::vector<u64> cuts_;
  std::vector<owner> owners_;
  u64 initial_size_;
};

// A file of one group, which knows every byte and may truncate, delete and create it again. `bytes`
// is shared by the name and the open descriptors, as an inode is.
struct private_file {
  std::string url;
  std::shared_ptr<std::string> named;  // null: the file does not exist
};

// Kernels only read it; another node rewrites it as a whole, repeatedly.
struct foreign_file {
  std::string url;
  u64 size = 0;
  u32 begun = 0, done = 0;  // generations
  u32 open_count = 0;       // descriptors open or being opened
  u32 floor = 0;            // the generation that open descriptors must see at least

  static u32 stamp(u32 generation) {
    return 1'000'000 + generation;
  }
  bool accepts(u64 position, u8 byte) const {
    for (u32 generation = floor; generation <= begun; generation++)
      if (value_at(position, stamp(generation)) == byte)
        return true;
    return false;
  }
  std::string contents() const {
    std::string all(size, '\0');
    for (u64 i = 0; i < size; i++)
      all[i] = char(value_at(i, stamp(begun)));
    return all;
  }
};

}  // namespace gfile_sim
