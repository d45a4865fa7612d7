"""What zsh completes."""

from program import Option, Program, Setting, plain

FUNCTIONS = r'''
# Runs of this folder; where there is none that fits, folders.
_inkling_runs() {
  local -a runs
  runs=(runs/*/config.yaml(N:h))
  compadd -a runs || _files -/
}

# Configs; those that are installed where there is none.
_inkling_configs() {
  local found=1 installed=${commands[$service]:h:h}/share/inkling/configs
  _path_files -g '*.(yaml|yml)' && found=0
  _path_files -/ && found=0
  ((found)) && [[ -z $PREFIX && -d $installed ]] && compadd -f $installed/*.yaml && found=0
  return found
}

_inkling_settings() {
  if ! compset -P 1 '*='; then
    _describe -t settings setting _inkling_keys -S ''
    return
  fi
  local key=${${IPREFIX%=}##*[=\"\']}
  case ${_inkling_values[$key]} in
    FILE) _files ;;
    ?*) compadd -- ${=_inkling_values[$key]} ;;
  esac
}
'''


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def escaped(text: str) -> str:
    """For a description between [ and ], or a part that ends at a colon."""
    return plain(text).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def action_of(option: Option) -> str:
    return {"run": "_inkling_runs", "config": "_inkling_configs", "setting": "_inkling_settings", "file": "_files",
            "folder": "_files -/", "words": "(" + " ".join(option.words) + ")"}.get(option.kind, " ")


def spec_of(option: Option) -> list[str]:
    """The words that _arguments takes for a flag or an argument."""
    if option.positional:
        return [quoted(("*" if option.repeatable else "") + f":{escaped(option.name)}:{action_of(option)}")]
    value = f":{escaped(option.type)}:{action_of(option)}" if option.type else ""
    if option.repeatable:
        return [quoted(f"*{flag}{'=' if flag.startswith('--') else ''}[{escaped(option.about)}]{value}")
                for flag in option.flags]
    others = "(" + " ".join(option.flags) + ")"
    equals = "=" if value else ""
    return [quoted(f"{others}{flag}{equals if flag.startswith('--') else ''}[{escaped(option.about)}]{value}")
            for flag in option.flags]


def completion(programs: list[Program], settings: list[Setting]) -> str:
    settings = [setting for setting in settings if not setting.is_section]
    lines = ["#compdef " + " ".join(program.name for program in programs),
             "# Completion of inkling's programs for zsh, made from their lists of flags and settings.", "",
             "local -a _inkling_keys", "local -A _inkling_values", "_inkling_keys=("]
    # A colon ends the key in what _describe reads.
    lines += ["  " + quoted(f"{setting.key}=:{setting.first_sentence}") for setting in settings]
    lines += [")", "_inkling_values=("]
    for setting in settings:
        values = "FILE" if setting.is_path else " ".join(setting.words)
        if values:
            lines.append(f"  {setting.key} {quoted(values)}")
    lines += [")", FUNCTIONS, "case $service in"]
    for program in programs:
        lines.append(f"  {program.name})")
        specs = [spec for option in program.options for spec in spec_of(option)]
        lines += ["    _arguments -s -S : \\"] + [f"      {spec} \\" for spec in specs]
        lines[-1] = lines[-1][:-2] + " ;;"
    return "\n".join(lines + ["esac"]) + "\n"
