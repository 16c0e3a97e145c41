// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <string>

namespace {

using blink_torch::backend;

c10::intrusive_ptr<blink_torch::group_base> make(c10::intrusive_ptr<c10d::Store> const& store,
                                                 int rank, int size,
                                                 std::chrono::milliseconds timeout,
                                                 std::string const& name, bool begins_empty) {
  return c10::make_intrusive<backend>(store, rank, size, timeout, name, begins_empty);
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "Process groups of PyTorch that run on blink.";
  module.def("make", &make, pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"),
             pybind11::arg("timeout"), pybind11::arg("name"), pybind11::arg("begins_empty"),
             pybind11::call_guard<pybind11::gil_scoped_release>());
}
