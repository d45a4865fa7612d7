# Writes OUTPUT, a C++ source in which NAME, which HEADER declares, is the text of SOURCE, so that the program needs no file
# beside it: a file, or the page of inkling-attend in a folder, which is page.html with page.css and the scripts in it.
# Run as cmake -DSOURCE=… -DHEADER=… -DNAME=… -DOUTPUT=… -P text_source.cmake.
if(IS_DIRECTORY ${SOURCE})
  foreach(script numbers elements text heads steps page)
    file(READ ${SOURCE}/${script}.js source)
    string(APPEND scripts "${source}\n")
  endforeach()
  file(READ ${SOURCE}/page.html text)
  file(READ ${SOURCE}/page.css style)
  string(REPLACE "@CSS@" "${style}" text "${text}")
  string(REPLACE "@SCRIPT@" "${scripts}" text "${text}")
else()
  file(READ ${SOURCE} text)
endif()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nnamespace inkling {\n\nconst std::string_view ${NAME} = R\"source(")
file(APPEND ${OUTPUT} "${text}")
file(APPEND ${OUTPUT} ")source\";\n\n}  // namespace inkling\n")
