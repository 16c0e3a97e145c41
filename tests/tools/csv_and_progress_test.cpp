// SPDX-License-Identifier: Apache-2.0
#include "../../tools/csv_text.hpp"
#include "../../tools/progress.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <string>

namespace csv_and_progress_test { namespace {

using blink::tools::csv_cell;
using blink::tools::csv_of;
using blink::tools::json_text;
using blink::tools::progress_line;
using json = nlohmann::ordered_json;

TEST(csv_text, columns_are_the_keys_of_all_rows) {
  auto const rows = json::parse(R"([{"bytes": 8, "us": {"exact": 1.5, "ring": 2}},
                                    {"bytes": 16, "us": {"ring": null}, "note": "a, \"b\""}])");
  EXPECT_EQ(csv_of(rows), "bytes,us.exact,us.ring,note\n8,1.5,2,\n16,,,\"a, \"\"b\"\"\"\n");
  EXPECT_EQ(csv_of(json::array()), "\n");
}

TEST(csv_text, foreign_text_stays_in_its_cell) {
  EXPECT_EQ(csv_cell(json("a\nb")), "a?b");
  EXPECT_EQ(csv_cell(json("\xff\x1b[31m")), "??[31m");
  EXPECT_EQ(csv_cell(json(true)), "true");
  EXPECT_EQ(csv_cell(json(-0.5)), "-0.5");
  EXPECT_EQ(csv_cell(json("null")), "null");
}

TEST(csv_text, elements_of_arrays_stay_in_one_cell) {
  EXPECT_EQ(csv_cell(json::parse("[0, 1, 5]")), "0 1 5");
  EXPECT_EQ(csv_cell(json::array()), "");
  EXPECT_EQ(csv_cell(json::parse(R"(["a,b", "c\nd", [1, 2]])")), "\"a,b c?d [1,2]\"");
}

TEST(csv_text, numbers_that_are_not_finite_are_nothing) {
  EXPECT_EQ(csv_cell(json(std::numeric_limits<double>::infinity())), "");
  EXPECT_EQ(csv_cell(json(std::numeric_limits<double>::quiet_NaN())), "");
  EXPECT_EQ(csv_cell(json::parse("[1, null]")), "1 ");
}

TEST(json_text, bytes_that_are_no_text_are_replaced) {
  EXPECT_EQ(json_text(json{{"name", "a\xff"}}, -1), "{\"name\":\"a\xef\xbf\xbd\"}");
  EXPECT_EQ(json_text(json{{"name", "\xed\xa0\x80"}}, -1).find('\xed'), std::string::npos);
}

TEST(progress, a_bar_fills_with_its_parts) {
  EXPECT_EQ(progress_line("sizes", 0, 4, 2.4, 0), "[........................] 0/4 sizes, 2 s");
  EXPECT_EQ(progress_line("sizes", 3, 4, 61, 0), "[##################......] 3/4 sizes, 61 s");
  EXPECT_EQ(progress_line("sizes", 9, 4, 3, 0), "[########################] 4/4 sizes, 3 s");
}

TEST(progress, work_of_unknown_length_shows_its_seconds) {
  EXPECT_EQ(progress_line("planning", 7, 0, 5, 30), "planning, 5 s of at most 30 s");
  EXPECT_EQ(progress_line(std::string(100, 'a'), 0, 0, 2, 0), std::string(60, 'a') + ", 2 s");
}

}}  // namespace csv_and_progress_test
