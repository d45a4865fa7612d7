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
install(PROGRAMS ${CMAKE_SOURCE_DIR}/scripts/fetch-shakespeare DESTINATION share/inkling/scripts)
if(EXISTS "${INKLING_GPT2_TOKENIZER}")
  install(FILES ${INKLING_GPT2_TOKENIZER}/encoder.json ${INKLING_GPT2_TOKENIZER}/vocab.bpe DESTINATION share/inkling/gpt2)
endif()
# scripts/package gathers the licences of what is linked in.
install(DIRECTORY ${CMAKE_BINARY_DIR}/licences DESTINATION share/doc/inkling OPTIONAL)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/THIRD_PARTY.md DESTINATION share/doc/inkling)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/inkling RENAME copyright)
install(FILES ${CMAKE_SOURCE_DIR}/docs/guide.md DESTINATION share/doc/inkling)

# For scripts/quickstart, and all that is installed, for scripts/package.
add_custom_target(programs DEPENDS ${plain_programs} ${torch_programs})
add_custom_target(installed DEPENDS programs inkling-launch inkling_library inkling_core interface
                  $<TARGET_NAME_IF_EXISTS:inkling_cuda>)

set(CPACK_PACKAGE_NAME inkling)
set(CPACK_PACKAGE_VENDOR "The inkling developers")
set(CPACK_PACKAGE_CONTACT "The inkling developers <inkling@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains small GPTs on your own text")
string(CONCAT CPACK_PACKAGE_DESCRIPTION
       "inkling trains a small transformer on your own text and writes new text\n"
       "with it. Its programs need LibTorch ${INKLING_TORCH_VERSION}, which comes with Python's package\n"
       "torch, and say how to install it where it is missing.")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3-venv)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "bash-completion, cmake")
# The distribution's own libraries become dependencies; LibTorch's, found in these folders, belong to no package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${INKLING_TORCH}/lib ${CUDAToolkit_ROOT}/lib)
include(CPack)
