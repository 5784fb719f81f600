// cmd/tanada/stat_report.hpp: ratios, rates and percentiles from a page of gfile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "products/gfile/host/stat_page.hpp"

namespace tanada::command {

// The fraction of requested pages that were found without a request to the CPU. 0 if no page was
// requested.
double hit_ratio(const tnd_gfile_statistics &counts);

// The nanoseconds within which a fraction (0 to 1) of the misses was served. It is the upper end of
// the histogram bucket, so up to twice too large. 0 without misses.
uint64_t latency_ns(const tnd_gfile_statistics &counts, double share);

// The counts from `before` to `after`.
tnd_gfile_statistics difference(const tnd_gfile_statistics &after,
                                const tnd_gfile_statistics &previous);

const char *path_name(uint32_t path);

// `previous`: the sample from which rates and the histogram count; null: the instance's start.
nlohmann::json stat_json(const gfile::stat_page &current, const gfile::stat_page *previous);
std::string stat_text(const gfile::stat_page &current, const gfile::stat_page *previous);

}  // namespace tanada::command
