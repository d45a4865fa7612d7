// Rotary positions: the pairs (i, i + D/2) of a query or a key turn by the angles of its position.
#include "kernels/cuda_tables.h"
#include "kernels/reductions.h"

namespace inkling::cuda {
namespace {

template <typename Element>
struct Rotated {
  const Element* in;
  Element* out;
  const float* cosines;
  const float* sines;
  std::int64_t angle_rows;
  float sign;
  int stride, rotated, half;  // elements of a row, of its rotated heads, and of half a head
};

// A block takes a row: each thread some pairs, and then some of the elements that are only copied.
template <typename Element>
__global__ void __launch_bounds__(block_size) rotate_kernel(Rotated<Element> rows) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const Element* const in = rows.in + row * rows.stride;
  Element* const out = rows.out + row * rows.stride;
  const std::int64_t angles = row % rows.angle_rows * rows.half;
  for (int pair = static_cast<int>(threadIdx.x); pair < rows.rotated / 2; pair += block_size) {
    const int i = pair % rows.half;
    const int place = pair / rows.half * 2 * rows.half + i;
    const float first = to_float(in[place]), second = to_float(in[place + rows.half]);
    const float cosine = rows.cosines[angles + i], sine = rows.sign * rows.sines[angles + i];
    out[place] = from_float<Element>(first * cosine - second * sine);
    out[place + rows.half] = from_float<Element>(second * cosine + first * sine);
  }
  if (in == out) return;
  for (int i = rows.rotated + static_cast<int>(threadIdx.x); i < rows.stride; i += block_size) out[i] = in[i];
}

template <typename Element>
void rotate(const Element* in, Element* out, const float* cosines, const float* sines, std::int64_t angle_rows,
            float sign, std::int64_t rows, std::int64_t stride, std::int64_t heads, std::int64_t head_size,
            Stream stream) {
  Rotated<Element> rotated = {};
  rotated.in = in;
  rotated.out = out;
  rotated.cosines = cosines;
  rotated.sines = sines;
  rotated.angle_rows = angle_rows;
  rotated.sign = sign;
  rotated.stride = static_cast<int>(stride);
  rotated.rotated = static_cast<int>(heads * head_size);
  rotated.half = static_cast<int>(head_size / 2);
  launch("rotate", rotate_kernel<Element>, static_cast<unsigned>(rows), block_size, stream, rotated);
}

}  // namespace

template <typename Element>
void fill_rotate(CudaKernels<Element>& table) {
  table.rotate = rotate<Element>;
}
template void fill_rotate(CudaKernels<float>&);
template void fill_rotate(CudaKernels<BFloat16>&);

}  // namespace inkling::cuda
