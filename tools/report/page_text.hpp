// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// The files of this folder that make up the page of `blink report`; embed.cmake writes the source
// that defines them.

namespace blink::tools {

extern std::string_view const page_html;
extern std::string_view const page_css;
extern std::string_view const page_js;       ///< data, tables, theme, downloads
extern std::string_view const picture_js;    ///< trees and proofs on the drawing
extern std::string_view const time_line_js;  ///< chunks on links, and calls of ranks
extern std::string_view const lessons_js;    ///< the classic algorithms, step by step
extern std::string_view const self_test_js;  ///< compares the page with its data

}  // namespace blink::tools
