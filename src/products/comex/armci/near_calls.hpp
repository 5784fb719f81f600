// products/comex/armci/near_calls.hpp: broadcasts and reductions of all ranks by memory that all of
// them have, where they are of one node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "products/comex/armci/combine.hpp"

namespace tanada::comex::armci {

// Each rank has two parts, which take turns, of what libcomex lets it give. In a turn, which is a
// reduction's or gather's, ranks write their own part and pass a barrier; then they read others'.
// Who writes a part again two turns later has passed a barrier at which everybody had read it.
//
// All calls are of all ranks of the world, and all but broadcasts a barrier, too: what was put and
// accumulated before is in its place. Ranks that do not call the same end the job, as far as they
// see it.
class near_calls {
 public:
  // Nothing: ranks have no memory for it.
  static std::optional<near_calls> open(int me, int count);

  // The root goes on before others have the bytes; who has them sees what it has put before.
  void broadcast(const char *call, std::span<std::byte> bytes, int root) noexcept;

  // In the order of ranks, so that all have the same result. `size` of the elements at `place`:
  // whole ones.
  void reduce(const char *call, const combination &what, std::byte *place, size_t size) noexcept;

  // What each rank gives, some bytes, one behind the other.
  void gather(const char *call, const void *mine, size_t size, std::byte *everybodys) noexcept;

 private:
  enum class kind : uint32_t { reduce = 1, gather };

  // What a rank says that it calls.
  struct head {
    uint64_t turn, size;
    kind what;
    int32_t id;  // of what elements are combined by
  };
  // Bytes: what follows begins where programs' large buffers do not. Copies between like places of
  // pages are slow, see engine::control.
  static constexpr size_t head_size = 2048;

  near_calls(int me, std::vector<std::byte *> parts, size_t part_size)
      : me_{me}, parts_{std::move(parts)}, part_size_{part_size} {}
  std::byte *of(int rank) const noexcept {
    return parts_[size_t(rank)] + (turn_ % 2) * part_size_ + head_size;
  }
  size_t room() const noexcept {
    return part_size_ - head_size;
  }
  int count() const noexcept {
    return int(parts_.size());
  }
  void begin(kind what, size_t size, int id = 0) noexcept;  // a turn
  void meet(const char *call) noexcept;
  void check(const char *call, int rank, kind what, size_t size, int id = 0) const noexcept;
  void reduce_piece(const char *call, const combination &what, std::byte *place, size_t size,
                    size_t total) noexcept;

  int me_;
  std::vector<std::byte *> parts_;  // by rank
  size_t part_size_;                // bytes
  uint64_t turn_ = 0;
};

}  // namespace tanada::comex::armci
