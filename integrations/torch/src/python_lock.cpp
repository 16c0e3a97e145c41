// SPDX-License-Identifier: Apache-2.0
#include "python_lock.hpp"

#include <Python.h>

namespace blink_torch {

without_python_lock::without_python_lock()
    : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}

without_python_lock::~without_python_lock() {
  if (state_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

}  // namespace blink_torch
