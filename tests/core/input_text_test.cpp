// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>

// Rooms may be compiled as one source.
namespace blink::input_text_test { namespace {

using detail::file_text;
using detail::in_quotes;
using detail::printable;
using detail::write_text;

TEST(input_text, control_characters_are_not_printed) {
  EXPECT_EQ(printable("gpu 0"), "gpu 0");
  EXPECT_EQ(printable("\x1b[31mred\a\n"), "?[31mred??");
  EXPECT_EQ(printable("a\nb\x7f", "\n"), "a\nb?");
  EXPECT_EQ(printable("h\xc3\xb6he \xe2\x82\xac \xf0\x9f\x98\x80"),
            "h\xc3\xb6he \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "??31m");  // the control sequence introducer of 8 bits
  EXPECT_EQ(printable("\xff\xc3"), "??");
  EXPECT_EQ(printable("\xc3("), "?(");
  EXPECT_EQ(in_quotes("\x1b]0;title"), "'?]0;title'");
  EXPECT_EQ(in_quotes("abcdef", 3), "'abc...'");
}

class written_files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("blink_text_" + std::to_string(static_cast<unsigned>(::getpid())));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(std::string const& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(written_files, are_whole_and_alone) {
  write_text(path("a"), "first");
  write_text(path("a"), "second");
  EXPECT_EQ(file_text(path("a"), "a text"), "second");
  EXPECT_EQ(files(), 1);
}

TEST_F(written_files, a_link_stays_one) {
  write_text(path("a"), "first");
  std::filesystem::create_symlink(path("a"), path("link"));
  write_text(path("link"), "second");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(file_text(path("a"), "a text"), "second");
}

TEST_F(written_files, that_cannot_be_written_are_as_they_were) {
  std::filesystem::create_directory(path("folder"));
  EXPECT_SAYS(blink_test::error_of([&] { write_text(path("folder"), "text"); }),
              "cannot be written, expected a writable file");
  EXPECT_SAYS(blink_test::error_of([&] { write_text(path("none/a"), "text"); }),
              "cannot be written");
  EXPECT_EQ(files(), 1);
}

}}  // namespace blink::input_text_test
