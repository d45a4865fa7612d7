// One error type for everything that can go wrong; its kind decides the exit code.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace inkling {

// The values are the exit codes of every program (0 is success, 75 is "saved and stopped, run again").
enum class ErrorKind {
  internal = 1,     // a defect in inkling
  input = 2,        // bad input from the person: config, file, flag
  environment = 3,  // the machine cannot do it: no GPU, disk full, library missing
  diverged = 4,     // training diverged beyond recovery
};

// It is thrown by value and caught by reference in apps/. The message says what is wrong, where (file:line:column where
// there is one) and what to do about it.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  static Error input(std::string message) { return {ErrorKind::input, std::move(message)}; }
  static Error environment(std::string message) { return {ErrorKind::environment, std::move(message)}; }
  static Error internal(std::string message) { return {ErrorKind::internal, std::move(message)}; }

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

// Error environment: CUDA, or a library of it, has refused something. The message is what it said, which
// explain_gpu_error() of runtime/device.h explains to a person.
class GpuError : public Error {
 public:
  explicit GpuError(std::string message) : Error(ErrorKind::environment, std::move(message)) {}
};

}  // namespace inkling
