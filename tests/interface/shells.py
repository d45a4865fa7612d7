"""Real shells, asked what they would complete: bash and zsh at a terminal, fish by its own command."""
import os
import pty
import re
import select
import subprocess
from pathlib import Path

BEGIN, END = "+BEGIN+", "+END+"
FOR_PEOPLE = 60  # seconds until a shell that says nothing is given up

BASH = r"""
PS1= PS2=
bind 'set bell-style none' 'set enable-bracketed-paste off' 2> /dev/null
bind '"\C-t": insert-completions'
shown() { printf '%s\n' +BEG''IN+ "$@" +E''ND+; }
"""
ZSH = r"""
PS1= PS2= RPS1=
unsetopt zle_bracketed_paste prompt_cr prompt_sp beep 2> /dev/null
unset zle_bracketed_paste
fpath=($SHARE/zsh/vendor-completions $fpath)
autoload -Uz compinit && compinit -D -u
zle -C every complete-word _generic
zstyle ':completion:every:*' completer _all_matches _complete
zstyle ':completion:every:*' insert true
zstyle ':completion:every:*' menu no
bindkey -e
bindkey '^T' every
shown() { printf '%s\n' +BEG''IN+ "$@" +E''ND+ }
"""


def typed(command: list[str], environment: dict[str, str], folder: Path, keys: str) -> str:
    """What a program at a terminal writes until END, when these keys are typed."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)
    output = b""
    try:
        os.write(terminal, keys.encode())
        while not re.search(f"^{re.escape(END)}\r?$".encode(), output, re.MULTILINE):
            if not select.select([terminal], [], [], FOR_PEOPLE)[0]:
                raise AssertionError(f"{command[0]} says no more than {output.decode(errors='replace')}")
            try:
                output += os.read(terminal, 65536)
            except OSError:
                raise AssertionError(f"{command[0]} ended after {output.decode(errors='replace')}") from None
    finally:
        os.close(terminal)
        os.waitpid(process, 0)
    return output.decode()


class Shell:
    """Completes lines in a folder, with what build/share or an installed share holds."""

    def __init__(self, share: Path, folder: Path, binaries: Path):
        self.share, self.folder = share, folder
        self.environment = {"PATH": f"{binaries}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(folder), "LC_ALL": "C.UTF-8",
                            "SHARE": str(share), "HISTFILE": "", "COLUMNS": "1000", "LINES": "500"}

    def completions(self, line: str) -> list[str]:
        """The words that could stand where the last one of the line is."""
        raise NotImplementedError

    def words_at_prompt(self, command: list[str], line: str) -> list[str]:
        # ^T: all completions replace the last word; ^A and a command's name in front of the line show them.
        output = typed(command, self.environment, self.folder, line + "\x14\x01shown \r")
        lines = output.replace("\r", "").split("\n")
        shown = lines[lines.index(BEGIN) + 1:lines.index(END)]
        before = len(line.split(" ")) - 1  # the program, and the words that are not completed
        return sorted(word.removesuffix(" ") for word in shown[before:] if word)


class Bash(Shell):
    setup = "source $SHARE/bash-completion/completions/inkling-train"

    def completions(self, line: str) -> list[str]:
        rc = self.folder / ".bashrc"
        rc.write_text(BASH + self.setup + "\n")
        found = self.words_at_prompt(["bash", "--noprofile", "--rcfile", str(rc), "-i"], line)
        kept = re.match("(.*=)?", line.split(" ")[-1])[0]  # bash replaces what stands behind it, here by several words
        found = sorted(kept + word.removeprefix(kept) for word in found)
        return [] if found == [line.split(" ")[-1]] else found  # bash leaves the word where nothing fits


class BashWithItsCompletions(Bash):
    """The package bash-completion looks for a program's file when it is first completed."""
    setup = "source /usr/share/bash-completion/bash_completion"

    def __init__(self, share: Path, folder: Path, binaries: Path):
        super().__init__(share, folder, binaries)
        self.environment["XDG_DATA_DIRS"] = str(share)


class Zsh(Shell):
    def completions(self, line: str) -> list[str]:
        (self.folder / ".zshrc").write_text(ZSH)
        self.environment["ZDOTDIR"] = str(self.folder)
        found = self.words_at_prompt(["zsh", "-i"], line)
        return [] if found == [line.split(" ")[-1]] else found


class Fish(Shell):
    def completions(self, line: str) -> list[str]:
        start = f"set -g fish_complete_path {self.share}/fish/vendor_completions.d $fish_complete_path"
        done = subprocess.run(["fish", "--no-config", "-C", start, "-c", 'complete -C"$argv[1]"', line], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, check=True)
        assert not done.stderr, done.stderr
        return sorted(answer.split("\t")[0] for answer in done.stdout.splitlines())
