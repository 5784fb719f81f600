// The C calls of tanada/store.h on files of this machine and on mem://.
#include <gtest/gtest.h>
#include <tanada/store.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

struct entry {
  std::string url, name;
  uint32_t kind;
  uint64_t size;
  bool operator==(const entry &) const = default;
};

void PrintTo(const entry &shown, std::ostream *out) {
  *out << "{" << shown.url << ", " << shown.name << ", " << shown.kind << ", " << shown.size << "}";
}

std::vector<entry> entries_of(const tnd_store_listing *listing) {
  std::vector<entry> all;
  for (uint32_t i = 0; i < tnd_store_listing_count(listing); i++) {
    tnd_store_entry found = TND_STORE_ENTRY_INIT;
    EXPECT_EQ(tnd_store_listing_get(listing, i, &found), TND_OK);
    all.push_back({found.url, std::string{found.name, found.name_size}, found.kind, found.size});
  }
  return all;
}

class store_listing : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tanada-listing-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::filesystem::create_directory(folder_ + "/below");
    std::ofstream{folder_ + "/b"} << "12345";
    std::ofstream{folder_ + "/a b"} << "1";
    std::ofstream{folder_ + "/below/c"} << "123";
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
  }

  std::vector<entry> list(const std::string &url,
                          tnd_store_list_options options = TND_STORE_LIST_OPTIONS_INIT) {
    tnd_store_listing *listing = nullptr;
    EXPECT_EQ(tnd_store_list(url.c_str(), &options, &listing), TND_OK) << tnd_last_message();
    std::vector<entry> const all = entries_of(listing);
    tnd_store_listing_destroy(listing);
    return all;
  }

  std::string folder_;
};

TEST_F(store_listing, of_a_folder_has_names_kinds_and_sizes) {
  for (std::string const &url : {folder_, "file://" + folder_, folder_ + "/"}) {
    std::string const begin = url.ends_with('/') ? url : url + "/";
    EXPECT_EQ(list(url),
              (std::vector<entry>{
                  {begin + "a b", "a b", TND_STORE_FILE, 1},
                  {begin + "b", "b", TND_STORE_FILE, 5},
                  {begin + "below/", "below", TND_STORE_FOLDER, TND_STORE_SIZE_UNKNOWN}}));
  }
}

TEST_F(store_listing, without_sizes_opens_no_file) {
  tnd_store_list_options options = TND_STORE_LIST_OPTIONS_INIT;
  options.has_sizes = 0;
  auto const all = list(folder_, options);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].size, TND_STORE_SIZE_UNKNOWN);
}

TEST_F(store_listing, of_a_folder_that_does_not_exist_is_empty) {
  EXPECT_TRUE(list(folder_ + "/nothing").empty());
  EXPECT_TRUE(list("mem://no-such-folder").empty());
  EXPECT_EQ(tnd_store_listing_count(nullptr), 0u);
}

// More files than are open at a time.
TEST_F(store_listing, of_many_files_has_all_sizes) {
  for (int i = 0; i < 300; i++)
    std::ofstream{folder_ + "/below/" + std::to_string(1000 + i)} << std::string(size_t(i), 'x');
  auto const all = list(folder_ + "/below");
  ASSERT_EQ(all.size(), 301u);
  for (uint64_t i = 0; i < 300; i++)
    EXPECT_EQ(all[i].size, i);
}

TEST_F(store_listing, has_a_limit) {
  tnd_store_list_options options = TND_STORE_LIST_OPTIONS_INIT;
  options.entry_count_max = 2;
  tnd_store_listing *listing = nullptr;
  EXPECT_EQ(tnd_store_list(folder_.c_str(), &options, &listing), -EOVERFLOW);
  EXPECT_NE(std::string{tnd_last_message()}.find("3 names"), std::string::npos);
  EXPECT_EQ(listing, nullptr);
  options.entry_count_max = 3;
  EXPECT_EQ(list(folder_, options).size(), 3u);
}

TEST_F(store_listing, refuses_bad_arguments) {
  tnd_store_listing *listing = nullptr;
  EXPECT_EQ(tnd_store_list(nullptr, nullptr, &listing), -EINVAL);
  EXPECT_EQ(tnd_store_list("", nullptr, &listing), -EINVAL);
  EXPECT_EQ(tnd_store_list(folder_.c_str(), nullptr, nullptr), -EINVAL);
  EXPECT_EQ(tnd_store_list("no-such-scheme://a/", nullptr, &listing), -EINVAL);
  for (int field = 0; field < 4; field++) {
    tnd_store_list_options options = TND_STORE_LIST_OPTIONS_INIT;
    if (field == 0)
      options.struct_size = 8;
    else if (field == 1)
      options.entry_count_max = 0;
    else if (field == 2)
      options.has_sizes = 2;
    else
      options.timeout_ns = 0;
    EXPECT_EQ(tnd_store_list(folder_.c_str(), &options, &listing), -EINVAL) << field;
  }
  ASSERT_EQ(tnd_store_list(folder_.c_str(), nullptr, &listing), TND_OK);
  tnd_store_entry found = TND_STORE_ENTRY_INIT;
  EXPECT_EQ(tnd_store_listing_get(listing, 3, &found), -EINVAL);
  found.struct_size = 8;
  EXPECT_EQ(tnd_store_listing_get(listing, 0, &found), -EINVAL);
  EXPECT_EQ(tnd_store_listing_get(listing, 0, nullptr), -EINVAL);
  EXPECT_EQ(tnd_store_listing_get(nullptr, 0, &found), -EINVAL);
  tnd_store_listing_destroy(listing);
}

}  // namespace
