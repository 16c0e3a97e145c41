// SPDX-License-Identifier: Apache-2.0
// Descriptions of 1 MiB of every format, within 256 MiB.

#include <blink/core/error.hpp>
#include <blink/topology/readers/read_machine.hpp>

#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include "support/sanitizers.hpp"
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace blink::large_inputs_test { namespace {

// AddressSanitizer takes ten times as long, and its memory is not the reader's.
constexpr std::size_t input_bytes = std::size_t{1} << (blink_test::has_address_sanitizer ? 16 : 20);

long peak_kib() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

/// Reads a description in a process of its own, whose memory is then its alone.
///
/// is_machine: false: an input_error is an answer too
void expect_little_memory(std::string const& text, std::string const& what,
                          bool is_machine = true) {
  constexpr long most_kib = 256 * 1024;
  enum : int { is_fine, is_refused, is_large, is_broken };
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    long const before = peak_kib();
    int end = is_fine;
    try {
      (void)read_machine_text(text, "input", machine_formats);
    } catch (input_error const&) {
      end = is_machine ? is_refused : is_fine;
    } catch (...) {
      end = is_broken;
    }
    if (!blink_test::has_address_sanitizer && peak_kib() - before > most_kib) end = is_large;
    _exit(end);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << what;
  EXPECT_NE(WEXITSTATUS(status), is_large) << what << ": more than 256 MiB";
  EXPECT_NE(WEXITSTATUS(status), is_refused) << what << ": refused";
  EXPECT_NE(WEXITSTATUS(status), is_broken) << what;
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = std::min(text.find('\n', at), text.size() - 1) + 1;
    result.push_back(text.substr(at, end - at));
    at = end;
  }
  return result;
}

/// A sample in which one line stands again and again, with another first number if `is_counted`.
std::string grown(std::vector<std::string> const& lines, std::size_t line, bool is_counted) {
  std::string result, rest;
  for (std::size_t k = 0; k < line; ++k) result += lines[k];
  for (std::size_t k = line + 1; k < lines.size(); ++k) rest += lines[k];
  auto const& again = lines[line];
  auto const begin = std::min(again.find_first_of("0123456789"), again.size());
  auto const end = std::min(again.find_first_not_of("0123456789", begin), again.size());
  for (std::size_t k = 0; result.size() + rest.size() < input_bytes; ++k) {
    result += is_counted ? again.substr(0, begin) + std::to_string(k) + again.substr(end) : again;
  }
  return result + rest;
}

// Each line of each sample that differs from earlier ones in more than numbers.
TEST(large_inputs, of_many_equal_lines) {
  for (auto const& file :
       std::filesystem::directory_iterator(BLINK_SOURCE_DIR "/tests/data/machines")) {
    auto const lines = lines_of(blink_test::text_of(file.path().string()));
    std::set<std::string> shapes;
    for (std::size_t k = 0; k < lines.size(); ++k) {
      auto shape = lines[k];
      std::erase_if(shape, [](unsigned char c) { return std::isdigit(c) != 0; });
      if (!shapes.insert(shape).second) continue;
      for (bool const is_counted : {false, true}) {
        if (is_counted && shape == lines[k]) continue;
        auto const what = file.path().filename().string() + ", line " + std::to_string(k + 1);
        expect_little_memory(grown(lines, k, is_counted), what, false);
      }
    }
  }
}

/// Rows for `count` devices: `name`, then a word for each column.
std::string square(int count, std::function<std::string(int)> const& name,
                   std::function<std::string(int, int)> const& word, char const* between,
                   char const* last) {
  std::string result;
  for (int row = 0; row < count; ++row) {
    result += name(row);
    for (int column = 0; column < count; ++column) result += between + word(row, column);
    result += last;
  }
  return result;
}

std::string heads(int count, char const* between, std::function<std::string(int)> const& name) {
  std::string result;
  for (int k = 0; k < count; ++k) result += between + name(k);
  return result;
}

TEST(large_inputs, of_many_devices_in_a_table) {
  auto const gpu = [](int k) { return "GPU" + std::to_string(k); };
  auto const same = [](std::string const& self, std::string const& other) {
    return [=](int a, int b) { return a == b ? self : other; };
  };
  expect_little_memory(square(
                           700, [](int) { return std::string(); }, same("0", "1"), " ", "\n"),
                       "a matrix of rates");
  for (auto const* path : {"NV4", "SYS", "PIX"}) {
    expect_little_memory("\t" + heads(440, "\t", gpu) + "\tCPU Affinity\n" +
                             square(440, gpu, same(" X ", path), "\t", "\t0-7\n"),
                         path);
  }
  // The other devices of each processor's own.
  std::string rows;
  for (int row = 0; row < 440; ++row) {
    rows += gpu(row);
    for (int k = 0; k < 440; ++k) rows += k == row ? "\t X " : "\tSYS";
    rows += "\t" + std::to_string(row) + "\n";
  }
  expect_little_memory("\t" + heads(440, "\t", gpu) + "\tCPU Affinity\n" + rows, "processors");
  std::string const bar(30, '=');
  expect_little_memory(bar + " ROCm System Management Interface " + bar + "\n" + bar +
                           " Weight between two GPUs " + bar + "\n" + heads(300, " ", gpu) + "\n" +
                           square(300, gpu, same("0", "15"), " ", "\n") + bar +
                           " Link Type between two GPUs " + bar + "\n" + heads(300, " ", gpu) +
                           "\n" + square(300, gpu, same("0", "XGMI"), " ", "\n"),
                       "rocm-smi");
  auto const tile = [](int k) {
    return "GPU " + std::to_string(k / 2) + "/" + std::to_string(k % 2) + " ";
  };
  expect_little_memory("  " + heads(400, "|", tile) + "|CPU Affinity\n" +
                           square(400, tile, same("S", "XL16"), "|", "|0-3\n"),
                       "xpu-smi");
}

/// The bus id of a device.
std::string bus(int k) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:00.0", static_cast<unsigned>(k / 256),
                static_cast<unsigned>(k % 256));
  return text;
}
std::string xml_gpu(int k, std::string const& inside) {
  return "<pci busid=\"" + bus(k) + "\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" " +
         "link_width=\"16\"><gpu dev=\"" + std::to_string(k) + "\" sm=\"80\" rank=\"" +
         std::to_string(k) + "\" gdr=\"1\">" + inside + "</gpu></pci>\n";
}
constexpr char const* xml_cpu =
    "\" affinity=\"0000ffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"23\" "
    "modelid=\"49\">";

TEST(large_inputs, of_many_devices_in_xml) {
  std::string gpus;
  for (int k = 0; k < 3000; ++k) {
    std::string links;
    for (int const step : {1, 2, 2998, 2999}) {
      links +=
          "<nvlink target=\"" + bus((k + step) % 3000) + "\" count=\"1\" tclass=\"0x030200\"/>";
    }
    gpus += xml_gpu(k, links);
  }
  auto const one = std::string("<cpu numaid=\"0") + xml_cpu + gpus + "</cpu>";
  expect_little_memory("<system version=\"1\">" + one + "</system>", "GPUs of one processor");
  std::string processors;
  for (int k = 0; k < 3800; ++k) {
    processors += "<cpu numaid=\"" + std::to_string(k) + xml_cpu + xml_gpu(k, "") + "</cpu>";
  }
  auto const all = "<system version=\"1\">" + processors + "</system>";
  expect_little_memory(all, "processors", false);
  EXPECT_ERROR((void)read_machine_text(all, "input", machine_formats),
               "3800 processors with devices, expected at most 256");
}

TEST(large_inputs, of_long_lists) {
  std::string links;
  int count = 0;
  for (; links.size() < input_bytes; ++count) {
    links += std::to_string(count) + " " + std::to_string(count + 1) + " 4Gbps 0ms 0\n";
  }
  auto const nodes = std::to_string(count + 1);
  expect_little_memory(nodes + " 1 " + std::to_string(count) + "\n0\n" + links, "ns-3");
  std::string switches;
  for (int k = 0; k < 24'000; ++k) {
    switches += "SwitchName=r" + std::to_string(k) + " Nodes=n[" + std::to_string(2 * k) + "-" +
                std::to_string(2 * k + 1) + "]\n";
  }
  expect_little_memory(switches + "SwitchName=s Switches=r[0-23999]\n", "Slurm", false);
  expect_little_memory("SwitchName=s Nodes=n[0-99999999]\n", "Slurm's ranges", false);
  expect_little_memory(
      "topology: [ FullyConnected ]\nnpus_count: [ 60000 ]\nbandwidth: [ 2 ]\nlatency: [ 5 ]\n",
      "ASTRA-sim", false);
}

}}  // namespace blink::large_inputs_test
