// A stand-in for libnccl.so.2: what c10d calls for ranks that are processes of this machine, each with a GPU in
// software. What one sends another is a file in their communicator's folder, whose name says from whom, to whom and
// which of theirs it is. It is sent when the stream comes to it, and whoever receives waits for it there. Work is late
// here until somebody waits for it, but a GPU does not wait for its host: a thread runs what the other ranks may wait
// for, a little later.
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime.h"

struct ncclComm {
  std::string folder;
  int rank = 0, ranks = 1, device = 0;
  std::map<int, unsigned long> sent = {}, received = {};  // how often to and from each rank
};

namespace software_gpu {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto as_late_as = 5ms;

struct Operation {
  ncclComm* communicator;
  cudaStream_t stream;
  bool is_send;
  void* buffer;
  std::size_t bytes;
  int peer;
};

thread_local int depth = 0;                   // of groups
thread_local std::vector<Operation> grouped;  // of the outermost group that is open

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      end_with_mistake("NCCL is asked for a type of numbers that the stand-in does not know");
  }
}

fs::path next_file(ncclComm& communicator, int peer, bool is_send) {
  const int from = is_send ? communicator.rank : peer, to = is_send ? peer : communicator.rank;
  const unsigned long number = (is_send ? communicator.sent : communicator.received)[peer]++;
  return fs::path(communicator.folder) /
         (std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number));
}

void write_file(const fs::path& path, const void* data, std::size_t bytes) {
  const fs::path growing = path.string() + ".part";
  std::ofstream(growing, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  fs::rename(growing, path);
}

void read_file(const fs::path& path, void* data, std::size_t bytes) {
  while (!fs::exists(path)) std::this_thread::sleep_for(1ms);
  if (fs::file_size(path) != bytes) {
    complain("a rank receives " + std::to_string(bytes) + " bytes where the other sends " +
             std::to_string(fs::file_size(path)) + ": " + path.filename().string());
    return;
  }
  std::ifstream(path, std::ios::binary).read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  fs::remove(path);
}

// Queues on a stream of the communicator's device, never in a recording: what others do meanwhile is none of it.
ncclResult_t submit_work(ncclComm& communicator, cudaStream_t stream, std::string name, std::vector<Use> uses,
                         std::function<void()> run) {
  Stream* const found = find_stream(stream);
  if (found == nullptr || found->device != communicator.device) {
    complain("NCCL is given a stream of another GPU than its communicator's");
    return ncclInvalidArgument;
  }
  if (found->capture != nullptr) {
    complain("an exchange between ranks is recorded");
    return ncclInvalidUsage;
  }
  for (const Use& use : uses) {
    if (use.bytes == 0 || (is_live(use.address, use.bytes) && device_of(use.address) == communicator.device)) continue;
    complain("NCCL is given memory that is not of its communicator's GPU: " + name);
    return ncclInvalidArgument;
  }
  static long left = number("EXCHANGES", -1);
  if (left == 0) return ncclSystemError;
  if (left > 0) --left;
  std::erase_if(uses, [](const Use& use) { return use.bytes == 0; });
  count(name);
  const Task task = {.work = {.kind = "exchange", .name = name, .run = computes() ? std::move(run) : nullptr},
                     .uses = std::move(uses)};
  return submit(found, task) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

// One group of sends and receives: all is sent before anything is waited for.
ncclResult_t queue_group(std::vector<Operation> operations) {
  const std::scoped_lock lock(mutex());
  if (operations.empty()) return ncclSuccess;
  ncclComm& communicator = *operations.front().communicator;
  const cudaStream_t stream = operations.front().stream;
  std::vector<Use> uses;
  std::vector<std::pair<Operation, fs::path>> files;
  for (const Operation& operation : operations) {
    if (operation.communicator != &communicator || operation.stream != stream) {
      end_with_mistake("a group of NCCL's calls is for several communicators or streams");
    }
    files.emplace_back(operation, next_file(communicator, operation.peer, operation.is_send));
    uses.push_back({operation.buffer, operation.bytes});
  }
  return submit_work(communicator, stream, "ncclSend and ncclRecv", std::move(uses), [files = std::move(files)] {
    for (const auto& [operation, path] : files) {
      if (operation.is_send) write_file(path, on_host(operation.buffer), operation.bytes);
    }
    for (const auto& [operation, path] : files) {
      if (!operation.is_send) read_file(path, on_host(operation.buffer), operation.bytes);
    }
  });
}

ncclResult_t add(Operation operation) {
  grouped.push_back(operation);
  return depth > 0 ? ncclSuccess : queue_group(std::exchange(grouped, {}));
}

template <typename Number>
void sum(const std::vector<std::vector<char>>& all, void* to) {
  auto* const out = static_cast<Number*>(to);
  for (std::size_t i = 0; i < all.front().size() / sizeof(Number); ++i) {
    Number total = 0;
    for (const std::vector<char>& of_rank : all) total += reinterpret_cast<const Number*>(of_rank.data())[i];
    out[i] = total;
  }
}

// Runs what is queued, a little later than it is.
void go_on() {
  while (true) {
    std::this_thread::sleep_for(as_late_as);
    const std::scoped_lock lock(mutex());
    run_everything();
  }
}

}  // namespace
}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string folder = (fs::temp_directory_path() / "software-nccl-XXXXXX").string();
  if (folder.size() >= sizeof id->internal) end_with_mistake("the folder for temporary files has too long a name");
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, folder.data(), folder.size());
  return mkdtemp(id->internal) != nullptr ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  const std::scoped_lock lock(mutex());
  *out = new ncclComm{.folder = id.internal, .rank = rank, .ranks = ranks, .device = current_device()};
  [[maybe_unused]] static const bool goes_on = (std::thread(go_on).detach(), true);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator->rank == 0) {
    std::error_code ignored;
    fs::remove_all(communicator->folder, ignored);
  }
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) { return ncclCommDestroy(communicator); }

ncclResult_t ncclCommCount(ncclComm_t communicator, int* count) {
  *count = communicator->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t communicator, int* rank) {
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "an error"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return --depth > 0 ? ncclSuccess : queue_group(std::exchange(grouped, {})); }

ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add({communicator, stream, true, const_cast<void*>(buffer), count * size_of(type), peer});
}

ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add({communicator, stream, false, buffer, count * size_of(type), peer});
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (operation != ncclSum || (type != ncclFloat64 && type != ncclFloat32)) {
    end_with_mistake("NCCL is asked to combine numbers otherwise than to add floats or doubles");
  }
  const std::scoped_lock lock(mutex());
  const std::size_t bytes = count * size_of(type);
  std::vector<fs::path> out, in;
  for (int rank = 0; rank < communicator->ranks; ++rank) {
    const bool is_own = rank == communicator->rank;
    out.push_back(is_own ? fs::path() : next_file(*communicator, rank, true));
    in.push_back(is_own ? fs::path() : next_file(*communicator, rank, false));
  }
  return submit_work(*communicator, stream, "ncclAllReduce", {{from, bytes}, {to, bytes}}, [=] {
    for (const fs::path& path : out) {
      if (!path.empty()) write_file(path, on_host(from), bytes);
    }
    std::vector<std::vector<char>> all;
    for (const fs::path& path : in) {
      std::vector<char>& of_rank = all.emplace_back(bytes);
      if (path.empty()) {
        std::memcpy(of_rank.data(), on_host(from), bytes);
      } else {
        read_file(path, of_rank.data(), bytes);
      }
    }
    type == ncclFloat64 ? sum<double>(all, on_host(to)) : sum<float>(all, on_host(to));
  });
}

}  // extern "C"
