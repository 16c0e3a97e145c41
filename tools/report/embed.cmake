# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a C++ source with the files of FOLDER that page_text.hpp names, as raw strings.
# usage: cmake -DFOLDER=tools/report -DOUTPUT=page_text.cpp -P embed.cmake
set(source "// SPDX-License-Identifier: Apache-2.0\n#include \"${FOLDER}/page_text.hpp\"\n\nnamespace blink::tools {\n")
foreach(name IN ITEMS page.html page.css page.js picture.js time_line.js lessons.js self_test.js)
  file(READ "${FOLDER}/${name}" text)
  string(FIND "${text}" ")page\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${name} holds the end of a raw string, expected none")
  endif()
  string(REPLACE "." "_" variable "${name}")
  string(APPEND source "\nstd::string_view const ${variable} = R\"page(${text})page\";\n")
endforeach()
string(APPEND source "\n}  // namespace blink::tools\n")
file(WRITE "${OUTPUT}" "${source}")
