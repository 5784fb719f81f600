// examples/string_match/files.hpp: the inputs and outputs of the kernels: files of a store, or the
// same bytes in memory for the program without gfile. One kernel serves both.
#pragma once

#include "../common/outcome.hpp"

namespace string_match {

using tanada::gio_result;
using tanada::status;
using tanada::u16;
using tanada::u32;
using tanada::u64;
using tanada::u8;

inline constexpr u32 text_count_max = 64;
inline constexpr u32 word_size_max = 31;                      // bytes
inline constexpr u32 line_size = word_size_max + 1 + 10 + 1;  // "%-31s %10u\n"

/// A file of a store, opened by a kernel.
struct stored_file {
  int fd;
  template <class Group>
  TND_DEVICE gio_result read(Group group, void *buffer, u64 offset, u64 size) const {
    return tanada::gread(group, fd, buffer, offset, size);
  }
  template <class Group>
  TND_DEVICE gio_result write(Group group, const void *buffer, u64 offset, u64 size) const {
    return tanada::gwrite(group, fd, buffer, offset, size);
  }
};

/// Bytes that the host has copied into device memory.
struct memory_file {
  u8 *bytes;
  u64 size_max;
  template <class Group>
  TND_DEVICE gio_result read(Group group, void *buffer, u64 offset, u64 size) const {
    u64 const rest = offset < size_max ? size_max - offset : 0, moved = size < rest ? size : rest;
    group.sync();
    tanada::simt::copy(group, buffer, bytes + offset, moved);
    group.sync();
    return {status::ok, moved};
  }
  template <class Group>
  TND_DEVICE gio_result write(Group group, const void *buffer, u64 offset, u64 size) const {
    group.sync();
    tanada::simt::copy(group, bytes + offset, buffer, size);
    group.sync();
    return {status::ok, size};
  }
};

template <class File>
struct sized_file {
  File file;
  u64 size;
};

/// The data of a run, in device memory.
template <class File>
struct job {
  sized_file<File> dictionary;
  File counts;
  u32 text_count;
  sized_file<File> texts[text_count_max];
};

inline constexpr u32 list_size_max = 16384;
using list_bytes = char[list_size_max];

TND_DEVICE inline bool open_sized(const char *url,
                                  sized_file<stored_file> &opened,
                                  u64 limit,
                                  int *outcome) {
  if (!examples::succeeded(tanada::gopen(url, tanada::g_rdonly, &opened.file.fd), outcome))
    return false;
  tanada::gstat_result const found = tanada::gfstat(opened.file.fd);
  opened.size = found.size < limit ? found.size : limit;
  return examples::succeeded(found.status, outcome);
}

/// One thread: opens the dictionary, the texts in the list (a URL on each line), and the file for
/// the counts.
static TND_KERNEL void open_files(examples::device_url dictionary,
                                  examples::device_url list,
                                  examples::device_url counts,
                                  u64 text_limit,
                                  job<stored_file> *opened,
                                  int *outcome) {
  TND_SHARED(list_bytes, names);
  sized_file<stored_file> list_file{{-1}, 0};
  if (!open_sized(dictionary.text, opened->dictionary, ~0ull, outcome))
    return;
  if (!open_sized(list.text, list_file, ~0ull, outcome))
    return;
  if (list_file.size >= list_size_max && !examples::succeeded(status::too_big, outcome))
    return;
  gio_result const listed = list_file.file.read(tanada::this_thread{}, names, 0, list_file.size);
  if (!examples::succeeded(listed, list_file.size, outcome))
    return;
  if (!examples::succeeded(tanada::gclose(list_file.file.fd), outcome))
    return;
  names[listed.size] = '\n';
  u32 first = 0;
  for (u32 at = 0; at <= listed.size; at++) {
    if (names[at] != '\n')
      continue;
    names[at] = 0;
    if (at > first) {
      if (opened->text_count == text_count_max && !examples::succeeded(status::range, outcome))
        return;
      sized_file<stored_file> &text = opened->texts[opened->text_count];
      if (!open_sized(names + first, text, text_limit, outcome))
        return;
      // All of it is needed soon, so it is read into the host tier while the words are searched.
      if (!examples::succeeded(tanada::gprefetch(text.file.fd, 0, text.size), outcome))
        return;
      opened->text_count++;
    }
    first = at + 1;
  }
  int const flags = tanada::g_wronly | tanada::g_creat | tanada::g_trunc;
  examples::succeeded(tanada::gopen(counts.text, flags, &opened->counts.fd), outcome);
}

/// One thread: publishes the counts and closes everything.
static TND_KERNEL void close_files(job<stored_file> *opened, int *outcome) {
  examples::succeeded(tanada::gclose(opened->counts.fd), outcome);
  examples::succeeded(tanada::gclose(opened->dictionary.file.fd), outcome);
  for (u32 i = 0; i < opened->text_count; i++)
    examples::succeeded(tanada::gclose(opened->texts[i].file.fd), outcome);
}

}  // namespace string_match
