"""What bash completes, with or without the package bash-completion."""

import shlex

from program import Option, Program, Setting

FUNCTIONS = r'''
# The runs here; folders where there is none that fits.
_inkling_runs() {
  local config
  for config in runs/*/config.yaml; do
    [[ -e $config && $config == "$1"* ]] && printf -v config %q "${config%/config.yaml}" && COMPREPLY+=("$config")
  done
  [[ ${#COMPREPLY[@]} -gt 0 ]] || _inkling_paths -d "$1"
}

# Files (-f) or folders (-d), and only those files that end in $3.
_inkling_paths() {
  local path
  compopt -o filenames 2> /dev/null
  while IFS= read -r path; do
    [[ -d $path || $path == *"${3-}" ]] && COMPREPLY+=("$path")
  done < <(compgen "$1" -- "$2")
}

# Configs; those that are installed where there is none.
_inkling_configs() {
  local installed
  _inkling_paths -f "$1" .yaml
  installed=$(type -P "$2")
  [[ -z $1 && $installed == */bin/* && " ${COMPREPLY[*]}" != *.yaml* ]] &&
    _inkling_paths -f "${installed%/bin/*}/share/inkling/configs/" .yaml
}

_inkling_words() {
  local IFS=$' \n'
  COMPREPLY=($(compgen -W "$2" -- "$1"))
}

_inkling_setting() {
  local word
  if [[ $1 != *=* ]]; then
    _inkling_words "$1" "$_inkling_keys"
    [[ ${#COMPREPLY[@]} -eq 1 ]] && compopt -o nospace 2> /dev/null
    return
  fi
  _inkling_value "${1#*=}" "$(_inkling_setting_values "${1%%=*}")"
  for word in "${!COMPREPLY[@]}"; do COMPREPLY[word]="${1%%=*}=${COMPREPLY[word]}"; done
}

# _inkling_value CURRENT KIND: the kind is a name in capitals, or words.
_inkling_value() {
  case $2 in
    RUN) _inkling_runs "$1" ;;
    CONFIG) _inkling_configs "$1" "$program" ;;
    FILE) _inkling_paths -f "$1" ;;
    FOLDER) _inkling_paths -d "$1" ;;
    SETTING) _inkling_setting "$1" ;;
    -) ;;
    *) _inkling_words "$1" "$2" ;;
  esac
}

_inkling() {
  local program=${1##*/} line=${COMP_LINE:0:COMP_POINT} words=() i current before beginning
  COMPREPLY=()
  # bash cuts words at "=" and ":"; what no space divides in the line is one word.
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    if [[ $i == 0 || $line == [[:space:]]* ]]; then
      line=${line#"${line%%[![:space:]]*}"}
      words+=("")
    fi
    if ((i == COMP_CWORD)); then
      words[${#words[@]}-1]+=$line
    else
      words[${#words[@]}-1]+=${COMP_WORDS[i]}
      line=${line#"${COMP_WORDS[i]}"}
    fi
  done
  current=${words[${#words[@]}-1]#[\"\']}
  before=${words[${#words[@]}-2]}
  beginning=""
  if [[ $current == --*=* && -n $(_inkling_kind "$program" "${current%%=*}") ]]; then
    before=${current%%=*}
    beginning=$before=
    current=${current#*=}
  fi
  if [[ -n $(_inkling_kind "$program" "$before") ]]; then
    _inkling_value "$current" "$(_inkling_kind "$program" "$before")"
  elif [[ $current == -* ]]; then
    _inkling_words "$current" "$(_inkling_flags "$program")"
  else
    _inkling_value "$current" "$(_inkling_kind "$program" "")"
  fi
  # bash replaces what stands behind the last "=" or ":" of the word.
  current=$beginning$current
  for i in "${!COMPREPLY[@]}"; do
    COMPREPLY[i]=$beginning${COMPREPLY[i]}
    [[ $COMP_WORDBREAKS != *=* || $current != *=* ]] || COMPREPLY[i]=${COMPREPLY[i]#"${current%"${current##*=}"}"}
  done
}
'''


def kind_of(option: Option) -> str:
    return " ".join(option.words) if option.kind == "words" else option.kind.upper()


def kinds(program: Program) -> list[str]:
    lines = []
    for option in program.options:
        names = option.flags or [""]
        kind = kind_of(option) or ("-" if option.type and not option.positional else "")
        lines += [f"    {shlex.quote(program.name + ' ' + name)}) echo {shlex.quote(kind)} ;;" for name in names if kind]
    return lines


def setting_kind(setting: Setting) -> str:
    return " ".join(setting.words) if setting.words and not setting.is_path else "FILE" if setting.is_path else ""


def completion(programs: list[Program], settings: list[Setting]) -> str:
    settings = [setting for setting in settings if not setting.is_section]
    lines = ["# Completion of inkling's programs for bash, made from their lists of flags and settings.",
             "_inkling_keys=" + shlex.quote(" ".join(setting.key + "=" for setting in settings)), "",
             "# What to complete after a flag of a program, or instead of an argument; - is anything.",
             "_inkling_kind() {", '  case "$1 $2" in']
    for program in programs:
        lines += kinds(program)
    lines += ["  esac", "}", "", "_inkling_flags() {", "  case $1 in"]
    for program in programs:
        flags = " ".join(flag for option in program.flags for flag in option.flags)
        lines.append(f"    {program.name}) echo {shlex.quote(flags)} ;;")
    lines += ["  esac", "}", "", "_inkling_setting_values() {", "  case $1 in"]
    lines += [f"    {setting.key}) echo {shlex.quote(setting_kind(setting))} ;;" for setting in settings
              if setting_kind(setting)]
    names = " ".join(program.name for program in programs)
    return "\n".join(lines + ["  esac", "}"]) + "\n" + FUNCTIONS + f"\ncomplete -F _inkling {names}\n"
