// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace blink_test {

/// An empty folder, removed at the end.
class fresh_folder {
 public:
  fresh_folder() : name_((std::filesystem::temp_directory_path() / "blink-XXXXXX").string()) {
    if (mkdtemp(name_.data()) == nullptr) ADD_FAILURE() << "no folder " << name_;
  }
  fresh_folder(fresh_folder const&) = delete;
  fresh_folder& operator=(fresh_folder const&) = delete;
  ~fresh_folder() { std::filesystem::remove_all(name_); }
  [[nodiscard]] std::string const& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace blink_test
