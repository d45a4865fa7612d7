// Shows facts and problems as one JSON object.
#include <nlohmann/json.hpp>

#include "doctor/doctor.h"

namespace inkling::doctor {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class Range, class Function>
Json list_of(const Range& range, Function&& object) {
  Json list = Json::array();
  for (const auto& element : range) list.push_back(object(element));
  return list;
}

Json json_of(const System& system) {
  return {{"distribution", system.distribution},
          {"kernel", system.kernel},
          {"virtual", system.is_virtual},
          {"container", system.is_container}};
}

Json json_of(const Processor& processor) {
  return {
      {"model", processor.model},
      {"cores", processor.cores},
      {"threads", processor.threads},
      {"usable_threads", processor.usable_threads},
      {"quota", or_null(processor.quota)},
      {"caches", list_of(processor.caches,
                         [](const CacheSize& cache) { return Json{{"level", cache.level}, {"bytes", cache.bytes}}; })},
      {"clock_limit", or_null(processor.clock_limit)}};
}

Json json_of(const InstructionSets& sets) {
  return {
      {"in_use", sets.in_use}, {"supported", sets.supported}, {"compiled", sets.compiled}, {"why_none", sets.why_none}};
}

Json json_of(const SystemMemory& memory) {
  return {{"total", or_null(memory.total)},
          {"available", or_null(memory.available)},
          {"group_limit", or_null(memory.group_limit)},
          {"group_free", or_null(memory.group_free)},
          {"swap_total", memory.swap_total},
          {"swap_free", memory.swap_free}};
}

Json json_of(const Disk& disk) {
  return {{"use", disk.use},
          {"path", disk.path},
          {"kind", disk.kind},
          {"total", disk.total},
          {"free", disk.free},
          {"free_files", disk.free_files},
          {"writable", disk.is_writable}};
}

Json json_of(const Graphics& graphics) {
  return {{"devices", graphics.devices},
          {"bus_driver", graphics.bus_driver},
          {"driver_version", graphics.driver_version},
          {"why_none", graphics.why_none},
          {"usable", list_of(graphics.gpus, [](const Gpu& gpu) {
             return Json{{"name", gpu.name},
                         {"memory", gpu.memory},
                         {"free", gpu.free},
                         {"compute_capability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor)}};
           })}};
}

Json json_of(const Libraries& libraries) {
  return {{"versions",
           list_of(libraries.all,
                   [](const Library& library) { return Json{{"name", library.name}, {"version", library.version}}; })},
          {"torch_built", libraries.torch_built},
          {"torch_loaded", libraries.torch_loaded},
          {"torch_folder", libraries.torch_folder},
          {"openmp", libraries.openmp}};
}

Json json_of(const Environment& environment) {
  Json variables = Json::object();
  for (const Variable& variable : environment.variables) variables[variable.name] = variable.value;
  return {{"variables", variables},
          {"locale", environment.locale},
          {"address_space", or_null(environment.address_space)},
          {"file_size", or_null(environment.file_size)}};
}

Json json_of(const Load& load) {
  return {{"programs", list_of(load.programs,
                               [](const Program& program) {
                                 return Json{{"process", program.process},
                                             {"name", program.name},
                                             {"cores", program.cores},
                                             {"run_folder", program.run_folder}};
                               })},
          {"busy_cores", load.busy},
          {"stolen_cores", load.stolen},
          {"load_average", load.average}};
}

Json json_of(const Speed& speed) {
  return {{"device", speed.device},
          {"dtype", speed.dtype},
          {"products", list_of(speed.products,
                               [](const ProductSpeed& product) {
                                 return Json{{"threads", product.threads}, {"flops_per_second", product.flops}};
                               })},
          {"thread_start_seconds", speed.thread_start},
          {"memory_bytes_per_second", speed.memory}};
}

Json json_of(const Choice& choice) {
  return {{"setting", "runtime." + choice.setting}, {"value", choice.value}, {"reason", choice.reason}};
}

Json json_of(const Forecast& forecast) {
  Json object = {{"name", forecast.name},
                 {"path", forecast.path},
                 {"why_not", forecast.why_not},
                 {"fits_with", forecast.fits_with}};
  if (forecast.parameters == 0) return object;
  object.update({{"parameters", forecast.parameters},
                 {"vocabulary", forecast.vocabulary},
                 {"runs_on", forecast.runs_on},
                 {"memory", forecast.memory},
                 {"disk", forecast.disk},
                 {"steps", forecast.steps},
                 {"batch_size", forecast.batch_size},
                 {"micro_batch_size", forecast.micro_batch_size},
                 {"split", forecast.split}});
  if (forecast.step_seconds > 0) {
    object["estimated"] = {{"step_seconds", forecast.step_seconds},
                           {"run_seconds", forecast.run_seconds},
                           {"arithmetic_share", forecast.arithmetic_share}};
  }
  if (forecast.measured_step) {
    object["measured"] = {{"step_seconds", *forecast.measured_step},
                          {"fastest_step_seconds", *forecast.measured_fastest},
                          {"slowest_step_seconds", *forecast.measured_slowest},
                          {"run_seconds", *forecast.measured_run},
                          {"windows", forecast.measured_windows}};
  }
  return object;
}

Json json_of(const Problem& problem) {
  return {{"name", problem.name},
          {"severity", problem.severity == Severity::cannot ? "cannot" : "warning"},
          {"text", problem.text},
          {"command", problem.command}};
}

}  // namespace

std::string as_json(const Facts& facts, const std::vector<Problem>& problems) {
  const auto all_of = [](const auto& range) { return list_of(range, [](const auto& each) { return json_of(each); }); };
  const bool works = problems.empty() || problems.front().severity != Severity::cannot;
  const Json object = {{"works", works},
                       {"problems", all_of(problems)},
                       {"system", json_of(facts.system)},
                       {"processor", json_of(facts.processor)},
                       {"instruction_sets", json_of(facts.instructions)},
                       {"memory", json_of(facts.memory)},
                       {"disks", all_of(facts.disks)},
                       {"gpu", json_of(facts.graphics)},
                       {"libraries", json_of(facts.libraries)},
                       {"environment", json_of(facts.environment)},
                       {"load", json_of(facts.load)},
                       {"speed", facts.speed ? json_of(*facts.speed) : Json(nullptr)},
                       {"auto", all_of(facts.choices.all)},
                       {"configs", all_of(facts.forecasts)}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace inkling::doctor
