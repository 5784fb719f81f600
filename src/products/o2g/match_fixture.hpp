// products/o2g/match_fixture.hpp: random calls of kernel/o2g/match.h, whose results are compared
// with those of a search of two lists. The unit test and the fuzzer use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernel/o2g/match.h"

namespace tanada::o2g {

// A separate generator: the simulation's belongs to a higher layer than this module.
struct random_numbers {
  uint64_t state;
  uint64_t below(uint64_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % bound;
  }
};

// How calls choose their arguments. All are at most 256.
struct match_trial_shape {
  uint32_t tag_count = 4;
  uint32_t source_count = 2;
  uint32_t mask_count = 1;  // distinct values of `ignore`; each makes up to two classes
};

// `Numbers::below(bound)` returns a number below a bound of at most 256.
template <class Numbers>
class match_trial {
 public:
  match_trial(Numbers &numbers, const match_trial_shape &shape) : numbers_{numbers}, shape_{shape} {
    o2g_matcher_init(&tested_);
    chain_count_max_ = tested_.chain_count_max;
  }
  match_trial(const match_trial &) = delete;
  match_trial &operator=(const match_trial &) = delete;
  ~match_trial() {
    o2g_matcher_fini(&tested_);
  }

  // Makes one call or a few. Returns which result differed; null: none.
  const char *step() {
    uint64_t const action = numbers_.below(32);
    if (action < 12)
      return post();
    if (action < 24)
      return arrive();
    if (action < 26)
      return cancel();
    if (action < 28)
      return claim();
    if (action < 30)
      return compare_raced();
    if (action == 30)
      return compare_lists();
    return change_limit();
  }

 private:
  // Each has memory of its own, so that AddressSanitizer sees every use after it was removed.
  template <class Entry>
  using queue = std::vector<std::unique_ptr<Entry>>;  // oldest first

  static bool matches(const o2g_match_pattern &pattern, const o2g_match_key &key) {
    return (pattern.tag & ~pattern.ignore) == (key.tag & ~pattern.ignore) &&
           (pattern.source == O2G_MATCH_ANY_PEER || pattern.source == key.source);
  }

  // All fields but `is_queued` may have any value before an entry is added.
  template <class Entry>
  static std::unique_ptr<Entry> make_entry() {
    auto entry = std::make_unique<Entry>();
    std::memset(entry.get(), 0xA5, sizeof *entry);
    entry->is_queued = false;
    return entry;
  }

  template <class Entry>
  static size_t index_of(const queue<Entry> &entries, const Entry *entry) {
    size_t index = 0;
    while (index < entries.size() && entries[index].get() != entry)
      index++;
    return index;
  }

  o2g_posted_entry *search_posted(const o2g_match_key &key) const {
    for (auto const &entry : posts_)
      if (matches(entry->pattern, key))
        return entry.get();
    return nullptr;
  }
  o2g_arrived_entry *search_arrived(const o2g_match_pattern &pattern, uint64_t number = 0) const {
    for (auto const &entry : arrivals_)
      if (entry->number > number && matches(pattern, entry->key))
        return entry.get();
    return nullptr;
  }

  uint64_t tag() {
    uint64_t const low = numbers_.below(shape_.tag_count);
    return numbers_.below(2) == 0 ? low : low << 32 | low;
  }
  o2g_match_pattern pattern() {
    uint64_t const mask = numbers_.below(shape_.mask_count);
    uint64_t const ignore = mask == 1 ? 0xFFFFFFFFu : (uint64_t{1} << mask) - 1;
    uint32_t const source =
        numbers_.below(3) == 0 ? O2G_MATCH_ANY_PEER : uint32_t(numbers_.below(shape_.source_count));
    return {tag(), ignore, source};
  }

  const char *post() {
    auto entry = make_entry<o2g_posted_entry>();
    entry->pattern = pattern();
    o2g_arrived_entry *const expected = search_arrived(entry->pattern);
    if (o2g_match_find_arrived(&tested_, &entry->pattern) != expected)
      return "o2g_match_find_arrived";
    // A program may leave a message that it has seen.
    if (expected != nullptr && numbers_.below(8) != 0)
      return remove_arrived(index_of(arrivals_, expected));
    o2g_match_add_posted(&tested_, entry.get());
    posts_.push_back(std::move(entry));
    return compare_counts();
  }

  const char *arrive() {
    auto entry = make_entry<o2g_arrived_entry>();
    entry->key = {tag(), uint32_t(numbers_.below(shape_.source_count))};
    o2g_posted_entry *const expected = search_posted(entry->key);
    if (o2g_match_find_posted(&tested_, &entry->key) != expected)
      return "o2g_match_find_posted";
    if (expected != nullptr && numbers_.below(8) != 0)
      return remove_posted(index_of(posts_, expected));
    newest_number_ += 1 + numbers_.below(2);
    entry->number = newest_number_;
    o2g_match_add_arrived(&tested_, entry.get());
    arrivals_.push_back(std::move(entry));
    return compare_counts();
  }

  const char *cancel() {
    return posts_.empty() ? nullptr : remove_posted(random_index(posts_.size()));
  }
  const char *claim() {
    return arrivals_.empty() ? nullptr : remove_arrived(random_index(arrivals_.size()));
  }
  size_t random_index(size_t count) {
    return (numbers_.below(256) << 8 | numbers_.below(256)) % count;
  }

  const char *remove_posted(size_t index) {
    o2g_match_remove_posted(&tested_, posts_[index].get());
    if (posts_[index]->is_queued)
      return "o2g_match_remove_posted";
    posts_.erase(posts_.begin() + ptrdiff_t(index));
    return compare_counts();
  }
  const char *remove_arrived(size_t index) {
    o2g_match_remove_arrived(&tested_, arrivals_[index].get());
    if (arrivals_[index]->is_queued)
      return "o2g_match_remove_arrived";
    arrivals_.erase(arrivals_.begin() + ptrdiff_t(index));
    return compare_counts();
  }

  const char *compare_raced() {
    o2g_match_pattern const requested = pattern();
    uint64_t const age = numbers_.below(256);
    uint64_t const number = age < newest_number_ ? newest_number_ - age : 0;
    bool const is_raced = search_arrived(requested, number) != nullptr;
    return o2g_match_is_raced(&tested_, &requested, number) == is_raced ? nullptr
                                                                        : "o2g_match_is_raced";
  }

  const char *compare_counts() const {
    size_t posted_count = tested_.unclassed_count;
    for (size_t i = 0; i < tested_.class_count; i++)
      posted_count += tested_.classes[i].posted_count;
    bool const agrees = posted_count == posts_.size() && tested_.posted_count == posts_.size() &&
                        tested_.arrived_count == arrivals_.size();
    return agrees ? nullptr : "the counts";
  }

  const char *compare_lists() {
    o2g_posted_entry *posted = nullptr;
    for (auto const &entry : posts_) {
      posted = o2g_match_next_posted(&tested_, posted);
      if (posted != entry.get())
        return "o2g_match_next_posted";
    }
    o2g_arrived_entry *arrived = nullptr;
    for (auto const &entry : arrivals_) {
      arrived = o2g_match_next_arrived(&tested_, arrived);
      if (arrived != entry.get())
        return "o2g_match_next_arrived";
    }
    bool const agrees = o2g_match_next_posted(&tested_, posted) == nullptr &&
                        o2g_match_next_arrived(&tested_, arrived) == nullptr;
    return agrees ? nullptr : "the end of a list";
  }

  // Tables stop growing, as without memory, or can grow again.
  const char *change_limit() {
    uint64_t const kind = numbers_.below(4);
    tested_.chain_count_max = kind == 0   ? O2G_MATCH_FIRST_CHAIN_COUNT
                              : kind == 1 ? 4 * O2G_MATCH_FIRST_CHAIN_COUNT
                                          : chain_count_max_;
    return nullptr;
  }

  Numbers &numbers_;
  match_trial_shape shape_;
  queue<o2g_posted_entry> posts_;
  queue<o2g_arrived_entry> arrivals_;
  uint64_t newest_number_ = 0;
  size_t chain_count_max_ = 0;
  o2g_matcher tested_;  // its end removes the entries
};

}  // namespace tanada::o2g
