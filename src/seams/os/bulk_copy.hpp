// seams/os/bulk_copy.hpp: copies of more than the caches hold.
#pragma once

#include <cstddef>

namespace tanada::port {

// As memcpy, with stores that go past the caches: for targets that are so large, as a whole, that
// nobody would find them there. Four pages at a time, which keeps more of the memory at work than
// one after the other. Once it returns other threads and processes that are told so see the bytes.
void copy_past_caches(void *target, const void *source, size_t size) noexcept;

// As memcpy, for another processor to read at once, from memory that it has read before: a page and
// what is more goes past the caches, line after line, as this one would first have to get the lines
// out of the other's. Once it returns others that are told so see the bytes.
void copy_to_other(void *target, const void *source, size_t size) noexcept;

}  // namespace tanada::port
