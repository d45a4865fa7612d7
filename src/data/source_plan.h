// Which part of the sources is for training and which for validation.
#pragma once

#include <string>
#include <vector>

#include "data/source.h"
#include "data/source_reader.h"

namespace inkling {

// The tail of every source is for validation. The cut lies at (1 - val_fraction) of the source's bytes, moved to the
// nearest beginning of a document if one is nearer than val_fraction / 2 of the bytes. A single text without separators
// has no such place, so it is cut exactly there, rounded down to a whole character: for plain ASCII that is nanoGPT's
// data[int(0.9 * n):]. No cut lies inside a separator.
std::vector<PlannedFile> plan_tail(const std::vector<Source>& sources, double val_fraction,
                                   const std::string& separator = {});

// All of `sources` for one split.
std::vector<PlannedFile> plan_whole(const std::vector<Source>& sources, Split split);

}  // namespace inkling
