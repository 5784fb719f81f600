// products/pool/client/striped_object.hpp: the stripes of an object that this process has open.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "products/pool/client/client.hpp"
#include "products/pool/client/stripe_placement.hpp"

namespace tanada::pool {

struct striped_object {
  struct stripe {
    std::shared_ptr<client> link;  // to the stripe's namespace
    open_object object;            // handle 0: it is not open
  };
  wire::pool::stripe_manifest manifest;
  std::vector<stripe> stripes;                // one for each of the manifest's partitions
  std::optional<stripe_placement> placement;  // of an object being written
};

// A part of a stripe, and its place in memory.
struct stripe_piece {
  uint64_t offset, size;
  std::byte *memory;
};

// Pieces that are moved at the same time, by stripe.
struct stripe_round {
  std::map<size_t, std::vector<stripe_piece>> pieces;
  size_t piece_count = 0;
  uint64_t size = 0;

  // Adds a range of the object.
  void add(uint64_t stripe_size, uint64_t offset, uint64_t range_size, std::byte *memory) {
    for (uint64_t done = 0; done < range_size;) {
      uint64_t const begin = (offset + done) % stripe_size;
      uint64_t const part_size = std::min(range_size - done, stripe_size - begin);
      pieces[(offset + done) / stripe_size].push_back({begin, part_size, memory + done});
      piece_count++;
      done += part_size;
    }
    size += range_size;
  }
};

}  // namespace tanada::pool
