// A run's event files from one start to the next. scripts/check-tensorboard has TensorBoard read them.
#include "train/board.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/paths.h"
#include "tests/temporary_folder.h"
#include "train/run_folder.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

class EventFiles : public testing::Test {
 protected:
  // A start of the run that goes on after `steps_done` and shows these steps.
  void start(std::int64_t steps_done, const std::vector<std::int64_t>& steps) const {
    EventFile file(folder.path(), steps_done);
    for (const std::int64_t step : steps) {
      SummaryValues values;
      values.add_number("loss", static_cast<double>(step));
      file.append(step, values);
    }
    file.sync();
  }

  // The bytes of each file.
  std::vector<std::uint64_t> sizes() const {
    std::vector<std::uint64_t> all;
    for (const std::string& name : names_in(folder.path())) all.push_back(InputFile(folder / name).size());
    return all;
  }

  const TemporaryFolder folder;
};

TEST_F(EventFiles, OfLaterStartsComeLaterWhateverTheClockSays) {
  const std::string future = folder.write("events.out.tfevents.9000000000.inkling", "");
  start(-1, {1});
  start(1, {2});
  const std::vector<std::string> names = names_in(folder.path());
  EXPECT_EQ(names, (std::vector<std::string>{"events.out.tfevents.9000000000.inkling",
                                             "events.out.tfevents.9000000001.inkling",
                                             "events.out.tfevents.9000000002.inkling"}));
}

TEST_F(EventFiles, LoseTheStepsThatAreMadeAgain) {
  start(-1, {1, 2, 3, 4});
  const std::uint64_t whole = sizes().at(0);
  drop_events_after(folder.path(), 4);
  EXPECT_EQ(sizes(), std::vector{whole});
  drop_events_after(folder.path(), 2);
  const std::uint64_t two_steps = sizes().at(0);
  EXPECT_LT(two_steps, whole);
  start(2, {3, 4});
  start(3, {4});
  EXPECT_EQ(sizes().at(0), two_steps);
  EXPECT_EQ(sizes().at(2), sizes().at(1));  // each with one step
  drop_events_after(folder.path(), -1);
  EXPECT_EQ(sizes(), (std::vector<std::uint64_t>{0, 0, 0}));
}

TEST_F(EventFiles, OfOtherProgramsStayAsTheyAre) {
  for (const char* name : {"events.out.tfevents.1700000000.host.1.0", "events.out.tfevents.17.inkling", "notes.inkling",
                           "events.out.tfevents.170000000x.inkling"}) {
    folder.write(name, "theirs");
    EXPECT_FALSE(is_event_file(folder / name)) << name;
  }
  drop_events_after(folder.path(), -1);
  EXPECT_EQ(sizes(), (std::vector<std::uint64_t>{6, 6, 6, 6}));
}

TEST_F(EventFiles, WithoutAStepLeaveTheFolderUnused) {
  TrainOptions options;
  options.out = folder / "run";
  options.fresh = true;
  fs::create_directories(options.out);
  {
    EventFile file(options.out, -1);
    SummaryValues values;
    values.add_text("settings", "");
    file.append(0, values);
    EXPECT_EQ(choose_run_folder(options), options.out);
    file.append(1, values);
  }
  EXPECT_EQ(choose_run_folder(options), folder / "run-2");
}

}  // namespace
}  // namespace inkling
