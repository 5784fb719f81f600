#include "products/o2g/match.hpp"

#include "core/base/assert.hpp"

namespace tanada::o2g {

namespace {

posted_entry &posted_of(match_link *link) {
  return *reinterpret_cast<posted_entry *>(reinterpret_cast<std::byte *>(link) -
                                           offsetof(posted_entry, bucket));
}

arrived_entry &arrived_of(match_link *link, size_t class_index) {
  size_t const offset = offsetof(arrived_entry, buckets) + class_index * sizeof(match_link);
  return *reinterpret_cast<arrived_entry *>(reinterpret_cast<std::byte *>(link) - offset);
}

void empty(match_link &head) {
  while (!head.alone())
    head.behind->take_out();
}

}  // namespace

bool matcher::table::grow(size_t count) noexcept try {
  size_t size = chains_.size();
  while (size <= count)
    size *= 4;
  std::vector<match_link> grown(size);
  for (match_link &head : chains_)
    empty(head);
  chains_ = std::move(grown);
  return true;
} catch (const std::bad_alloc &) {
  return false;
}

// Tags differ in few bits, often the low ones: all of them must reach the low bits of the hash.
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
}

// match_class_count_max: there are too many, or there is no memory for one more.
size_t matcher::class_of(const match_pattern &pattern) noexcept {
  bool const any_source = pattern.source == any_peer;
  for (size_t i = 0; i < classes_.size(); i++)
    if (classes_[i]->ignore == pattern.ignore && classes_[i]->any_source == any_source)
      return i;
  return classes_.size() == match_class_count_max ? match_class_count_max : make_class(pattern);
}

size_t matcher::make_class(const match_pattern &pattern) noexcept try {
  auto made = std::make_unique<match_class>();
  made->ignore = pattern.ignore;
  made->any_source = pattern.source == any_peer;
  classes_.push_back(std::move(made));
  index_arrived(classes_.size() - 1);
  return classes_.size() - 1;
} catch (const std::bad_alloc &) {
  return match_class_count_max;
}

// In order, so that each chain has its oldest first.
void matcher::index_arrived(size_t class_index) {
  match_class &kind = *classes_[class_index];
  kind.arrived.grow(arrived_count_);
  find_arrived_if([&](arrived_entry &entry) {
    entry.buckets[class_index].take_out();
    entry.buckets[class_index].put_before(
        kind.arrived.chain(kind.hash(entry.key.tag, entry.key.source)));
    return false;
  });
}

void matcher::index_posted(match_class &kind) {
  kind.posted.grow(kind.posted_count);
  find_posted_if([&](posted_entry &entry) {
    if (entry.class_index == match_class_count_max || classes_[entry.class_index].get() != &kind)
      return false;
    entry.bucket.take_out();
    entry.bucket.put_before(kind.posted.chain(kind.hash(entry.pattern.tag, entry.pattern.source)));
    return false;
  });
}

posted_entry *matcher::find_posted(const match_key &key) {
  posted_entry *best = nullptr;
  for (auto const &kind : classes_) {
    if (kind->posted_count == 0)
      continue;
    match_link &head = kind->posted.chain(kind->hash(key.tag, key.source));
    for (match_link *at = head.behind; at != &head; at = at->behind) {
      posted_entry &entry = posted_of(at);
      if (!matches(entry.pattern, key))
        continue;
      if (best == nullptr || entry.sequence < best->sequence)
        best = &entry;
      break;
    }
  }
  if (unclassed_count_ == 0)
    return best;
  posted_entry *const walked =
      find_posted_if([&](posted_entry &entry) { return matches(entry.pattern, key); });
  return best == nullptr || (walked != nullptr && walked->sequence < best->sequence) ? walked
                                                                                     : best;
}

arrived_entry *matcher::find_arrived(const match_pattern &pattern) {
  if (arrived_count_ == 0)
    return nullptr;
  size_t const index = class_of(pattern);
  if (index == match_class_count_max)
    return find_arrived_if([&](arrived_entry &entry) { return matches(pattern, entry.key); });
  match_class &kind = *classes_[index];
  match_link &head = kind.arrived.chain(kind.hash(pattern.tag, pattern.source));
  for (match_link *at = head.behind; at != &head; at = at->behind) {
    arrived_entry &entry = arrived_of(at, index);
    if (matches(pattern, entry.key))
      return &entry;
  }
  return nullptr;
}

void matcher::add(posted_entry &entry) {
  TND_ASSERT(!entry.queued);
  size_t const index = class_of(entry.pattern);
  entry.queued = true;
  entry.sequence = sequence_++;
  entry.class_index = uint8_t(index);
  posted_count_++;
  entry.order.put_before(posted_);
  if (index == match_class_count_max) {
    unclassed_count_++;
    return;
  }
  match_class &kind = *classes_[index];
  if (kind.posted.is_full(kind.posted_count++))
    return index_posted(kind);
  entry.bucket.put_before(kind.posted.chain(kind.hash(entry.pattern.tag, entry.pattern.source)));
}

void matcher::add(arrived_entry &entry) {
  TND_ASSERT(!entry.queued);
  entry.queued = true;
  entry.sequence = sequence_++;
  arrived_count_++;
  entry.order.put_before(arrived_);
  for (size_t i = 0; i < classes_.size(); i++) {
    match_class &kind = *classes_[i];
    if (kind.arrived.is_full(arrived_count_ - 1)) {
      index_arrived(i);
    } else {
      entry.buckets[i].put_before(kind.arrived.chain(kind.hash(entry.key.tag, entry.key.source)));
    }
  }
}

void matcher::remove(posted_entry &entry) {
  TND_ASSERT(entry.queued);
  entry.queued = false;
  entry.order.take_out();
  entry.bucket.take_out();
  posted_count_--;
  if (entry.class_index == match_class_count_max) {
    unclassed_count_--;
  } else {
    classes_[entry.class_index]->posted_count--;
  }
}

void matcher::remove(arrived_entry &entry) {
  TND_ASSERT(entry.queued);
  entry.queued = false;
  entry.order.take_out();
  for (size_t i = 0; i < classes_.size(); i++)
    entry.buckets[i].take_out();
  arrived_count_--;
}

}  // namespace tanada::o2g
