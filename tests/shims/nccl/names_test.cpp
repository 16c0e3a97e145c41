// SPDX-License-Identifier: Apache-2.0
// The library has the functions that NCCL 2.32.3 exports, and all that PyTorch 2.15 refers to.

#include "program.hpp"
#include <dlfcn.h>
#include <function_list.hpp>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace names_test { namespace {

/// The names in a file of tests/data/nccl, without its comment lines.
std::vector<std::string> names_of(std::string const& file) {
  std::ifstream in(std::string(BLINK_TEST_DATA_DIR) + "/nccl/" + file);
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') names.push_back(line);
  }
  return names;
}
/// The names of all functions that the library declares, sorted.
std::vector<std::string> declared_names() {
  std::vector<std::string> names{"ncclResetDebugInitInternal"};
#define BLINK_NCCL_NAME(type, name, parameters) names.push_back("nccl" #name);
  BLINK_NCCL_FUNCTIONS(BLINK_NCCL_NAME)
#undef BLINK_NCCL_NAME
  std::sort(names.begin(), names.end());
  return names;
}
/// Those of the names, with `prefix` before them, that this program does not export.
std::vector<std::string> missing(std::vector<std::string> const& names,
                                 std::string const& prefix = "") {
  std::vector<std::string> result;
  for (auto const& name : names) {
    if (dlsym(RTLD_DEFAULT, (prefix + name).c_str()) == nullptr) result.push_back(prefix + name);
  }
  return result;
}
std::vector<std::string> const none;

TEST(nccl_names, of_nccl_are_all_there) {
  auto names = names_of("nccl_2_32_3.txt");
  EXPECT_EQ(names.size(), 97U);
  EXPECT_EQ(declared_names(), names) << "and no others";
  EXPECT_EQ(missing(names), none);
  EXPECT_EQ(missing({"ncclNoSuchFunction"}), std::vector<std::string>{"ncclNoSuchFunction"});
  std::erase(names, "ncclResetDebugInitInternal");  // NCCL has no second name for it
  EXPECT_EQ(missing(names, "p"), none);
}

TEST(nccl_names, of_torch_are_all_there) {
  auto const names = names_of("torch_2_15_0.txt");
  EXPECT_EQ(names.size(), 51U);
  EXPECT_EQ(missing(names), none);
  auto const all = names_of("nccl_2_32_3.txt");
  for (auto const& name : names) {
    EXPECT_NE(std::find(all.begin(), all.end(), name), all.end()) << name;
  }
}

TEST(nccl_names, second_names_are_the_same_functions) {
  for (auto const* const name : {"ncclAllReduce", "ncclCommGrow", "ncclTeamWorld"}) {
    EXPECT_EQ(dlsym(RTLD_DEFAULT, name), dlsym(RTLD_DEFAULT, (std::string("p") + name).c_str()));
  }
}

}}  // namespace names_test
