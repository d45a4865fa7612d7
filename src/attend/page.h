// The page of inkling-attend: what every head of a model attends to in one text, to be explored in a browser.
#pragma once

#include <string>

#include "attend/attend.h"
#include "attend/attended_text.h"

namespace inkling {

// Returns one HTML file that is complete in itself and asks no network for anything. It opens with the head `shown`.
// All weights are kept in 8 bits (to the nearest 1/255); heads that are in full have everything in float32. Texts may
// hold anything: none of it becomes markup or script. docs/formats.md describes the numbers inside.
std::string attention_page(const AttendedText& text, HeadChoice shown);

}  // namespace inkling
