// products/stores/api.cc: the C ABI of tanada/store.h: returns statuses, lets no exception through.
#include <tanada/store.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/registry/store_registry.hpp"
#include "core/base/log.hpp"
#include "products/stores/guarded.hpp"
#include "seams/store/store_listing.hpp"

struct tnd_store_listing {
  size_t folder_size;  // bytes of the folder's URL
  std::vector<tanada::seams::store_entry> entries;
};

namespace tanada::stores {
namespace {

constexpr uint32_t entry_count_limit = 100'000'000;

result<tnd_store_list_options> checked(const tnd_store_list_options *requested) {
  tnd_store_list_options options = TND_STORE_LIST_OPTIONS_INIT;
  if (requested == nullptr)
    return options;
  constexpr size_t oldest = sizeof(tnd_store_list_options);
  if (requested->struct_size < oldest)
    return fail(status::invalid, "tnd_store_list: struct_size is {}", requested->struct_size);
  std::memcpy(&options, requested, oldest);
  bool const is_valid = options.entry_count_max >= 1 &&
                        options.entry_count_max <= entry_count_limit && options.has_sizes <= 1 &&
                        options.timeout_ns != 0;
  if (!is_valid)
    return fail(status::invalid,
                "tnd_store_list: entry_count_max {} (1 to {}), has_sizes {} (0 or 1), timeout_ns "
                "{} (not 0)",
                options.entry_count_max,
                entry_count_limit,
                options.has_sizes,
                options.timeout_ns);
  return options;
}

status list(const char *url, const tnd_store_list_options *requested, tnd_store_listing **listing) {
  if (url == nullptr || *url == 0 || listing == nullptr)
    return fail(status::invalid, "tnd_store_list: NULL, or an empty URL");
  auto const options = checked(requested);
  if (!options.ok())
    return options.error();
  std::string folder = url;
  if (!folder.ends_with('/'))
    folder += '/';
  backends::store_registry stores;
  auto const store = stores.find(folder);
  if (!store.ok())
    return store.error();
  seams::clock &time = seams::monotonic_clock();
  auto entries = seams::store_list(
      *store.value(),
      time,
      folder,
      {.deadline_ns = seams::deadline_after(time.now_ns(), options.value().timeout_ns),
       .entry_count_max = options.value().entry_count_max,
       .has_sizes = options.value().has_sizes == 1});
  if (!entries.ok())
    return entries.error();
  *listing = new tnd_store_listing{folder.size(), std::move(entries).value()};
  return status::ok;
}

status get(const tnd_store_listing *listing, uint32_t index, tnd_store_entry *entry) {
  if (listing == nullptr || entry == nullptr || entry->struct_size < sizeof *entry)
    return fail(status::invalid, "tnd_store_listing_get: NULL, or struct_size too small");
  if (index >= listing->entries.size())
    return fail(status::invalid,
                "tnd_store_listing_get: index {} of {} entries",
                index,
                listing->entries.size());
  seams::store_entry const &source = listing->entries[index];
  entry->kind = source.is_folder ? TND_STORE_FOLDER : TND_STORE_FILE;
  entry->size = source.size;
  entry->url = source.url.c_str();
  entry->name = source.url.c_str() + listing->folder_size;
  entry->name_size =
      uint32_t(source.url.size() - listing->folder_size - (source.is_folder ? 1 : 0));
  entry->reserved = 0;
  return status::ok;
}

}  // namespace
}  // namespace tanada::stores

tnd_status tnd_store_list(const char *url,
                          const tnd_store_list_options *options,
                          tnd_store_listing **listing) noexcept {
  return tanada::stores::guarded([&] { return tanada::stores::list(url, options, listing); });
}

uint32_t tnd_store_listing_count(const tnd_store_listing *listing) noexcept {
  return listing == nullptr ? 0 : uint32_t(listing->entries.size());
}

tnd_status tnd_store_listing_get(const tnd_store_listing *listing,
                                 uint32_t index,
                                 tnd_store_entry *entry) noexcept {
  return tanada::stores::guarded([&] { return tanada::stores::get(listing, index, entry); });
}

void tnd_store_listing_destroy(tnd_store_listing *listing) noexcept {
  delete listing;
}
