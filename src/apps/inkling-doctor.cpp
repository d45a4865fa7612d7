// inkling-doctor [CONFIG ...]: what this machine is, what training takes on it, and how to fix what is wrong.
#include "doctor/doctor.h"
#include "program.h"

int main(int argc, char** argv) {
  return inkling::run_program([&] {
    CLI::App app(
        "Says what this machine is, what training takes on it, and how to fix what\nis wrong. Ends with 3 if training "
        "cannot work here.",
        "inkling-doctor");
    inkling::doctor::Examination examination;
    bool json = false;
    app.add_option("CONFIG", examination.configs, "YAML files (default: inkling's own)");
    inkling::add_set_flag(app, examination.overrides, "override one setting of each CONFIG");
    app.add_flag("--measure", examination.measure, "time real steps of each, for 5 s, on random tokens");
    app.add_flag("--json", json, "print the same as one JSON object");
    if (!inkling::parse_flags(app, argc, argv)) return 0;
    const inkling::doctor::Facts facts = inkling::doctor::examine(examination);
    const std::vector<inkling::doctor::Problem> problems = inkling::doctor::judge(facts);
    std::cout << (json ? as_json(facts, problems) : as_text(facts, problems));
    const bool works = problems.empty() || problems.front().severity != inkling::doctor::Severity::cannot;
    return works ? 0 : static_cast<int>(inkling::ErrorKind::environment);
  });
}
