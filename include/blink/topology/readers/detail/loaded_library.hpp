// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <dlfcn.h>

#include <string>
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A library that is loaded at run time, and stays loaded.
class loaded_library {
 public:
  /// scope:    RTLD_LOCAL, or RTLD_GLOBAL for a library whose plugins need its functions
  /// missing:  for errors, what the computer lacks without it
  /// expected: for errors, the release that has all functions
  /// Throws:   resource_error if the library cannot be loaded.
  loaded_library(std::string name, int scope, std::string const& missing, std::string expected)
      : name_(std::move(name)),
        expected_(std::move(expected)),
        handle_(dlopen(name_.c_str(), RTLD_NOW | scope)) {
    if (handle_ == nullptr) throw resource_error(missing + ": " + dlerror());
  }

  /// Sets a pointer to the function of this name. One that is not needed may be null afterwards.
  ///
  /// Throws: resource_error if the library lacks one that is needed.
  template <class Function>
  void find(Function*& function, char const* name, bool is_needed = true) const {
    void* const address = dlsym(handle_, name);
    if (address == nullptr && is_needed) {
      throw resource_error(name_ + ": no function " + name + ", expected " + expected_);
    }
    function = reinterpret_cast<Function*>(address);
  }

 private:
  std::string name_, expected_;
  void* handle_;
};

}}}  // namespace blink::BLINK_ABI::detail
