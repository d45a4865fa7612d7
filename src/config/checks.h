// Checks of settings that must fit together, made when all of them are read.
#pragma once

#include "config/config.h"

namespace inkling {

// Throws an Error input that names the place of a setting which does not fit another one.
void check_fit(const Config& config);

// Does so for the settings of model: alone, which check_fit() leaves out where model.init_from completes them.
void check_model_fit(const Config& config);

}  // namespace inkling
