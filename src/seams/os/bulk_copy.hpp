// seams/os/bulk_copy.hpp: copies larger than the caches.
#pragma once

#include <cstddef>

namespace tanada::seams {

// As memcpy, with stores that bypass the caches, for targets so large as a whole that no reader
// would find them there. It copies four pages at a time, which keeps more of the memory busy than
// one after the other. Threads and processes that are notified after it returns see the bytes.
void copy_past_caches(void *target, const void *source, size_t size) noexcept;

// As memcpy, for another processor that reads the bytes at once, from memory that it has read
// before. A page or more bypasses the caches line by line, as this processor would first have to
// get the lines from the other's caches. Threads and processes that are notified after it returns
// see the bytes.
void copy_to_other_processor(void *target, const void *source, size_t size) noexcept;

// Requests the first pages of `size` bytes before a copy from them. For bytes that another
// processor has written: its caches deliver them one after the other otherwise.
void fetch_from_other_processor(const void *source, size_t size) noexcept;

}  // namespace tanada::seams
