// products/o2g/scatter.hpp: memory in parts that is filled, or emptied, from its front.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tanada::o2g {

inline constexpr size_t part_count_max = 16;  // of one request

inline uint64_t size_of(std::span<const iovec> parts) noexcept {
  uint64_t size = 0;
  for (iovec const &part : parts)
    size += part.iov_len;
  return size;
}

class scatter {
 public:
  scatter() noexcept {}
  explicit scatter(std::span<const iovec> parts)
      : count_{uint32_t(parts.size())}, room_{size_of(parts)} {
    std::ranges::copy(parts, parts_.begin());
  }
  scatter(std::byte *addr, uint64_t size) : count_{1}, room_{size} {
    parts_[0] = {addr, size};
  }
  // Most have one part or none: the memory of the others is not touched.
  scatter(const scatter &other) noexcept {
    *this = other;
  }
  scatter &operator=(const scatter &other) noexcept {
    std::copy_n(other.parts_.begin(), other.count_, parts_.begin());
    count_ = other.count_;
    at_ = other.at_;
    room_ = other.room_;
    return *this;
  }
  ~scatter() = default;

  uint64_t room() const noexcept {
    return room_;
  }  // bytes

  // The part at the front; empty when all is filled.
  std::span<std::byte> front() noexcept {
    while (at_ < count_ && parts_[at_].iov_len == 0)
      at_++;
    if (at_ == count_)
      return {};
    return {static_cast<std::byte *>(parts_[at_].iov_base), parts_[at_].iov_len};
  }

  // `size` bytes of front() are done.
  void advance(size_t size) noexcept {
    parts_[at_].iov_base = static_cast<std::byte *>(parts_[at_].iov_base) + size;
    parts_[at_].iov_len -= size;
    room_ -= size;
  }

  // How many bytes found room.
  size_t put(std::span<const std::byte> bytes) noexcept {
    size_t done = 0;
    while (done < bytes.size()) {
      auto const target = front();
      if (target.empty())
        break;
      size_t const size = std::min(target.size(), bytes.size() - done);
      std::memcpy(target.data(), bytes.data() + done, size);
      advance(size);
      done += size;
    }
    return done;
  }

 private:
  uint32_t count_ = 0, at_ = 0;
  uint64_t room_ = 0;
  std::array<iovec, part_count_max> parts_;  // count_ of them have a value
};

}  // namespace tanada::o2g
