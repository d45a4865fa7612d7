# libtorch: LibTorch's CPU half, from the torch package's folder. Its CUDA half (libtorch_cuda.so, 2 GB with what it
# needs) is loaded by runtime/device.cpp when a run asks for a GPU, so that a CPU run starts a second earlier.
if(NOT EXISTS ${INKLING_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in INKLING_TORCH='${INKLING_TORCH}': without it scripts/environment installs one")
endif()
file(STRINGS ${INKLING_TORCH}/version.py INKLING_TORCH_VERSION REGEX "^__version__")
string(REGEX REPLACE ".*'([0-9.]+).*" "\\1" INKLING_TORCH_VERSION "${INKLING_TORCH_VERSION}")
set(INKLING_TORCH_VERSION ${INKLING_TORCH_VERSION} PARENT_SCOPE)  # for cmake/install.cmake
add_library(libtorch INTERFACE)
target_include_directories(libtorch SYSTEM INTERFACE ${INKLING_TORCH}/include
                           ${INKLING_TORCH}/include/torch/csrc/api/include)
# at::parallel_for is inline code: it needs the compiler's OpenMP, and LibTorch's own libgomp to run on the same threads.
target_compile_options(libtorch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_libraries(libtorch INTERFACE ${INKLING_TORCH}/lib/libtorch_cpu.so ${INKLING_TORCH}/lib/libc10.so
                      ${INKLING_TORCH}/lib/libgomp.so.1)
target_link_options(libtorch INTERFACE -Wl,--unresolved-symbols=ignore-in-shared-libs)
