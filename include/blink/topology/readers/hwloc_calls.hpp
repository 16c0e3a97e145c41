// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/readers/detail/loaded_library.hpp>

#include <dlfcn.h>

#include <string>

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
  detail::loaded_library const functions(library, RTLD_GLOBAL, "no hwloc", "hwloc 2.1 or newer");
  hwloc_calls result{};
  functions.find(result.init, "hwloc_topology_init");
  functions.find(result.set_io_filter, "hwloc_topology_set_io_types_filter");
  functions.find(result.load, "hwloc_topology_load");
  functions.find(result.export_xml, "hwloc_topology_export_xmlbuffer");
  functions.find(result.free_xml, "hwloc_free_xmlbuffer");
  functions.find(result.destroy, "hwloc_topology_destroy");
  return result;
}

}}  // namespace blink::BLINK_ABI
