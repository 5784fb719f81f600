// cmd/tanada/stat_report.hpp: what is made of a page: ratios, rates and percentiles.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "products/gfile/host/stat_page.hpp"

namespace tanada::command {

// Of the pages asked for, how many were found before the CPU was asked; 0 when none was asked for.
double hit_ratio(const tnd_gfile_statistics &of);

// Within how many nanoseconds a share (0 to 1) of the misses was answered: the upper end of its
// bucket, so up to twice too much. 0 without misses.
uint64_t latency_ns(const tnd_gfile_statistics &of, double share);

// What has been counted from `before` to `after`.
tnd_gfile_statistics difference(const tnd_gfile_statistics &after,
                                const tnd_gfile_statistics &before);

const char *path_name(uint32_t path);

// `before`: the sample that rates and the histogram are since; null: the instance's start.
nlohmann::json stat_json(const gfile::stat_page &now, const gfile::stat_page *before);
std::string stat_text(const gfile::stat_page &now, const gfile::stat_page *before);

}  // namespace tanada::command
