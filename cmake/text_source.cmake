# Writes OUTPUT, a C++ source in which inkling::NAME is the text of SOURCES, so that the program needs no file beside it:
# a file, or a page: its HTML with the style and the scripts that follow it put in.
# Run as cmake -DSOURCES=… -DNAME=… -DOUTPUT=… -P text_source.cmake.
foreach(source IN LISTS SOURCES)
  file(READ ${source} content)
  if(source MATCHES "\\.css$")
    string(REPLACE "@CSS@" "${content}" text "${text}")
  elseif(source MATCHES "\\.js$")
    string(APPEND scripts "${content}\n")
  else()
    set(text "${content}")
  endif()
endforeach()
string(REPLACE "@SCRIPT@" "${scripts}" text "${text}")
file(WRITE ${OUTPUT} "#include <string_view>\n\nnamespace inkling {\n\n")
file(APPEND ${OUTPUT} "extern const std::string_view ${NAME};\nconst std::string_view ${NAME} = R\"source(")
file(APPEND ${OUTPUT} "${text}")
file(APPEND ${OUTPUT} ")source\";\n\n}  // namespace inkling\n")
