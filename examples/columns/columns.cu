// examples/columns/columns.cu: scans a column of doubles in an Arrow file (IPC, also called Feather
// version 2, not compressed) inside kernels. The column's values lie in the file as in memory, so
// blocks read them by gread straight into shared memory. columns.py finds where they lie from the
// file's footer, by pyarrow, and compares the results with pyarrow's.
//
// Usage: columns FILE ABOVE PIECE...: FILE is a path or a URL. A PIECE is OFFSET:COUNT or
// OFFSET:COUNT:BITMAP, for each record batch: where its values begin, how many there are, and where
// the bitmap of those that are not null begins, in bytes. Prints how many values there are, their
// sum, and how many are larger than ABOVE.
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/device_memory.hpp"

using namespace tanada;

constexpr u32 chunk_count = 2048;  // values that a block reads at a time
constexpr u32 block_count = 32, thread_count = 128;
constexpr u64 no_bitmap = ~u64{0};

struct url {
  char text[gfile_url_size_max + 1];
};

// The values of a record batch.
struct piece {
  u64 offset, count, bitmap;
};

struct totals {
  u64 count, above_count;
  double sum;
};

using values = double[chunk_count];
using bits = u8[chunk_count / 8];

// Read one chunk of a piece. Returns whether it is complete; equal in all threads.
TND_DEVICE inline bool read_chunk(
    this_block block, int file, const piece &from, u64 first, u64 count, double *to, u8 *valid) {
  gio_result const read =
      gread(block, file, to, from.offset + first * sizeof(double), count * sizeof(double));
  if (read.size != count * sizeof(double))
    return false;
  if (from.bitmap == no_bitmap)
    return true;
  u64 const size = (count + 7) / 8;
  return gread(block, file, valid, from.bitmap + first / 8, size).size == size;
}

// Blocks take chunks in turn, and each thread sums the values that it looks at.
TND_KERNEL void scan(
    url path, const piece *pieces, u64 piece_count, double above, totals *results) {
  TND_SHARED(values, part);
  TND_SHARED(bits, valid);
  this_block const block;
  totals result{0, 0, 0};
  int file = -1;
  if (gopen(block, path.text, g_rdonly, &file) != status::ok)
    return;
  u64 turn = 0;
  for (u64 i = 0; i < piece_count; i++)
    for (u64 first = 0; first < pieces[i].count; first += chunk_count, turn++) {
      if (turn % simt::grid_size_x() != simt::block_rank())
        continue;
      u64 const rest = pieces[i].count - first, count = rest < chunk_count ? rest : chunk_count;
      bool const is_read = read_chunk(block, file, pieces[i], first, count, part, valid);
      for (u64 k = block.rank(); is_read && k < count; k += block.size()) {
        if (pieces[i].bitmap != no_bitmap && (valid[k / 8] >> k % 8 & 1) == 0)
          continue;
        result.count++;
        result.above_count += part[k] > above ? 1 : 0;
        result.sum += part[k];
      }
      block.sync();
    }
  results[simt::global_thread_rank()] = result;
  (void)gclose(block, file);
}

static u64 number_of(const char *&text) {
  char *end = nullptr;
  u64 const number = std::strtoull(text, &end, 10);
  if (end == text)
    throw std::runtime_error("a piece is OFFSET:COUNT or OFFSET:COUNT:BITMAP");
  text = *end == ':' ? end + 1 : end;
  return number;
}

static piece piece_of(const char *text) {
  piece result{number_of(text), 0, no_bitmap};
  result.count = number_of(text);
  if (*text != 0)
    result.bitmap = number_of(text);
  return result;
}

// Waits for the kernels. If one failed, or a call in one, throws the reason.
static void wait_for_kernels() {
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  tnd_status code = ghandle();
  if (code == TND_OK)
    code = tnd_gfile_get_fault(tnd_gfile_default(), &fault);
  if (code != TND_OK)
    throw std::runtime_error(std::string(tnd_status_name(code)) + ": " + tnd_last_message());
  if (fault.status != TND_OK)
    throw std::runtime_error(std::string(fault.url) + ": " + tnd_status_name(fault.status));
}

static totals scan_file(const url &path, double above, const std::vector<piece> &pieces) {
  examples::device_array<piece> const list(pieces);
  examples::device_array<totals> results(std::vector<totals>(block_count * thread_count));
  simt::launch({block_count},
               {thread_count},
               scan,
               path,
               list.data(),
               u64(pieces.size()),
               above,
               results.data());
  wait_for_kernels();
  totals all{0, 0, 0};
  for (totals const &result : results.to_host()) {
    all.count += result.count;
    all.above_count += result.above_count;
    all.sum += result.sum;
  }
  return all;
}

static void run(int count, char **words) {
  url path{};
  if (count < 4 || std::strlen(words[1]) >= sizeof path.text)
    throw std::runtime_error("usage: columns FILE ABOVE OFFSET:COUNT[:BITMAP]...");
  std::strcpy(path.text, words[1]);
  std::vector<piece> pieces;
  for (int i = 3; i < count; i++)
    pieces.push_back(piece_of(words[i]));
  totals const all = scan_file(path, std::strtod(words[2], nullptr), pieces);
  std::printf("values: %llu\nsum: %.17g\nabove: %llu\n",
              (unsigned long long)all.count,
              all.sum,
              (unsigned long long)all.above_count);
}

int main(int count, char **words) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  tnd_status code = ginitialize(&config);
  std::string reason = code == TND_OK ? "" : tnd_last_message();
  if (code == TND_OK) {
    try {
      run(count, words);
    } catch (const std::exception &error) {
      reason = error.what();
    }
    code = gfinalize();
    if (code != TND_OK && reason.empty())
      reason = tnd_status_name(code);
  }
  if (reason.empty())
    return 0;
  std::fprintf(stderr, "columns: %s\n", reason.c_str());
  return 1;
}
