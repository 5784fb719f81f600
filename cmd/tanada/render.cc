// cmd/tanada/render.cc: tanada render, which draws planes of snapshots as a picture or an
// animation.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "commands.hpp"
#include "picture/animation.hpp"
#include "snapshot_source.hpp"

namespace tanada::command {
namespace {

// The labels in a snapshot's name: "demo/ez-000120.npy" is Ez after step 120. Either may be empty.
struct labels {
  std::string component, step;
};
labels labels_of(const std::string &name) {
  std::size_t const begin = name.rfind('/') + 1, dash = name.find('-', begin);  // npos + 1 is 0
  if (dash == std::string::npos)
    return {};
  labels result;
  std::string const component = name.substr(begin, dash - begin);
  if (component.size() == 2 && std::string("eh").find(component[0]) != std::string::npos &&
      std::string("xyz").find(component[1]) != std::string::npos)
    result.component = {char(component[0] - 'a' + 'A'), component[1]};
  std::size_t const digits = name.find_first_not_of('0', dash + 1),
                    end = name.find_first_not_of("0123456789", dash + 1);
  if (end == std::string::npos || end == dash + 1)
    return result;
  result.step = digits < end ? name.substr(digits, end - digits) : "0";
  return result;
}

picture::image draw(const picture::plane &plane_values,
                    const std::string &name,
                    const render_options &options,
                    float limit) {
  picture::frame const bounds = picture::fit(plane_values, 20, 20, options.size);
  picture::image target = picture::make_canvas(bounds);
  labels const text = labels_of(name);
  picture::draw_field(target, bounds, plane_values, limit, 0.5f);
  picture::draw_bar(target, bounds, text.component, limit);
  if (text.step.empty())
    return target;
  target.write(bounds.x + bounds.width + 28, target.height() - 18, "step " + text.step);
  return target;
}

void report_frame(std::size_t done, std::size_t count) {
  if (isatty(STDERR_FILENO) != 1)
    return;
  std::fprintf(stderr, "\rframe %zu of %zu%s", done, count, done == count ? "\n" : "");
}

bool has_suffix(const std::string &path, const char *suffix) {
  return path.ends_with(suffix);
}

}  // namespace

int render(const render_options &options) {
  bool const is_animation = has_suffix(options.output, ".gif");
  if (!is_animation && !has_suffix(options.output, ".png"))
    throw std::runtime_error(options.output +
                             ": the name must end with .png or, for an animation, .gif");
  snapshot_source source;
  std::vector<snapshot_location> locations;
  for (const std::string &url : options.urls)
    for (snapshot_location &location : source.find(url))
      locations.push_back(std::move(location));
  if (!options.component.empty())
    std::erase_if(locations, [&](const snapshot_location &location) {
      return !location.name.substr(location.name.rfind('/') + 1)
                  .starts_with(options.component + "-");
    });
  if (locations.empty())
    throw std::runtime_error("no snapshot of " + options.component);
  if (!is_animation && locations.size() != 1)
    throw std::runtime_error(std::to_string(locations.size()) + " snapshots, from " +
                             locations.front().url +
                             " on: they make an animation, so give a name that ends with .gif");
  plane_selection const plane_to_draw{unsigned(options.axis), options.index};
  auto const plane_of = [&](const snapshot_location &location) {
    return read_plane(*source.open(location), location.url, plane_to_draw);
  };
  float limit = float(options.limit);
  // All frames use one scale, so that colours mean the same in each. A plane is read twice rather
  // than kept in memory.
  for (const snapshot_location &location : locations)
    if (options.limit <= 0)
      limit = std::max(limit, picture::robust_limit(plane_of(location).values));
  if (limit <= 0)
    limit = 1;  // all values are zero
  if (!is_animation) {
    picture::save_png(draw(plane_of(locations[0]), locations[0].name, options, limit),
                      options.output);
    std::printf("%s: %s\n", options.output.c_str(), locations[0].url.c_str());
    return 0;
  }
  picture::animation film(options.output, options.delay_ms);
  for (std::size_t i = 0; i < locations.size(); i++) {
    film.add(draw(plane_of(locations[i]), locations[i].name, options, limit));
    report_frame(i + 1, locations.size());
  }
  film.finish();
  std::printf("%s: %zu frames, %s to %s\n",
              options.output.c_str(),
              locations.size(),
              locations.front().url.c_str(),
              locations.back().url.c_str());
  return 0;
}

}  // namespace tanada::command
