# Man pages, what shells complete, and the config's JSON schema, in build/share/: printed by the programs themselves and
# arranged by scripts/interface. A new program needs nothing here.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
get_property(programs GLOBAL PROPERTY INKLING_PLAIN_PROGRAMS)
get_property(torch_programs GLOBAL PROPERTY INKLING_TORCH_PROGRAMS)
list(APPEND programs ${torch_programs})
set(share ${CMAKE_BINARY_DIR}/share)
set(schema ${share}/inkling/config.schema.json)
file(MAKE_DIRECTORY ${share}/inkling ${CMAKE_BINARY_DIR}/interface)
add_custom_command(OUTPUT ${schema} COMMAND inkling-train --schema > ${schema} DEPENDS inkling-train VERBATIM)
set(interfaces)
foreach(program ${programs})
  set(interface ${CMAKE_BINARY_DIR}/interface/${program}.json)
  add_custom_command(OUTPUT ${interface} COMMAND ${program} --interface > ${interface} DEPENDS ${program} VERBATIM)
  list(APPEND interfaces ${interface})
endforeach()
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/interface/*)
add_custom_command(OUTPUT ${share}/man/man5/inkling-config.5
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}/man ${share}/bash-completion ${share}/zsh ${share}/fish
                   COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/scripts/interface ${share} ${schema} ${interfaces}
                   DEPENDS ${scripts} ${schema} ${interfaces} VERBATIM)
add_custom_target(interface ALL DEPENDS ${share}/man/man5/inkling-config.5)
install(DIRECTORY ${share}/ DESTINATION share)
