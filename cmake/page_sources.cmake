# Writes OUTPUT, a C++ source that holds the page of inkling-attend: FOLDER/page.html with page.css and the scripts in it.
# Run as cmake -DFOLDER=… -DOUTPUT=… -P page_sources.cmake, so that the program needs no file beside it.
foreach(script numbers elements text heads steps page)
  file(READ ${FOLDER}/${script}.js source)
  string(APPEND scripts "${source}\n")
endforeach()
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
string(REPLACE "@CSS@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${scripts}" page "${page}")
file(WRITE ${OUTPUT} "#include \"attend/page_sources.h\"\n\nnamespace inkling {\n\nconst std::string_view page_sources = R\"page(")
file(APPEND ${OUTPUT} "${page}")
file(APPEND ${OUTPUT} ")page\";\n\n}  // namespace inkling\n")
