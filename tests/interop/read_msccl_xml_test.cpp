// SPDX-License-Identifier: Apache-2.0
// Algorithm files as others write them, and files that are wrong.
#include <blink/core/error.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/read_msccl_xml.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace {

using namespace blink;

std::string verdict(std::string const& text) {
  try {
    return check_program(read_msccl_xml(text, "a.xml")).fault.value_or("sound");
  } catch (input_error const& error) {
    return error.what();
  }
}

std::string replaced(std::string text, std::string const& what, std::string const& by) {
  auto const at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

// Rank 1 sends its chunk, rank 0 adds and sends back; everything in one buffer.
std::string pair_in(std::string const& buffer, std::string const& chunks) {
  auto const place = [&](char const* which) {
    return " " + std::string(which) + "buf=\"" + buffer + "\" " + which + "off=\"0\"";
  };
  auto const step = [&](std::string const& number, std::string const& type) {
    return "<step s=\"" + number + "\" type=\"" + type + "\"" + place("src") + place("dst") +
           " cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n";
  };
  return "<algo name=\"pair\" nchunksperloop=\"1\" nchannels=\"1\" proto=\"Simple\" ngpus=\"2\" "
         "coll=\"allreduce\" inplace=\"1\">\n"
         "<gpu id=\"0\" " +
         chunks + " s_chunks=\"0\">\n<tb id=\"0\" send=\"1\" recv=\"1\" chan=\"0\">\n" +
         step("0", "rrcs") + "</tb>\n</gpu>\n<gpu id=\"1\" " + chunks +
         " s_chunks=\"0\">\n<tb id=\"0\" send=\"0\" recv=\"0\" chan=\"0\">\n" + step("0", "s") +
         step("1", "r") + "</tb>\n</gpu>\n</algo>\n";
}

TEST(read_msccl_xml, one_buffer_for_both) {
  EXPECT_EQ(verdict(pair_in("i", "i_chunks=\"1\" o_chunks=\"0\"")), "sound");
  EXPECT_EQ(verdict(pair_in("o", "i_chunks=\"0\" o_chunks=\"1\"")), "sound");
  EXPECT_EQ(verdict(pair_in("o", "i_chunks=\"1\" o_chunks=\"1\"")), "sound");
  auto const program = read_msccl_xml(pair_in("i", "i_chunks=\"1\" o_chunks=\"0\""), "a.xml");
  EXPECT_TRUE(program.runs_in_place);
  EXPECT_FALSE(program.runs_out_of_place);  // not said: the opposite
}

TEST(read_msccl_xml, what_others_leave_out_or_order_otherwise) {
  EXPECT_EQ(verdict("<!-- by hand -->\n"
                    "<algo coll='allgather' inplace='1' name='x'>\n"
                    "  <gpu s_chunks='0' o_chunks='2' i_chunks='1' id='1'>\n"
                    "    <tb chan='0' recv='0' send='0' id='0'>\n"
                    "      <op type='s' buf='o' off='1' step='0'/>\n"
                    "      <op type='r' buf='o' off='0' step='1' cnt='1'/>\n"
                    "    </tb>\n"
                    "  </gpu>\n"
                    "  <gpu id='0' i_chunks='1' o_chunks='2'>\n"
                    "    <tb id='0' send='1' recv='1'>\n"
                    "      <op step='0' type='s' buf='o' off='0'/>\n"
                    "      <op step='1' type='r' buf='o' off='1'/>\n"
                    "    </tb>\n"
                    "  </gpu>\n"
                    "</algo>\n"),
            "sound");
}

TEST(read_msccl_xml, copies_before_the_steps) {
  std::string const text =
      "<algo name='x' coll='allgather' inplace='0' outofplace='1' nchunksperloop='2'>\n"
      "  <gpu id='0' i_chunks='1' o_chunks='2' s_chunks='0'>\n"
      "    <copy i_off='0' o_off='0'/>\n"
      "    <tb id='0' send='1' recv='1' chan='0'>\n"
      "      <step s='0' type='s' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0'/>\n"
      "      <step s='1' type='r' srcbuf='i' srcoff='0' dstbuf='o' dstoff='1'/>\n"
      "    </tb>\n"
      "  </gpu>\n"
      "  <gpu id='1' i_chunks='1' o_chunks='2' s_chunks='0'>\n"
      "    <copy i_off='0' o_off='1'/>\n"
      "    <tb id='0' send='0' recv='0' chan='0'>\n"
      "      <step s='0' type='s' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0'/>\n"
      "      <step s='1' type='r' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0'/>\n"
      "    </tb>\n"
      "  </gpu>\n"
      "</algo>\n";
  EXPECT_EQ(verdict(text), "sound");
  auto const missing = verdict(replaced(text, "<copy i_off='0' o_off='1'/>", ""));
  EXPECT_EQ(missing.rfind("rank 1", 0), 0U) << missing;
  EXPECT_NE(missing.find("chunk 1"), std::string::npos) << missing;
}

TEST(read_msccl_xml, names_file_line_and_what_was_expected) {
  auto const sound = pair_in("i", "i_chunks=\"1\" o_chunks=\"0\"");
  std::pair<std::pair<std::string, std::string>, std::string> const cases[] = {
      {{"type=\"rrcs\"", "type=\"rrsc\""}, "expected one of s, r, rcs"},
      {{"srcbuf=\"i\"", "srcbuf=\"x\""}, "expected i, o or s"},
      {{"srcoff=\"0\"", "srcoff=\"99999\""}, "99999"},
      {{"ngpus=\"2\"", "ngpus=\"3\""}, "2 <gpu> elements"},
      {{"<gpu id=\"1\"", "<gpu id=\"0\""}, "stands twice"},
      {{"<gpu id=\"1\"", "<gpu id=\"2\""}, "without gaps"},
      {{"coll=\"allreduce\"", "coll=\"allsum\""}, "allgather"},
      {{"proto=\"Simple\"", "proto=\"Fast\""}, "expected Simple, LL or LL128"},
      {{"<step s=\"1\"", "<step s=\"5\""}, "step number 5, expected 1"},
      {{"</algo>", ""}, "cut short"},
      {{"<tb id", "some words <tb id"}, "text between tags"}};
  for (auto const& [change, expected] : cases) {
    auto const found = verdict(replaced(sound, change.first, change.second));
    EXPECT_EQ(found.rfind("a.xml:", 0), 0U) << found;
    EXPECT_NE(found.find(expected), std::string::npos) << found << "\nwithout " << expected;
  }
  // Well-formed, and wrong: by rank, step and chunk.
  auto const outside = verdict(replaced(sound, "srcoff=\"0\"", "srcoff=\"7\""));
  EXPECT_NE(outside.find("rank 0, block 0, step 0, chunk 7"), std::string::npos) << outside;
}

}  // namespace
