// Matching of messages to posted receives, by hashed classes of patterns.

#include "products/o2g/match.hpp"

#include "core/base/assert.hpp"

namespace tanada::o2g {

namespace {

posted_entry &posted_from_bucket(match_link *link) {
  return *reinterpret_cast<posted_entry *>(reinterpret_cast<std::byte *>(link) -
                                           offsetof(posted_entry, bucket));
}

arrived_entry &arrived_from_bucket(match_link *link, size_t class_index) {
  size_t const offset = offsetof(arrived_entry, buckets) + class_index * sizeof(match_link);
  return *reinterpret_cast<arrived_entry *>(reinterpret_cast<std::byte *>(link) - offset);
}

void unlink_all(match_link &head) {
  while (!head.is_unlinked())
    head.next->unlink();
}

}  // namespace

bool matcher::table::grow(size_t count) noexcept try {
  size_t size = chains_.size();
  while (size <= count)
    size *= 4;
  std::vector<match_link> grown(size);
  for (match_link &head : chains_)
    unlink_all(head);
  chains_ = std::move(grown);
  return true;
} catch (const std::bad_alloc &) {
  return false;
}

// Tags differ in few bits, often the low ones, so every bit must affect the low bits of the hash.
uint64_t matcher::match_class::hash(uint64_t tag, peer_index source) const noexcept {
  uint64_t mixed = (tag & ~ignore) * 0x9E3779B97F4A7C15u + (any_source ? 0 : source);
  mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
  return mixed ^ (mixed >> 32);
}

matcher::~matcher() {
  find_posted_if([this](posted_entry &entry) {
    remove(entry);
    return false;
  });
  find_arrived_if([this](arrived_entry &entry) {
    remove(entry);
    return false;
  });
  TND_ASSERT(posted_count_ == 0 && arrived_count_ == 0 && unclassed_count_ == 0);
}

// Finds or creates the class of a pattern. Returns match_class_count_max if there are too many
// classes, or no memory for another.
size_t matcher::class_for(const match_pattern &pattern) noexcept {
  bool const any_source = pattern.source == any_peer;
  for (size_t i = 0; i < classes_.size(); i++)
    if (classes_[i]->ignore == pattern.ignore && classes_[i]->any_source == any_source)
      return i;
  return classes_.size() == match_class_count_max ? match_class_count_max : make_class(pattern);
}

size_t matcher::make_class(const match_pattern &pattern) noexcept try {
  TND_ASSERT(classes_.size() < match_class_count_max);
  auto new_class = std::make_unique<match_class>();
  new_class->ignore = pattern.ignore;
  new_class->any_source = pattern.source == any_peer;
  classes_.push_back(std::move(new_class));
  index_arrived(classes_.size() - 1);
  return classes_.size() - 1;
} catch (const std::bad_alloc &) {
  return match_class_count_max;
}

// Entries are added in queue order, so that each chain begins with its oldest.
void matcher::index_arrived(size_t class_index) {
  match_class &kind = *classes_[class_index];
  kind.arrived.grow(arrived_count_);
  find_arrived_if([&](arrived_entry &entry) {
    entry.buckets[class_index].unlink();
    entry.buckets[class_index].insert_before(
        kind.arrived.chain(kind.hash(entry.key.tag, entry.key.source)));
    return false;
  });
}

void matcher::index_posted(match_class &kind) {
  kind.posted.grow(kind.posted_count);
  find_posted_if([&](posted_entry &entry) {
    if (entry.class_index == match_class_count_max || classes_[entry.class_index].get() != &kind)
      return false;
    entry.bucket.unlink();
    entry.bucket.insert_before(
        kind.posted.chain(kind.hash(entry.pattern.tag, entry.pattern.source)));
    return false;
  });
}

posted_entry *matcher::find_posted(const match_key &key) {
  posted_entry *best = nullptr;
  for (auto const &kind : classes_) {
    if (kind->posted_count == 0)
      continue;
    match_link &head = kind->posted.chain(kind->hash(key.tag, key.source));
    for (match_link *node = head.next; node != &head; node = node->next) {
      posted_entry &entry = posted_from_bucket(node);
      if (!matches(entry.pattern, key))
        continue;
      if (best == nullptr || entry.sequence < best->sequence)
        best = &entry;
      break;
    }
  }
  if (unclassed_count_ == 0)
    return best;
  posted_entry *const scanned =
      find_posted_if([&](posted_entry &entry) { return matches(entry.pattern, key); });
  return best == nullptr || (scanned != nullptr && scanned->sequence < best->sequence) ? scanned
                                                                                       : best;
}

arrived_entry *matcher::find_arrived(const match_pattern &pattern) {
  if (arrived_count_ == 0)
    return nullptr;
  size_t const index = class_for(pattern);
  if (index == match_class_count_max)
    return find_arrived_if([&](arrived_entry &entry) { return matches(pattern, entry.key); });
  match_class &kind = *classes_[index];
  match_link &head = kind.arrived.chain(kind.hash(pattern.tag, pattern.source));
  for (match_link *node = head.next; node != &head; node = node->next) {
    arrived_entry &entry = arrived_from_bucket(node, index);
    if (matches(pattern, entry.key))
      return &entry;
  }
  return nullptr;
}

void matcher::add(posted_entry &entry) {
  TND_ASSERT(!entry.is_queued);
  size_t const index = class_for(entry.pattern);
  entry.is_queued = true;
  entry.sequence = sequence_++;
  entry.class_index = uint8_t(index);
  posted_count_++;
  entry.order.insert_before(posted_);
  if (index == match_class_count_max) {
    unclassed_count_++;
    return;
  }
  match_class &kind = *classes_[index];
  if (kind.posted.is_full(kind.posted_count++))
    return index_posted(kind);
  entry.bucket.insert_before(kind.posted.chain(kind.hash(entry.pattern.tag, entry.pattern.source)));
}

void matcher::add(arrived_entry &entry) {
  TND_ASSERT(!entry.is_queued);
  entry.is_queued = true;
  entry.sequence = sequence_++;
  arrived_count_++;
  entry.order.insert_before(arrived_);
  for (size_t i = 0; i < classes_.size(); i++) {
    match_class &kind = *classes_[i];
    if (kind.arrived.is_full(arrived_count_ - 1)) {
      index_arrived(i);
    } else {
      entry.buckets[i].insert_before(
          kind.arrived.chain(kind.hash(entry.key.tag, entry.key.source)));
    }
  }
}

void matcher::remove(posted_entry &entry) {
  TND_ASSERT(entry.is_queued && posted_count_ != 0);
  entry.is_queued = false;
  entry.order.unlink();
  entry.bucket.unlink();
  posted_count_--;
  if (entry.class_index == match_class_count_max) {
    TND_ASSERT(unclassed_count_ != 0);
    unclassed_count_--;
  } else {
    TND_ASSERT(entry.class_index < classes_.size());
    TND_ASSERT(classes_[entry.class_index]->posted_count != 0);
    classes_[entry.class_index]->posted_count--;
  }
}

void matcher::remove(arrived_entry &entry) {
  TND_ASSERT(entry.is_queued && arrived_count_ != 0);
  entry.is_queued = false;
  entry.order.unlink();
  for (size_t i = 0; i < classes_.size(); i++)
    entry.buckets[i].unlink();
  arrived_count_--;
}

}  // namespace tanada::o2g
