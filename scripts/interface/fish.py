"""What fish completes."""

from program import Option, Program, Setting, plain

FUNCTIONS = r'''
function __inkling_runs
    # Where there is no run that fits, folders.
    set -l token (commandline -ct)
    set -l configs $token*/config.yaml runs/*/config.yaml
    set -l runs (string replace /config.yaml '' -- $configs | string match -- "$token*" | sort -u)
    if test (count $runs) -gt 0
        printf '%s\trun\n' $runs
    else
        __fish_complete_directories $token ''
    end
end

function __inkling_configs
    set -l token (commandline -ct)
    set -l configs $token*.yaml $token*.yml
    printf '%s\n' $configs
    __fish_complete_directories $token ''
    if test (count $configs) -eq 0; and test -z "$token"
        set -l installed (string replace -r '/bin/[^/]*$' /share/inkling/configs -- (command -s $argv[1]))
        set configs $installed/*.yaml
        test (count $configs) -gt 0; and printf '%s\tinstalled\n' $configs
    end
end

function __inkling_settings
    set -l token (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
    if not string match -q '*=*' -- $token
        __inkling_keys
        return
    end
    set -l key (string split -m 1 = -- $token)[1]
    set -l values (__inkling_values $key)
    if test "$values" = FILE
        set -l beginning (string split -m 1 = -- $token)[2]
        set values $beginning*
    end
    test (count $values) -gt 0; and printf "$key=%s\n" $values
end
'''


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def values_of(option: Option, program: Program) -> str:
    """The flags of fish's complete that say what follows."""
    return {"run": "-x -a '(__inkling_runs)'", "config": f"-x -a '(__inkling_configs {program.name})'",
            "setting": "-x -a '(__inkling_settings)'", "file": "-r -F",
            "folder": "-x -a '(__fish_complete_directories (commandline -ct))'",
            "words": f"-x -a {quoted(' '.join(option.words))}"}.get(option.kind, "-x" if option.type else "")


def completion(program: Program, settings: list[Setting]) -> str:
    settings = [setting for setting in settings if not setting.is_section]
    lines = [f"# Completion of {program.name} for fish, made from its list of flags and the settings.", FUNCTIONS,
             "function __inkling_keys", "    printf '%s=\\t%s\\n' \\"]
    lines += [f"        {setting.key} {quoted(setting.first_sentence)} \\" for setting in settings]
    lines[-1] = lines[-1][:-2]
    lines += ["end", "", "function __inkling_values", "    switch $argv[1]"]
    for setting in settings:
        values = "FILE" if setting.is_path else " ".join(setting.words)
        if values:
            lines += [f"        case {setting.key}", f"            printf '%s\\n' {values}"]
    lines += ["    end", "end", "", f"complete -c {program.name} -f"]
    for option in program.options:
        about = f" -d {quoted(plain(option.about))}"
        if option.positional:
            lines.append(f"complete -c {program.name} {values_of(option, program).replace('-x', '-f')}{about}")
            continue
        names = " ".join(("-l " if flag.startswith("--") else "-s ") + flag.lstrip("-") for flag in option.flags)
        lines.append(f"complete -c {program.name} {names} {values_of(option, program)}".rstrip() + about)
    return "\n".join(lines) + "\n"
