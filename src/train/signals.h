// Ctrl-C and SIGTERM end a run after the step it is in, and say so; a second one ends it at once.
#pragma once

namespace inkling {

// Catches both signals while it lives; requested() says whether one has come.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace inkling
