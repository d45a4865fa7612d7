// A run's event files for TensorBoard, in its folder, so that `tensorboard --logdir runs` names the run as its folder.
//
// Each start of a run writes a file of its own, which TensorBoard reads after those of earlier starts, by its name.
// What earlier starts wrote of steps that are made again is cut off first. A TensorBoard that reads the files meanwhile
// has no place within a file that grows again, and the new file tells it which steps to forget.
#pragma once

#include <cstdint>
#include <filesystem>

#include "formats/event_file.h"

namespace inkling {

// Whether this is the name of an event file that inkling writes.
bool is_event_file(const std::filesystem::path& file);

// Cuts off what belongs to steps after `steps_done` (-1: everything), and puts this on the disk. A file of which
// nothing is left stays: a TensorBoard that has it open would wait for it and read no other. Other programs' event
// files stay as they are. Throws Error environment if it cannot.
void drop_events_after(const std::filesystem::path& run, std::int64_t steps_done);

// Does the same, and cuts off what is shown behind the numbers of step `steps_done` too: its evaluation, its events and
// its samples.
void drop_reports_from(const std::filesystem::path& run, std::int64_t steps_done);

class EventFile {
 public:
  // Calls drop_events_after() and makes a new file, whose name comes after those of all that were there.
  EventFile(const std::filesystem::path& run, std::int64_t steps_done);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Appends the values of a step, which must not be before those of the last call, whole or, in a crash, in part.
  void append(std::int64_t step, const SummaryValues& values);
  void sync();  // puts everything so far on the disk; to be called before a checkpoint

 private:
  void write(const std::string& record);

  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace inkling
