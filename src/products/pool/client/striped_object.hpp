// products/pool/client/striped_object.hpp: the stripes of an object that this process has open.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/log.hpp"
#include "products/pool/client/client.hpp"
#include "products/pool/client/stripe_placement.hpp"

namespace tanada::pool {

// With an erasure code, its stripes are fragments, and also those of parity are among them. They
// have the numbers of fragments; see wire::pool::erasure_layout.
struct striped_object {
  struct stripe {
    std::shared_ptr<client> link;  // to the stripe's namespace
    open_object object;            // handle 0: it is not open
    uint64_t avoid_until_ns = 0;   // a fragment that could not be read
    uint64_t epoch = 0;            // of the link when a fragment was put
    // Of a local object that is being written: committed, with this size and version.
    bool is_sealed = false;
    uint64_t sealed_size = 0, version = 0;
  };
  wire::pool::stripe_manifest manifest;
  std::vector<stripe> stripes;                // one for each of the manifest's partitions or places
  std::optional<stripe_placement> placement;  // of an object being written
  std::vector<wire::pool::stripe_server> servers;  // that can have its fragments
  uint64_t locate_ns = 0;                          // when their places may be asked for again
  // The pool has one server, whose memory may be smaller than the object; see local_stripes.cc.
  bool is_local = false;
  std::deque<size_t> open_stripes;  // of a local object, the least recently used one first

  bool has_fragments() const noexcept {
    return manifest.erasure.is_on();
  }
  uint64_t size_of(size_t index) const {
    return has_fragments() ? manifest.layout().size_of(index) : manifest.size_of(index);
  }
  // The number of the stripe with these bytes, counted without parity.
  size_t number_of(size_t index) const {
    return has_fragments() ? manifest.layout().number_of_data(index) : index;
  }
};

// `parts`: stripes or fragments.
inline status too_many_parts(uint64_t size,
                             uint64_t count_max,
                             const char *parts,
                             uint64_t part_size) {
  return fail(
      status::too_big,
      "an object of {} bytes has more than {} {} of {} bytes: create it with its final size",
      size,
      count_max,
      parts,
      part_size);
}

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

  static uint64_t size_of(const std::vector<stripe_piece> &pieces) {
    uint64_t sum = 0;
    for (const stripe_piece &piece : pieces)
      sum += piece.size;
    return sum;
  }

  // Adds a range of the object.
  void add(const striped_object &striped, uint64_t offset, uint64_t range_size, std::byte *memory) {
    uint64_t const stripe_size = striped.manifest.stripe_size;
    for (uint64_t done = 0; done < range_size;) {
      uint64_t const begin = (offset + done) % stripe_size;
      uint64_t const part_size = std::min(range_size - done, stripe_size - begin);
      size_t const index = striped.number_of((offset + done) / stripe_size);
      pieces[index].push_back({begin, part_size, memory + done});
      piece_count++;
      done += part_size;
    }
    size += range_size;
  }
};

}  // namespace tanada::pool
