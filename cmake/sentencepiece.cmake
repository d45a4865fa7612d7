# sentencepiece, static and hidden: its symbols (it carries a protobuf of its own) must not meet LibTorch's.
# INKLING_SENTENCEPIECE names its folder; without it the newest one that scripts/environment has built is taken.
if(NOT INKLING_SENTENCEPIECE)
  file(GLOB built $ENV{HOME}/.cache/inkling/*/sentencepiece)
  list(POP_BACK built INKLING_SENTENCEPIECE)
endif()
if(NOT EXISTS ${INKLING_SENTENCEPIECE}/lib/libsentencepiece_train.a)
  message(FATAL_ERROR "sentencepiece is missing: run scripts/build, or set INKLING_SENTENCEPIECE to the folder with its "
                      "include/ and lib/")
endif()
add_library(sentencepiece INTERFACE)
target_include_directories(sentencepiece SYSTEM INTERFACE ${INKLING_SENTENCEPIECE}/include)
target_link_libraries(sentencepiece INTERFACE ${INKLING_SENTENCEPIECE}/lib/libsentencepiece_train.a
                      ${INKLING_SENTENCEPIECE}/lib/libsentencepiece.a "-Wl,--exclude-libs,ALL")
