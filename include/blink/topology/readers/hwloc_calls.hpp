// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <dlfcn.h>

#include <string>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The functions of hwloc that `read_hwloc_live` calls, with the library's types. They are the
/// library's own (`load_hwloc`) or those of a test. All that return a number return 0 for success.
struct hwloc_calls {
  int (*init)(void** topology);                      ///< hwloc_topology_init
  int (*set_io_filter)(void* topology, int filter);  ///< hwloc_topology_set_io_types_filter
  int (*load)(void* topology);                       ///< hwloc_topology_load
  int (*export_xml)(void* topology, char** text, int* bytes, unsigned long flags);
  ///< hwloc_topology_export_xmlbuffer: `bytes` includes the zero at the end
  void (*free_xml)(void* topology, char* text);  ///< hwloc_free_xmlbuffer
  void (*destroy)(void* topology);               ///< hwloc_topology_destroy
};

/// Loads hwloc 2 and keeps it loaded. Programs that do not call this start without hwloc.
///
/// Throws: resource_error that names the missing library or function.
[[nodiscard]] inline hwloc_calls load_hwloc(std::string const& library = "libhwloc.so.15") {
  // Plugins, such as that for NVML, find the library's functions only among global ones.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw resource_error(std::string("no hwloc: ") + dlerror());
  auto const find = [&](auto& function, char const* name) {
    void* const address = dlsym(handle, name);
    if (address == nullptr) {
      throw resource_error(library + ": no function " + name + ", expected hwloc 2.1 or newer");
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  hwloc_calls result{};
  find(result.init, "hwloc_topology_init");
  find(result.set_io_filter, "hwloc_topology_set_io_types_filter");
  find(result.load, "hwloc_topology_load");
  find(result.export_xml, "hwloc_topology_export_xmlbuffer");
  find(result.free_xml, "hwloc_free_xmlbuffer");
  find(result.destroy, "hwloc_topology_destroy");
  return result;
}

}}  // namespace blink::BLINK_ABI
