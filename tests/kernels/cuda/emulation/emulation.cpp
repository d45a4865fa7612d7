// Threads of a block as fibers on stacks of their own. A fiber runs until it has to wait for others, then the next one
// goes on; where a whole round makes no progress, somebody waits for a thread that will never come.
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {
namespace {

constexpr std::size_t stack_bytes = 128 * 1024;  // of which a thread has half at least
constexpr std::size_t shift = 17 * 64;  // each stack begins so much lower than the last, or all share lines of a cache
constexpr unsigned warp_size = 32;
constexpr std::uint64_t far = 7919;  // a prime: from one block to the next that runs, in no order that a GPU promises

// A place to go on from: where its stack ends, on which lies all that a function must keep (System V ABI, x86-64).
struct Context {
  void* stack_pointer = nullptr;
};

// Leaves the place where it is called in `from`, and goes on at `to`. setjmp and swapcontext take ten times as long.
extern "C" void emulation_switch(Context* from, const Context* to);
asm(R"(
  .text
  .type emulation_switch, @function
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq (%rsi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size emulation_switch, . - emulation_switch
)");

struct Fiber {
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  Context context;
  uint3 index;
  bool finished;
};

// Threads that wait for each other; a thread that arrives in one generation goes on in the next.
struct Meeting {
  unsigned arrived = 0;
  unsigned generation = 0;
  int line = 0;
};

struct Warp {
  Meeting meeting;
  // What the lanes handed in, of this generation and of the last: a lane may hand in anew before the others have read.
  std::array<std::array<std::uint64_t, warp_size>, 2> values;
};

struct Block {
  const std::function<void()>* body = nullptr;
  unsigned threads = 0;
  unsigned running = 0;
  unsigned current = 0;
  bool backwards = false;  // whose turn is next
  unsigned waiting = 0;    // turns since a thread last got on
  Meeting barrier;
  std::vector<Warp> warps;
  std::string failure;
};

std::vector<std::unique_ptr<Fiber>> fibers;  // kept for the next block
Context host;
Block block;

std::string name_of(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

// Ends the whole launch from inside a fiber.
[[noreturn]] void fail(const std::string& what) {
  block.failure = what + " (thread " + name_of(threadIdx) + " of block " + name_of(blockIdx) + ")";
  emulation_switch(&fibers[block.current]->context, &host);
  std::abort();
}

// To the next thread of [first, first + count) that has not finished.
void next_thread(unsigned first, unsigned count) {
  Fiber& self = *fibers[block.current];
  do {
    if (block.backwards) {
      block.current = block.current == first ? first + count - 1 : block.current - 1;
    } else {
      block.current = block.current == first + count - 1 ? first : block.current + 1;
    }
  } while (fibers[block.current]->finished);
  Fiber& next = *fibers[block.current];
  if (&next == &self) return;
  emulation_switch(&self.context, &next.context);
  threadIdx = self.index;
}

// Waits until all threads of [first, first + count) have come. Only these take turns: a warp that does not wait for the
// others gets as far ahead of them as it can, so that what it must not overwrite yet shows.
void meet(Meeting& meeting, unsigned first, unsigned count, int line) {
  block.waiting = 0;
  if (meeting.arrived > 0 && meeting.line != line) {
    fail("threads wait for each other at lines " + std::to_string(meeting.line) + " and " + std::to_string(line));
  }
  meeting.line = line;
  const unsigned generation = meeting.generation;
  if (++meeting.arrived == count) {
    meeting.arrived = 0;
    ++meeting.generation;
    return;
  }
  while (meeting.generation == generation) {
    if (++block.waiting > 2 * count) fail("not every thread reaches line " + std::to_string(line));
    next_thread(first, count);
  }
}

void fiber_main() {
  Fiber& self = *fibers[block.current];
  for (;;) {  // once per block
    threadIdx = self.index;
    (*block.body)();
    self.finished = true;
    block.waiting = 0;
    if (--block.running == 0) {
      emulation_switch(&self.context, &host);
    } else {
      next_thread(0, block.threads);
    }
  }
}

void prepare_fibers(dim3 size) {
  while (fibers.size() < block.threads) {
    fibers.push_back(std::make_unique<Fiber>());
    // As if fiber_main() were about to be returned to, with six registers below its address.
    const std::size_t unused = 64 + fibers.size() * shift % (stack_bytes / 2);
    auto* const top = reinterpret_cast<void**>(fibers.back()->stack.get() + stack_bytes - unused);
    top[0] = reinterpret_cast<void*>(&fiber_main);
    fibers.back()->context.stack_pointer = top - 6;
  }
  for (unsigned i = 0; i < block.threads; ++i) {
    fibers[i]->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    fibers[i]->finished = false;
  }
}

// Every second block takes its threads from the last to the first, so that what a missing barrier lets through depends
// on the block and shows.
void run_block(dim3 size, unsigned number, const std::function<void()>& body) {
  block.body = &body;
  block.threads = block.running = size.x * size.y * size.z;
  block.backwards = number % 2 == 1;
  block.current = block.backwards ? block.threads - 1 : 0;
  block.waiting = 0;
  block.barrier = {};
  block.warps.assign(block.threads / warp_size, {});
  block.failure.clear();
  prepare_fibers(size);
  emulation_switch(&host, &fibers[block.current]->context);
  if (block.failure.empty()) return;
  fibers.clear();  // those that did not finish
  throw std::runtime_error(block.failure);
}

}  // namespace

void run(dim3 grid, dim3 size, const std::function<void()>& body) {
  if (size.x * size.y * size.z % warp_size != 0) throw std::runtime_error("a block of part of a warp");
  gridDim = grid;
  blockDim = size;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  const std::uint64_t stride = blocks % far == 0 ? 1 : far;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const auto number = static_cast<unsigned>(i * stride % blocks);
    blockIdx = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    run_block(size, static_cast<unsigned>(i), body);
  }
}

void barrier(int line) { meet(block.barrier, 0, block.threads, line); }

unsigned lane() { return block.current % warp_size; }

std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned from, int line) {
  if (mask != 0xffffffffu) fail("only exchanges of whole warps are emulated");
  Warp& warp = block.warps[block.current / warp_size];
  auto& values = warp.values[warp.meeting.generation % 2];
  values[lane()] = value;
  meet(warp.meeting, block.current / warp_size * warp_size, warp_size, line);
  return values[from];
}

}  // namespace emulation
