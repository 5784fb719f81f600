// examples/string_match/match.hpp: counts how often each word of a dictionary occurs in the texts,
// one thread for each word.
//
// A word is counted as a run of bytes: case matters, occurrences may overlap, and "the" is
// contained in "other".
//
// A block holds block_size consecutive words of the dictionary. It stages a chunk of text in shared
// memory, and its threads together record the positions where some word of the block could begin.
// There the first four bytes are between the block's lowest and highest. In a sorted dictionary
// such positions are few. Each thread then compares its word there.
#pragma once

#include "files.hpp"

namespace string_match {

inline constexpr u32 block_size = 256;
// Bytes of text staged at a time, in addition to the overlap: what the shared memory of a GPU
// holds, or more where that is no limit.
inline constexpr u32 chunk_size = examples::on_gpu ? 12288 : 49152;
inline constexpr u32 overlap_size = 32;  // a word that begins in a chunk ends in it

TND_DEVICE inline bool is_line_end(u8 byte) {
  return byte == '\n' || byte == '\r';
}

struct dictionary_chunk {
  u8 bytes[chunk_size];
};
using block_counts = u32[block_size];

/// One block: finds where the words begin. Stops after word_limit words and sets *word_count to
/// their number.
template <class File>
TND_KERNEL void index_words(
    const job<File> *work, u64 *word_starts, u64 word_limit, u64 *word_count, int *outcome) {
  TND_SHARED(dictionary_chunk, chunk);
  TND_SHARED(block_counts, counts);
  tanada::this_block const all;
  constexpr u32 share = chunk_size / block_size;
  u64 const size = work->dictionary.size;
  u64 total = 0;
  bool after_end = true;
  for (u64 from = 0; from < size && total < word_limit; from += chunk_size) {
    u32 const here = u32(size - from < chunk_size ? size - from : chunk_size);
    all.sync();
    if (!examples::succeeded(
            work->dictionary.file.read(all, chunk.bytes, from, here), here, outcome))
      break;
    u32 const first = all.rank() * share, last = first + share < here ? first + share : here;
    auto const is_start = [&](u32 at) {
      bool const before = at == 0 ? after_end : is_line_end(chunk.bytes[at - 1]);
      return before && !is_line_end(chunk.bytes[at]);
    };
    u32 mine = 0;
    for (u32 at = first; at < last; at++)
      mine += is_start(at) ? 1 : 0;
    counts[all.rank()] = mine;
    all.sync();
    u64 index = total;
    for (u32 rank = 0; rank < block_size; rank++) {
      if (rank < all.rank())
        index += counts[rank];
      total += counts[rank];
    }
    for (u32 at = first; at < last; at++)
      if (is_start(at) && index < word_limit)
        word_starts[index++] = from + at;
    after_end = is_line_end(chunk.bytes[here - 1]);
  }
  if (all.rank() == 0)
    *word_count = total < word_limit ? total : word_limit;
}

/// A thread's word. Its first four bytes are a number, first byte highest, with `mask` for the
/// bytes that exist.
struct word {
  u8 bytes[overlap_size];
  u32 size, key, mask;
};

/// The word at the start of `bytes`, of which `size` are available. A word longer than
/// word_size_max is an error: range.
TND_DEVICE inline word take_word(const u8 *bytes, u64 size, int *outcome) {
  word result{};
  while (result.size < size && result.size < overlap_size && !is_line_end(bytes[result.size])) {
    result.bytes[result.size] = bytes[result.size];
    result.size++;
  }
  if (result.size > word_size_max) {
    result.size = 0;
    (void)examples::succeeded(status::range, outcome);
  }
  for (u32 i = 0; i < 4 && i < result.size; i++) {
    result.key |= u32(result.bytes[i]) << (24 - 8 * i);
    result.mask |= 0xffu << (24 - 8 * i);
  }
  return result;
}

struct match_storage {
  alignas(16) u8 text[chunk_size + overlap_size];
  alignas(16) u16 places[chunk_size];  // the candidates; at the end the block's lines
  u32 lowest[block_size], highest[block_size];
  u32 place_count;
};

/// The word of each thread of the block, whose first thread has word `first`. The block reads the
/// words together. If blank lines pull them too far apart, each thread reads its own.
template <class File>
TND_DEVICE word read_words(match_storage &s,
                           const sized_file<File> &dictionary,
                           const u64 *word_starts,
                           u64 first,
                           u64 word_count,
                           int *outcome) {
  tanada::this_block const all;
  u64 const here = word_count - first < block_size ? word_count - first : block_size;
  u64 const from = word_starts[first], wanted_end = word_starts[first + here - 1] + overlap_size;
  u64 const end = wanted_end < dictionary.size ? wanted_end : dictionary.size;
  bool const is_mine = all.rank() < here;
  if (end - from <= sizeof s.text) {
    bool const read = examples::succeeded(
        dictionary.file.read(all, s.text, from, end - from), end - from, outcome);
    if (!read || !is_mine)
      return {};
    u64 const at = word_starts[first + all.rank()] - from;
    return take_word(s.text + at, end - from - at, outcome);
  }
  if (!is_mine)
    return {};
  u8 bytes[overlap_size];
  u64 const start = word_starts[first + all.rank()];
  u64 const size = dictionary.size - start < overlap_size ? dictionary.size - start : overlap_size;
  bool const read = examples::succeeded(
      dictionary.file.read(tanada::this_thread{}, bytes, start, size), size, outcome);
  return take_word(bytes, read ? size : 0, outcome);
}

TND_DEVICE inline u32 key_at(const u8 *text) {
  return u32(text[0]) << 24 | u32(text[1]) << 16 | u32(text[2]) << 8 | u32(text[3]);
}

/// The smallest and largest key with which some word of the block could begin.
struct key_range {
  u32 lowest, highest;
};
TND_DEVICE inline key_range range_of_block(match_storage &s, const word &mine) {
  tanada::this_block const all;
  s.lowest[all.rank()] = mine.size != 0 ? mine.key : ~0u;
  s.highest[all.rank()] = mine.size != 0 ? mine.key | ~mine.mask : 0;
  all.sync();
  key_range range{~0u, 0};
  for (u32 i = 0; i < block_size; i++) {
    range.lowest = s.lowest[i] < range.lowest ? s.lowest[i] : range.lowest;
    range.highest = s.highest[i] > range.highest ? s.highest[i] : range.highest;
  }
  return range;
}

TND_DEVICE inline bool begins_at(const word &mine, const u8 *text) {
  for (u32 i = 4; i < mine.size; i++)
    if (text[i] != mine.bytes[i])
      return false;
  return true;
}

/// Occurrences of the thread's word that begin in the first `position_count` of the `staged` bytes.
TND_DEVICE inline u32 count_in_chunk(
    match_storage &s, const word &mine, key_range range, u32 position_count, u32 staged) {
  tanada::this_block const all;
  for (u32 at = all.rank(); at < position_count; at += block_size) {
    if (key_at(s.text + at) - range.lowest > range.highest - range.lowest)
      continue;
    s.places[tanada::simt::device_atomic<u32>(s.place_count).fetch_add_relaxed(1)] = u16(at);
  }
  all.sync();
  u32 found = 0;
  for (u32 i = 0; mine.size != 0 && i < s.place_count; i++) {
    const u8 *const text = s.text + s.places[i];
    if ((key_at(text) & mine.mask) != mine.key || s.places[i] + mine.size > staged)
      continue;
    found += begins_at(mine, text) ? 1 : 0;
  }
  return found;
}

TND_DEVICE inline void format_line(u8 *line, const word &mine, u32 count) {
  for (u32 i = 0; i < line_size; i++)
    line[i] = i < mine.size ? mine.bytes[i] : u8(' ');
  u32 at = line_size - 1;
  line[at] = '\n';
  do {
    line[--at] = u8('0' + count % 10);
    count /= 10;
  } while (count != 0);
}

/// One thread for each word, block_size threads in each block. Thread w writes line w of the
/// counts.
template <class File>
TND_KERNEL void match_words(const job<File> *work,
                            const u64 *word_starts,
                            u64 word_count,
                            int *outcome) {
  TND_SHARED(match_storage, s);
  tanada::this_block const all;
  u64 const first = tanada::simt::block_rank() * block_size;
  word const mine = read_words(s, work->dictionary, word_starts, first, word_count, outcome);
  key_range const range = range_of_block(s, mine);
  u32 count = 0;
  for (u32 t = 0; t < work->text_count; t++) {
    sized_file<File> const &text = work->texts[t];
    for (u64 from = 0; from < text.size; from += chunk_size) {
      u32 const staged =
          u32(text.size - from < chunk_size + overlap_size ? text.size - from
                                                           : chunk_size + overlap_size);
      all.sync();
      if (all.rank() == 0)
        s.place_count = 0;
      if (!examples::succeeded(text.file.read(all, s.text, from, staged), staged, outcome))
        return;
      for (u32 i = staged + all.rank(); i < chunk_size + overlap_size; i += block_size)
        s.text[i] = 0;
      all.sync();
      count += count_in_chunk(s, mine, range, staged < chunk_size ? staged : chunk_size, staged);
    }
  }
  all.sync();
  u8 *const lines = reinterpret_cast<u8 *>(s.places);
  static_assert(block_size * line_size <= sizeof s.places);
  format_line(lines + all.rank() * line_size, mine, count);
  all.sync();
  u64 const here = word_count - first < block_size ? word_count - first : block_size;
  examples::succeeded(work->counts.write(all, lines, first * line_size, here * line_size),
                      here * line_size,
                      outcome);
}

}  // namespace string_match
