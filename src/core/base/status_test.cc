#include <tanada/device/detail/base/status.hpp>

#include <gtest/gtest.h>
#include <tanada/status.h>
#include <tanada/version.h>

#include <cerrno>
#include <climits>
#include <set>
#include <string>

namespace {

TEST(status, names_follow_errno_and_our_own_codes) {
  EXPECT_STREQ(tnd_status_name(TND_OK), "OK");
  EXPECT_STREQ(tnd_status_name(-EIO), "EIO");
  EXPECT_STREQ(tnd_status_name(-ETIMEDOUT), "ETIMEDOUT");
  EXPECT_STREQ(tnd_status_name(-TND_ENOPLUGIN), "TND_ENOPLUGIN");
  EXPECT_STREQ(tnd_status_text(-ENOENT), "No such file or directory");
}

TEST(status, numbers_outside_the_space_are_unknown) {
  for (tnd_status value : {1, 4096, -255, -300, -4095, -5000, INT32_MIN, INT32_MAX}) {
    EXPECT_STREQ(tnd_status_name(value), "EUNKNOWN") << value;
    EXPECT_STREQ(tnd_status_text(value), "Unknown status") << value;
  }
}

TEST(status, our_own_codes_have_names_and_texts_of_their_own) {
  std::set<std::string> names, texts;
  for (tnd_status code = TND_ECORRUPT; code <= TND_ESTATE; code++) {
    names.insert(tnd_status_name(-code));
    texts.insert(tnd_status_text(-code));
  }
  EXPECT_EQ(names.size(), 5u);
  EXPECT_EQ(texts.size(), 5u);
  EXPECT_EQ(names.count("EUNKNOWN") + texts.count("Unknown status"), 0u);
}

TEST(version, library_and_headers_agree) {
  EXPECT_STREQ(tnd_version(), TND_VERSION_STRING);
}

}  // namespace
