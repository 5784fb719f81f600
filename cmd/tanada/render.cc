// tanada render: planes of snapshots as a picture, or a series of them as an animation.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "commands.hpp"
#include "picture/animation.hpp"
#include "snapshot_source.hpp"

namespace tanada::command {
namespace {

// What a snapshot's name says: "demo/ez-000120.npy" is Ez after step 120. Either may be empty.
struct labels {
  std::string component, step;
};
labels labels_of(const std::string &name) {
  std::size_t const begin = name.rfind('/') + 1, dash = name.find('-', begin);  // npos + 1 is 0
  if (dash == std::string::npos)
    return {};
  labels found;
  std::string const component = name.substr(begin, dash - begin);
  if (component.size() == 2 && std::string("eh").find(component[0]) != std::string::npos &&
      std::string("xyz").find(component[1]) != std::string::npos)
    found.component = {char(component[0] - 'a' + 'A'), component[1]};
  std::size_t const digits = name.find_first_not_of('0', dash + 1),
                    end = name.find_first_not_of("0123456789", dash + 1);
  if (end == std::string::npos || end == dash + 1)
    return found;
  found.step = digits < end ? name.substr(digits, end - digits) : "0";
  return found;
}

picture::image draw(const picture::plane &drawn, const std::string &name,
                    const render_options &wanted, float limit) {
  picture::frame const where = picture::fit(drawn, 20, 20, wanted.size);
  picture::image target = picture::make_canvas(where);
  labels const words = labels_of(name);
  picture::draw_field(target, where, drawn, limit, 0.5f);
  picture::draw_bar(target, where, words.component, limit);
  if (words.step.empty())
    return target;
  target.write(where.left + where.width + 28, target.height() - 18, "step " + words.step);
  return target;
}

void tell(std::size_t done, std::size_t count) {
  if (isatty(STDERR_FILENO) != 1)
    return;
  std::fprintf(stderr, "\rframe %zu of %zu%s", done, count, done == count ? "\n" : "");
}

bool has_suffix(const std::string &path, const char *suffix) {
  return path.ends_with(suffix);
}

}  // namespace

int render(const render_options &wanted) {
  bool const is_animation = has_suffix(wanted.output, ".gif");
  if (!is_animation && !has_suffix(wanted.output, ".png"))
    throw std::runtime_error(wanted.output +
                             ": the name must end with .png or, for an animation, .gif");
  snapshot_source source;
  std::vector<snapshot_place> places;
  for (const std::string &url : wanted.urls)
    for (snapshot_place &place : source.find(url))
      places.push_back(std::move(place));
  if (!wanted.component.empty())
    std::erase_if(places, [&](const snapshot_place &place) {
      return !place.name.substr(place.name.rfind('/') + 1).starts_with(wanted.component + "-");
    });
  if (places.empty())
    throw std::runtime_error("no snapshot of " + wanted.component);
  if (!is_animation && places.size() != 1)
    throw std::runtime_error(std::to_string(places.size()) + " snapshots, from " +
                             places.front().url +
                             " on, make an animation: give a name that ends with .gif");
  plane_wanted const which{unsigned(wanted.axis), wanted.index};
  auto const plane_of = [&](const snapshot_place &place) {
    return read_plane(*source.open(place), place.url, which);
  };
  float limit = float(wanted.limit);
  // One scale for all frames: colours mean the same in each. A plane is read twice rather than
  // kept.
  for (const snapshot_place &place : places)
    if (wanted.limit <= 0)
      limit = std::max(limit, picture::robust_limit(plane_of(place).values));
  if (limit <= 0)
    limit = 1;  // nothing but zeros
  if (!is_animation) {
    picture::save_png(draw(plane_of(places[0]), places[0].name, wanted, limit), wanted.output);
    std::printf("%s: %s\n", wanted.output.c_str(), places[0].url.c_str());
    return 0;
  }
  picture::animation film(wanted.output, wanted.delay_ms);
  for (std::size_t i = 0; i < places.size(); i++) {
    film.add(draw(plane_of(places[i]), places[i].name, wanted, limit));
    tell(i + 1, places.size());
  }
  film.finish();
  std::printf("%s: %zu frames, %s to %s\n", wanted.output.c_str(), places.size(),
              places.front().url.c_str(), places.back().url.c_str());
  return 0;
}

}  // namespace tanada::command
