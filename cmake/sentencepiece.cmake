# sentencepiece, static and hidden: its symbols (it carries a protobuf of its own) must not meet LibTorch's.
add_library(sentencepiece INTERFACE)
target_include_directories(sentencepiece SYSTEM INTERFACE ${INKLING_SENTENCEPIECE}/include)
target_link_libraries(sentencepiece INTERFACE ${INKLING_SENTENCEPIECE}/lib/libsentencepiece_train.a
                      ${INKLING_SENTENCEPIECE}/lib/libsentencepiece.a "-Wl,--exclude-libs,ALL")
