# What `cmake --install` puts below its prefix, and what CPack packs. Nothing in it names a folder of the build, so that
# the prefix can be moved. Programs that need LibTorch are in lib/inkling/; under their names in bin/ is the launcher,
# which finds LibTorch where pip has put it.
include(cmake/interface.cmake)
get_property(plain_programs GLOBAL PROPERTY INKLING_PLAIN_PROGRAMS)
get_property(torch_programs GLOBAL PROPERTY INKLING_TORCH_PROGRAMS)
install(TARGETS ${plain_programs} RUNTIME DESTINATION bin)
install(TARGETS ${torch_programs} RUNTIME DESTINATION lib/inkling)
foreach(program ${torch_programs})
  install(PROGRAMS $<TARGET_FILE:inkling-launch> DESTINATION bin RENAME ${program})
endforeach()
if(TARGET inkling_cuda)
  install(TARGETS inkling_cuda LIBRARY DESTINATION lib/inkling)
endif()
# The library, for find_package(inkling).
include(CMakePackageConfigHelpers)
install(TARGETS inkling_library EXPORT inkling LIBRARY DESTINATION lib INCLUDES DESTINATION include)
install(TARGETS inkling_core LIBRARY DESTINATION lib/inkling)
install(CODE "file(INSTALL DESTINATION \${CMAKE_INSTALL_PREFIX}/lib/inkling FILES ${YAML_CPP_SHARED} FOLLOW_SYMLINK_CHAIN)")
install(FILES ${CMAKE_SOURCE_DIR}/src/library/inkling.h DESTINATION include/inkling)
install(EXPORT inkling NAMESPACE inkling:: FILE inkling-config.cmake DESTINATION lib/cmake/inkling)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/inkling-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/inkling-config-version.cmake DESTINATION lib/cmake/inkling)

file(GLOB grammars ${CMAKE_SOURCE_DIR}/data/*.grammar)
install(FILES ${grammars} DESTINATION share/inkling/data)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs DESTINATION share/inkling)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/THIRD_PARTY.md DESTINATION share/doc/inkling)
